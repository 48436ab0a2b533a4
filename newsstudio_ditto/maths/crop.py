"""Where the square face crop lies: golden section 9, in float32 like the data the official networks saw."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.affine import Floats, invert_affine

Singles = npt.NDArray[np.float32]

_EYES_106 = ((33, 35, 40, 39), (87, 89, 94, 93))
_MOUTH_106 = (52, 61)
_EYES_203 = ((0, 6, 12, 18), (24, 30, 36, 42))
_MOUTH_203 = (48, 66)
_EYES_478 = ((33, 133, 144, 145, 153, 158, 159, 160), (263, 362, 373, 374, 380, 385, 386, 387))
_MOUTH_478 = (61, 291)
_SHORTEST_AXIS_PX = 1e-3


class FaceAnchors(NamedTuple):
    """What a crop is computed from: ``points`` (P, 2), centres of ``mouth`` (2,) and ``eyes`` (2,); source pixels."""

    points: Singles
    mouth: Singles
    eyes: Singles


class CropTransform(NamedTuple):
    """Both directions between source-frame pixels and crop pixels, (3, 3) float32 each."""

    original_to_crop: Singles
    crop_to_original: Singles


def anchors_106(landmarks: Floats) -> FaceAnchors:
    """Anchors of (106, 2) landmarks in source pixels."""
    return _anchors(landmarks, 106, _MOUTH_106, _EYES_106)


def anchors_203(landmarks: Floats) -> FaceAnchors:
    """Anchors of (203, 2) landmarks in source pixels."""
    return _anchors(landmarks, 203, _MOUTH_203, _EYES_203)


def anchors_478(landmarks: Floats) -> FaceAnchors:
    """Anchors of (478, 2) or (478, 3) landmarks in source pixels; depth is ignored."""
    return _anchors(landmarks, 478, _MOUTH_478, _EYES_478)


def crop_transform(points: Floats, mouth: Floats, eyes: Floats, *, size_px: int, crop: CropConfig) -> CropTransform:
    """Place the square crop around a face.

    The box of the points is measured along the face's own axes (down = eyes to mouth), made square, enlarged
    by ``crop.scale`` and shifted by ``crop.shift_down`` of its side along the down axis.

    Args:
        points: (P, 2) landmarks, source pixels.
        mouth: (2,) centre of the mouth corners, source pixels.
        eyes: (2,) mean of the two eye centres, source pixels.
        size_px: side of the crop.
        crop: enlargement, shift, and whether the crop is turned upright.

    Returns:
        Affines between source pixels and crop pixels.

    Raises:
        UsageError: the points are not finite, or all at one place.
    """
    pts = np.asarray(points, dtype=np.float32)
    right, down = _face_axes(np.asarray(mouth, dtype=np.float32), np.asarray(eyes, dtype=np.float32))
    middle = pts.mean(axis=0)
    in_axes = (pts - middle) @ np.stack([right, down], axis=1)
    low, high = in_axes.min(axis=0), in_axes.max(axis=0)
    side = (high - low).max() * np.float32(crop.scale)
    if not (np.isfinite(side) and side > 0):
        raise UsageError("landmarks span no area or are not finite", "drop this frame: its landmarks are unusable")
    box_middle = (low + high) / np.float32(2)
    centre = middle + right * box_middle[0] + down * (box_middle[1] + np.float32(crop.shift_down) * side)
    angle = _tilt(right) if crop.upright else np.float32(0)
    forward = _turn_scale_and_centre(centre, angle, np.float32(size_px) / side, size_px)
    return CropTransform(forward, invert_affine(forward))


def halve_image(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Shrink by two like OpenCV's ``INTER_AREA``: rounded mean of each 2x2 block.

    Args:
        image: (2h, 2w, C) uint8.

    Returns:
        (h, w, C) uint8.
    """
    wide = image.astype(np.uint16)
    total = wide[::2, ::2] + wide[1::2, ::2] + wide[::2, 1::2] + wide[1::2, 1::2]
    return ((total + 2) >> 2).astype(np.uint8)


def _anchors(
    landmarks: Floats, count: int, mouth: tuple[int, int], eyes: tuple[tuple[int, ...], tuple[int, ...]]
) -> FaceAnchors:
    if landmarks.ndim != 2 or landmarks.shape[0] != count or landmarks.shape[1] < 2:
        raise UsageError(f"landmarks have shape {landmarks.shape}", f"give ({count}, 2) points in source pixels")
    points = landmarks[:, :2].astype(np.float32)
    eye_middle = (points[list(eyes[0])].mean(axis=0) + points[list(eyes[1])].mean(axis=0)) / np.float32(2)
    return FaceAnchors(points, points[list(mouth)].mean(axis=0), eye_middle)


def _face_axes(mouth: Singles, eyes: Singles) -> tuple[Singles, Singles]:
    down = mouth - eyes
    length = np.linalg.norm(down)
    down = down / length if length > _SHORTEST_AXIS_PX else np.array([0, 1], dtype=np.float32)
    return np.array([down[1], -down[0]], dtype=np.float32), down


def _tilt(right: Singles) -> np.float32:
    angle = np.arccos(np.clip(right[0], np.float32(-1), np.float32(1)))
    return -angle if right[1] < 0 else angle


def _turn_scale_and_centre(centre: Singles, angle: np.float32, scale: np.float32, size_px: int) -> Singles:
    cos, sin, half = np.cos(angle), np.sin(angle), np.float32(size_px / 2)
    x, y = centre
    return np.array(
        [
            [scale * cos, scale * sin, half - scale * (cos * x + sin * y)],
            [-scale * sin, scale * cos, half - scale * (cos * y - sin * x)],
            [0, 0, 1],
        ],
        dtype=np.float32,
    )
