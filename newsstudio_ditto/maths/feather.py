"""The blend mask of a crop: full weight inside, fading to nothing at the border."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from newsstudio_ditto.units import CROP_SIZE_PX

BlendRegion = Literal["crop", "mouth"]

_MOUTH_CENTRE = (0.5, 0.655)
"""Centre of the mouth region, shares of the crop's width and height."""
_MOUTH_HALF = (0.17, 0.125)
"""Half width and half height of what keeps full weight."""
_MOUTH_FADE = 0.085
"""Width of the fade around it."""


def blend_mask(region: BlendRegion, keep: float = 0.9) -> npt.NDArray[np.float32]:
    """The mask that a packet's alpha is warped from.

    Args:
        region: ``crop`` for :func:`feather_mask` over the whole crop, ``mouth`` for :func:`mouth_mask`.
        keep: of :func:`feather_mask`.

    Returns:
        (512, 512) float32 in 0..1.
    """
    if region == "mouth":
        return mouth_mask(CROP_SIZE_PX)
    return feather_mask(CROP_SIZE_PX, CROP_SIZE_PX, keep)


def mouth_mask(size_px: int) -> npt.NDArray[np.float32]:
    """Full weight on mouth, chin and jaw of an upright face crop, and a smooth fade around them.

    It leaves hair, eyes, background and clothes as they were filmed, where only the mouth is driven.

    Args:
        size_px: side of the crop, pixels.

    Returns:
        (size_px, size_px) float32 in 0..1; nothing at the border.
    """
    axis = (np.arange(size_px) + 0.5) / size_px
    across = np.maximum(np.abs(axis - _MOUTH_CENTRE[0]) - _MOUTH_HALF[0], 0)[None, :]
    down = np.maximum(np.abs(axis - _MOUTH_CENTRE[1]) - _MOUTH_HALF[1], 0)[:, None]
    distance = np.minimum(np.hypot(across, down) / _MOUTH_FADE, 1.0)
    return (0.5 + 0.5 * np.cos(np.pi * distance)).astype(np.float32)


def feather_mask(width: int, height: int, keep: float = 0.9) -> npt.NDArray[np.float32]:
    """Make the blend mask.

    Weight falls with the distance from the inner rectangle, measured in margins, so that the outermost
    ring is 0, edges ramp linearly and corners are round.

    Args:
        width: of the crop, pixels.
        height: of the crop, pixels.
        keep: share of each side that keeps full weight.

    Returns:
        (height, width) float32 in 0..1.
    """
    across = _distance_in_margins(width, keep)[None, :]
    down = _distance_in_margins(height, keep)[:, None]
    return (1.0 - np.minimum(1.0, np.hypot(across, down))).astype(np.float32)


def _distance_in_margins(length: int, keep: float) -> npt.NDArray[np.float64]:
    inner = int(length * keep)
    before = (length - inner) // 2
    after = length - inner - before
    return np.concatenate([np.linspace(1, 0, before), np.zeros(inner), np.linspace(0, 1, after)])
