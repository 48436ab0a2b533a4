"""The packaged landmark net in the place of the official 106 and 203 landmarks: which crop makes them agree.

The official crop is laid around 203 points: eyes, mouth, nose, brows, and the jaw from ear to ear. The packaged net's
478 points also cover the forehead, so the same crop settings would lie higher and wider. The points of the mesh along
jaw and brows span what the 203 points span; :data:`PACKAGED_CROP` is the setting with which the whole mesh gives the
crop that those points give.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.maths.crop import FaceAnchors, anchors_478
from newsstudio_ditto.networks.config import BundleConfig

Floats = npt.NDArray[np.float32]

OFFICIAL_CROP = CropConfig(scale=2.3, shift_down=-0.125)
"""Crop of the official release, around its 203 landmarks."""

PACKAGED_CROP = CropConfig(scale=1.94, shift_down=-0.085)
"""Setting that gives the same crop around the 478 packaged landmarks."""

_SHIFT_TIMES_SCALE = (PACKAGED_CROP.shift_down - OFFICIAL_CROP.shift_down) * OFFICIAL_CROP.scale

_JAW = (127, 234, 93, 132, 58, 172, 136, 150, 149, 176, 148, 152, 377, 400, 378, 379, 365, 397, 288, 361, 323, 454, 356)
_BROWS = (70, 63, 105, 66, 107, 336, 296, 334, 293, 300)
OUTLINE_POINTS = (*_JAW, *_BROWS)


@dataclass(frozen=True)
class CropDifference:
    """How far one crop lies from another.

    Args:
        scale: side of the second over the side of the first.
        right: shift of the centre along the first crop's x axis, in its sides.
        down: shift of the centre along its y axis, in its sides.
        angle_deg: turn of the second against the first.
        corner: largest distance of two corners that belong together, in sides of the first.
    """

    scale: float
    right: float
    down: float
    angle_deg: float
    corner: float


def official_crop(config: BundleConfig) -> CropConfig:
    """Crop around the release's own landmarks, as the release that a bundle was converted from asks for it."""
    return OFFICIAL_CROP if config.defaults is None else config.defaults.crop


def packaged_crop(official: CropConfig) -> CropConfig:
    """Setting that gives around the 478 packaged landmarks the crop that ``official`` gives around its own.

    The box of the mesh is larger by one factor, and its middle higher by one share of the box, so other settings follow
    from the measured pair. Scales beyond the range of crops become its limit.
    """
    scale = min(max(official.scale * PACKAGED_CROP.scale / OFFICIAL_CROP.scale, 1.0), 4.0)
    shift = min(max(official.shift_down + _SHIFT_TIMES_SCALE / official.scale, -0.5), 0.5)
    return CropConfig(scale=round(scale, 6), shift_down=round(shift, 6), upright=official.upright)


def outline_anchors(landmarks: Floats) -> FaceAnchors:
    """Anchors of (478, 2+) landmarks whose box spans what the official 203 landmarks span."""
    whole = anchors_478(landmarks)
    return whole._replace(points=whole.points[list(OUTLINE_POINTS)])


def compare_crops(first: Floats, second: Floats, size_px: int) -> CropDifference:
    """Difference of two crops of the same frame.

    Args:
        first: (3, 3), crop pixels to frame pixels.
        second: likewise.
        size_px: side of both crops in crop pixels.
    """
    corners = np.array([[0, 0, 1], [size_px, 0, 1], [size_px, size_px, 1], [0, size_px, 1]], np.float64)
    between = np.linalg.inv(first.astype(np.float64)) @ second.astype(np.float64)
    moved = (corners @ between.T)[:, :2] / size_px
    centre = moved.mean(axis=0) - 0.5
    return CropDifference(
        scale=float(np.hypot(between[0, 0], between[1, 0])),
        right=float(centre[0]),
        down=float(centre[1]),
        angle_deg=float(np.degrees(np.arctan2(between[1, 0], between[0, 0]))),
        corner=float(np.linalg.norm(moved - corners[:, :2] / size_px, axis=1).max()),
    )
