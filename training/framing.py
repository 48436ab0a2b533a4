"""The product's crop of a head, computed from the mesh, and cameras that frame it."""

import math
from dataclasses import replace

import numpy as np

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.maths.crop import anchors_478, crop_transform
from training.head_model import CENTRE_BELOW_EYES, Camera, HeadPack, Pose, move_head, project

TRAINING_CROP = CropConfig(scale=1.8, shift_down=0.03)
PROXY_BOX_RATIO = 0.985  # box of the vertices under the landmarks over the box of the landmark network's own points
PICTURE_MARGIN = 1.25  # side of a rendered picture over the side of the product's crop
FACE_DEPTH = 1.0


def proxy_crop(
    shape: np.ndarray, coefficients: dict[str, float], pose: Pose, camera: Camera, pack: HeadPack
) -> tuple[float, float, float, float]:
    """The crop the product would take of this picture: centre x, y, half side (picture units), angle (radians)."""
    if pack.landmark_vertices is None:
        raise ValueError("the pack has no landmark_vertices: run training.landmark_map")
    eye_height = pack.eye_height(shape)
    points = pack.express(shape, coefficients)[pack.landmark_vertices]
    points = project(move_head(points, pose, eye_height), camera, eye_height)
    back = crop_transform(*anchors_478(points[:, :2]), size_px=2, crop=TRAINING_CROP).crop_to_original
    centre = back @ np.array([1.0, 1.0, 1.0])
    half = math.hypot(back[0, 0], back[1, 0]) / PROXY_BOX_RATIO
    return float(centre[0]), float(centre[1]), half, math.atan2(back[1, 0], back[0, 0])


def frame_person(shape: np.ndarray, distance: float, pack: HeadPack) -> Camera:
    """A camera whose picture is ``PICTURE_MARGIN`` times the crop of the person at rest, and centred on it."""
    fov_rad = 2 * math.atan(1.47 / (distance - 0.6))
    camera = Camera(0.0, -CENTRE_BELOW_EYES, distance, fov_rad)
    x, y, half, _ = proxy_crop(shape, {}, Pose(), camera, pack)
    reach = math.tan(fov_rad / 2)
    unit = reach * (distance - FACE_DEPTH)
    wide = 2 * math.atan(reach * half * PICTURE_MARGIN)
    return replace(camera, x=x * unit, below_eyes=camera.below_eyes - y * unit, fov_rad=wide)
