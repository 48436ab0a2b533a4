"""RGB to the planes a video encoder takes: BT.709, limited range, 4:2:0, on any device."""

import torch
from torch import Tensor
from torch.nn import functional as F

from newsstudio_ditto.errors import UsageError

_RED, _GREEN, _BLUE = 0.2126, 0.7152, 0.0722
_BLUE_SPAN, _RED_SPAN = 2 * (1 - _BLUE), 2 * (1 - _RED)
_LUMA_LOW, _LUMA_RANGE = 16.0, 219.0
_CHROMA_MIDDLE, _CHROMA_RANGE = 128.0, 224.0


def rgb_to_yuv420(image: Tensor) -> Tensor:
    """Convert to planar I420; chroma is the mean of each 2x2 block.

    Args:
        image: (B, 3, H, W) RGB, uint8 or float in 0..255; H and W even. Values outside are clipped.

    Returns:
        (B, H * W * 3 // 2) uint8: Y plane, U plane, V plane.

    Raises:
        UsageError: not 3 channels, or an odd side.
    """
    batch, channels, height, width = image.shape
    if channels != 3 or height % 2 or width % 2:
        raise UsageError(f"image has shape {tuple(image.shape)}", "give (B, 3, H, W) with even H and W")
    rgb = image.float().clamp(0, 255)
    luma = _luma(rgb) * (_LUMA_RANGE / 255) + _LUMA_LOW
    small = F.avg_pool2d(rgb, 2)
    small_luma = _luma(small)
    blue = (small[:, 2] - small_luma) * (_CHROMA_RANGE / 255 / _BLUE_SPAN) + _CHROMA_MIDDLE
    red = (small[:, 0] - small_luma) * (_CHROMA_RANGE / 255 / _RED_SPAN) + _CHROMA_MIDDLE
    planes = torch.cat([plane.reshape(batch, -1) for plane in (luma, blue, red)], dim=1)
    return (planes + 0.5).to(torch.uint8)


def yuv420_to_rgb(planes: Tensor, height: int, width: int) -> Tensor:
    """Undo :func:`rgb_to_yuv420` up to rounding and the chroma that 4:2:0 drops; chroma is repeated, not interpolated.

    Args:
        planes: (B, H * W * 3 // 2) uint8.
        height: H, even.
        width: W, even.

    Returns:
        (B, 3, H, W) float32 RGB in 0..255.
    """
    quarter = height * width // 4
    luma, blue, red = torch.split(planes.float(), [4 * quarter, quarter, quarter], dim=1)
    luma = (luma.reshape(-1, 1, height, width) - _LUMA_LOW) * (255 / _LUMA_RANGE)
    chroma = torch.stack([blue, red], dim=1).reshape(-1, 2, height // 2, width // 2) - _CHROMA_MIDDLE
    chroma = F.interpolate(chroma, scale_factor=2, mode="nearest") * (255 / _CHROMA_RANGE)
    b = luma[:, 0] + chroma[:, 0] * _BLUE_SPAN
    r = luma[:, 0] + chroma[:, 1] * _RED_SPAN
    g = (luma[:, 0] - _RED * r - _BLUE * b) / _GREEN
    return torch.stack([r, g, b], dim=1).clamp(0, 255)


def _luma(rgb: Tensor) -> Tensor:
    return _RED * rgb[:, 0] + _GREEN * rgb[:, 1] + _BLUE * rgb[:, 2]
