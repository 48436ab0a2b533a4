"""Pack rendered anchor frames with exact labels: ``python -m training.anchor_pack FOLDER OUT.npz [--size 640]``.

The folder is what ``training.anchor.render`` writes, finished or not: ``train/NNNN.png`` by the nominal camera with
``NNNN.json`` =
``{"co": face units, "rot": degrees, "tr": shift}``, frame 0 neutral; and, used if there, ``loop/`` with ``wide.png``,
from which the face is cut. An archive of an earlier format (``i0``, ``kp``, ``jo``) is taken as well; its pose is
then fitted to the keypoints.
"""

import argparse
import functools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import torch

from training.anchor.loop_video import region_corner
from training.files import save_arrays
from training.framing import FACE_DEPTH
from training.head_model import (
    NOMINAL_DISTANCE,
    NOMINAL_FOV_RAD,
    Camera,
    HeadPack,
    Identity,
    Pose,
    canonical_keypoints,
    head_pack,
    picture_keypoints,
    pose_labels,
)
from training.labels import RIGID_KEYPOINTS, crop_keypoints
from training.pool import cut, encode_png, encode_webp

WIDE_CAMERA = Camera(0.0, -0.45, NOMINAL_DISTANCE, math.radians(14.5))
QUALITY = 90


@dataclass
class Shots:
    """Frames gathered so far; keypoints in crop coordinates."""

    images: list[np.ndarray] = field(default_factory=list)
    keypoints: list[np.ndarray] = field(default_factory=list)
    angles_deg: list[np.ndarray] = field(default_factory=list)
    jaw: list[float] = field(default_factory=list)

    def add(self, image: np.ndarray, keypoints: np.ndarray, pose: Pose, jaw: float) -> None:
        """Store one frame, RGB."""
        self.images.append(image)
        self.keypoints.append(keypoints)
        self.angles_deg.append(pose_labels(pose, Camera())[0])
        self.jaw.append(jaw)


def _read_shots(folder: Path, last: int | None = None) -> Iterator[tuple[np.ndarray, dict[str, float], Pose]]:
    """Picture (RGB), face units and pose of every finished frame, or of those up to number ``last``."""
    for path in sorted(folder.glob("[0-9]*.json")):
        if last is not None and int(path.stem) > last:
            break
        image = cv2.imread(str(path.with_suffix(".png")))
        if image is not None:
            frame = json.loads(path.read_text())
            yield cv2.cvtColor(image, cv2.COLOR_BGR2RGB), frame["co"], Pose(tuple(frame["rot"]), tuple(frame["tr"]))


def _face_in_wide() -> np.ndarray:
    """The nominal camera's picture inside the wide one: centre x, y, half side, angle.

    In the wide picture's coordinates.
    """
    up = (
        (WIDE_CAMERA.below_eyes - Camera().below_eyes)
        / math.tan(WIDE_CAMERA.fov_rad / 2)
        / (NOMINAL_DISTANCE - FACE_DEPTH)
    )
    half = math.tan(NOMINAL_FOV_RAD / 2) / math.tan(WIDE_CAMERA.fov_rad / 2)
    return np.array([0.0, up, half, 0.0], np.float32)


def _paste_region(still: np.ndarray, region: np.ndarray) -> np.ndarray:
    top, left = region_corner(*still.shape[:2])
    height, width = region.shape[:2]
    whole = still.copy()
    whole[top : top + height, left : left + width] = region
    return whole


