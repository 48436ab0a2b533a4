"""Add ``landmark_vertices`` to the pack: for each of the 478 face landmarks, the vertex that lies under it.

Run once after ``training.pack``: ``python -m training.landmark_map``. Frontal heads are rendered, the packaged
landmark network looks at them, and each landmark takes the visible vertex that is nearest on average.
"""

import numpy as np

from newsstudio_ditto.faces.finder import FaceFinder
from training.head_model import PACK_PATH, Camera, HeadPack, Identity, Pose, project
from training.head_renderer import HeadRenderer
from training.look import random_identity

NUM_PEOPLE = 12
SIZE_PX = 512
FACING = 0.02


def visible_vertices(renderer: HeadRenderer, pack: HeadPack) -> np.ndarray:
    """Whether each vertex (V,) is skin or eye on the front of the head."""
    normals = renderer._normals(renderer.shape)
    outer = np.unique(np.concatenate([pack.faces[n][..., 0].ravel() for n in ("body", "helper-l-eye", "helper-r-eye")]))
    mask = np.zeros(len(pack.vertices), bool)
    mask[outer] = True
    return mask & (normals[:, 2] > FACING) & (renderer.shape[:, 2] > 0.3)


def main() -> None:
    """Measure and rewrite the pack."""
    pack, finder = HeadPack(), FaceFinder(num_threads=1)
    renderer = HeadRenderer(pack, SIZE_PX)
    total = np.zeros((478, len(pack.vertices)))
    for seed in range(NUM_PEOPLE):
        random = np.random.default_rng(seed)
        shape = renderer.dress(random, random_identity(random, pack) if seed else Identity())
        found = finder.observe(renderer.render({}, Pose(), Camera()))
        if not found:
            continue
        points = (project(shape, Camera(), pack.eye_height(shape))[:, :2] + 1) * SIZE_PX / 2
        distance = np.linalg.norm(found[0].landmarks[:, None, :2] - points[None], axis=2)
        total += np.where(visible_vertices(renderer, pack)[None], distance, 1e3)
    with np.load(PACK_PATH) as old:
        arrays = {name: old[name] for name in old.files}
    arrays["landmark_vertices"] = total.argmin(1).astype(np.int32)
    np.savez_compressed(PACK_PATH, **arrays)


if __name__ == "__main__":
    main()
