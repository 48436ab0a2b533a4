"""Judge a bundle's pictures.

``python -m training.evaluate_renderer --heads FOLDER --anchor FILE.npz [--bundle FOLDER] [--sheet JPG]``.

FOLDER holds held-out people of ``training.head_worker`` whom no run has seen, the file an anchor packed by
``training.anchor_pack``. Prints JSON: PSNR of the whole crop, of the box around the face (hair included), of the face
inside the outline of its landmarks, and of the mouth; mouth sharpness over the target's; landmark error in percent of
the eye distance; and the motion extractor's error in pixels of the 512 crop.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch

from newsstudio_ditto.faces.finder import FaceFinder
from newsstudio_ditto.networks.bundle import load_bundle
from training.export import BUNDLED
from training.lips import LEFT_EYE, RIGHT_EYE
from training.pool import PictureSet, load_packed, load_people
from training.renderer_model import Renderer, evaluate_motion, evaluate_renderer
from training.renderer_training import write_preview

TARGETS = {
    "anchor_face_db": 34.0,
    "anchor_mouth_db": 33.0,
    "anchor_sharpness": 0.9,
    "heads_face_db": 28.0,
    "heads_mouth_db": 27.0,
}
LIMITS = {"heads_landmarks_percent": 1.2, "heads_motion_px": 3.0}


def _to_bytes(picture: torch.Tensor) -> np.ndarray:
    """Picture (3, S, S), 0..1 -> (S, S, 3) uint8."""
    return (picture * 255).byte().permute(1, 2, 0).numpy().copy()


def face_outlines(pictures: torch.Tensor, finder: FaceFinder) -> torch.Tensor:
    """Masks (B, 1, S, S) of what the landmarks of the face in each of the pictures (B, 3, S, S) enclose.

    A picture in which no face is found gets an empty mask.
    """
    masks = np.zeros((len(pictures), 1, *pictures.shape[2:]), np.uint8)
    for picture, mask in zip(pictures, masks, strict=True):
        faces = finder.observe(_to_bytes(picture))
        if faces:
            cv2.fillConvexPoly(mask[0], cv2.convexHull(faces[0].landmarks[:, :2].astype(np.int32)), 1)
    return torch.from_numpy(masks).float()


def landmark_error(rows: list[torch.Tensor], finder: FaceFinder) -> float:
    """Mean distance of output landmarks from target landmarks, percent of the eye distance; rows are source.

    Target, output.
    """
    errors = []
    for row in rows:
        _, target, output = (_to_bytes(x) for x in row.clamp(0, 1).chunk(3, -1))
        found = [finder.observe(image) for image in (target, output)]
        if all(found):
            a, b = (faces[0].landmarks[:, :2] for faces in found)
            errors.append(np.linalg.norm(a - b, axis=1).mean() / np.linalg.norm(a[LEFT_EYE] - a[RIGHT_EYE]))
    return float(np.mean(errors) * 100)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=BUNDLED)
    parser.add_argument("--heads", type=Path)
    parser.add_argument("--anchor", type=Path)
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    bundle, device = load_bundle(options.bundle), torch.device("cpu")
    renderer = Renderer(bundle.config.networks).eval()
    for name in ("appearance", "warp", "decoder"):
        renderer.get_submodule(name).load_state_dict(getattr(bundle, name).state_dict())
    sets: dict[str, PictureSet] = {}
    if options.heads:
        sets["heads"] = load_people(options.heads, device)
    if options.anchor:
        sets["anchor"] = load_packed(options.anchor, device)[1]
    finder = FaceFinder()
    figures: dict[str, float] = {}
    rows: list[torch.Tensor] = []
    for name, pictures in sets.items():
        scores, examples = evaluate_renderer(
            renderer, pictures, frames=12, find_outline=partial(face_outlines, finder=finder)
        )
        figures |= {f"{name}_{key}": value for key, value in scores.items()}
        figures[f"{name}_landmarks_percent"] = landmark_error(examples, finder)
        figures[f"{name}_motion_px"] = evaluate_motion(bundle.motion_extractor, pictures)
        rows += examples
    if options.sheet:
        write_preview(rows, options.sheet)
    missed = [name for name, target in TARGETS.items() if figures.get(name, target) < target]
    missed += [name for name, limit in LIMITS.items() if figures.get(name, limit) > limit]
    sys.stdout.write(json.dumps({"figures": figures, "missed": missed}, indent=1) + "\n")


if __name__ == "__main__":
    main()