def pack_folder(
    folder: Path, pack: HeadPack, size_px: int, *, lossless: bool = False, last: int | None = None
) -> dict[str, np.ndarray]:
    """Arrays of every finished frame of a folder, or of those up to number ``last``."""
    shape, shots = pack.rest_shape(Identity()), Shots()
    for image, units, pose in _read_shots(folder / "train", last):
        if image.shape[0] > size_px:
            image = cv2.resize(image, (size_px, size_px), interpolation=cv2.INTER_AREA)
        shots.add(image, picture_keypoints(shape, units, pose, Camera(), pack), pose, units.get("jawOpen", 0.0))
    still = cv2.imread(str(folder / "wide.png"))
    if still is not None and last is None:
        still = cv2.cvtColor(still, cv2.COLOR_BGR2RGB)
        crop = torch.from_numpy(_face_in_wide())[None]
        for region, units, pose in _read_shots(folder / "loop"):
            wide = torch.from_numpy(_paste_region(still, region))[None]
            face = cut(wide, crop, size_px, "reflection", "bicubic")[0]
            keypoints = torch.from_numpy(picture_keypoints(shape, units, pose, WIDE_CAMERA, pack))[None]
            picture = (face * 255).round().byte().permute(1, 2, 0).numpy()
            shots.add(picture, crop_keypoints(keypoints, crop)[0].numpy(), pose, units.get("jawOpen", 0.0))
    encode = encode_png if lossless else functools.partial(encode_webp, quality=QUALITY)
    arrays = {f"webp/{i}": encode(image) for i, image in enumerate(shots.images)}
    labels = (np.stack(shots.keypoints), np.stack(shots.angles_deg), np.array(shots.jaw, np.float32))
    return arrays | label_arrays(*labels, shape, pack)


def label_arrays(
    keypoints: np.ndarray, angles_deg: np.ndarray, jaw: np.ndarray, shape: np.ndarray, pack: HeadPack
) -> dict[str, np.ndarray]:
    """Labels of pictures that are exactly the product's crop of the face at rest."""
    num = len(keypoints)
    return {
        "keypoints": keypoints.astype(np.float32),
        "canonical": canonical_keypoints(shape, pack),
        "angles_deg": angles_deg.astype(np.float32),
        "scale": np.ones(num, np.float32),
        "crops": np.tile(np.array([0, 0, 1, 0], np.float32), (num, 1)),
        "jaw": jaw,
    }


def fit_angles(keypoints: np.ndarray, canonical: np.ndarray) -> np.ndarray:
    """Pitch, yaw, roll (N, 3) in degrees that turn the rigid canonical points onto keypoints (N, 21, 3) best."""
    rigid = list(RIGID_KEYPOINTS)
    rest = canonical[rigid] - canonical[rigid].mean(0)
    angles = []
    for points in keypoints[:, rigid]:
        u, _, vt = np.linalg.svd(rest.T @ (points - points.mean(0)))
        turn = (u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt).T  # column vectors: Rz Ry Rx
        pitch, roll = np.arctan2(turn[2, 1], turn[2, 2]), np.arctan2(turn[1, 0], turn[0, 0])
        angles.append(np.degrees([pitch, np.arcsin(-np.clip(turn[2, 0], -1, 1)), roll]))
    return np.array(angles)


def pack_archive(path: Path, pack: HeadPack, limit: int | None = None) -> dict[str, np.ndarray]:
    """Arrays out of an archive of the earlier format."""
    shape = pack.rest_shape(Identity())
    with np.load(path) as old:
        keypoints = old["kp"][:limit]
        arrays = {f"webp/{i}": old[f"i{i}"] for i in range(len(keypoints))}
        angles = fit_angles(keypoints, canonical_keypoints(shape, pack))
        return arrays | label_arrays(keypoints, angles, old["jo"][:limit].astype(np.float32), shape, pack)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=int, default=640, help="larger pictures are shrunk to this")
    parser.add_argument("--lossless", action="store_true", help="keep every pixel as it is; ten times the size")
    parser.add_argument("--last", type=int, help="take the training frames up to this number only")
    parser.add_argument("--limit", type=int, help="take this many frames of an archive")
    options = parser.parse_args()
    pack = head_pack()
    is_archive = options.source.suffix == ".npz"
    arrays = (
        pack_archive(options.source, pack, options.limit)
        if is_archive
        else pack_folder(options.source, pack, options.size, lossless=options.lossless, last=options.last)
    )
    save_arrays(arrays, options.out)


if __name__ == "__main__":
    main()
