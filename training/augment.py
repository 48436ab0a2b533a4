"""Photometric noise on the device: colour, blur, grain, block compression, occluders.

Pictures are (B, 3, h, w), 0..1.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from training.labels import MIRRORED_KEYPOINTS, MotionLabels

BLOCK = 8


def _per_picture(x: Tensor, spread: float, channels: int = 1) -> Tensor:
    return torch.exp(torch.randn(len(x), channels, 1, 1, device=x.device) * spread)


def jitter_colour(*batches: Tensor) -> list[Tensor]:
    """The same random gain, tint, gamma and contrast on each of several batches."""
    first = batches[0]
    gain = _per_picture(first, 0.06, 3) * _per_picture(first, 0.12)
    gamma, contrast = _per_picture(first, 0.2), _per_picture(first, 0.12)
    return [((((x.clamp_min(1e-4) ** gamma) * gain - 0.5) * contrast) + 0.5).clamp(0, 1) for x in batches]


def _choose(x: Tensor, changed: Tensor, share: float) -> Tensor:
    return torch.where(torch.rand(len(x), 1, 1, 1, device=x.device) < share, changed, x)


def _dct(device: torch.device) -> Tensor:
    n = torch.arange(BLOCK, device=device, dtype=torch.float32)
    basis = torch.cos(math.pi / BLOCK * (n + 0.5) * n[:, None]) * math.sqrt(2 / BLOCK)
    basis[0] /= math.sqrt(2)
    return basis


def compress_blocks(x: Tensor) -> Tensor:
    """Quantise 8 x 8 cosine blocks with a random step that grows with frequency, as JPEG and video codecs do."""
    batch, channels, height, width = x.shape
    basis = _dct(x.device)
    blocks = x.reshape(batch, channels, height // BLOCK, BLOCK, width // BLOCK, BLOCK).permute(0, 1, 2, 4, 3, 5)
    coefficients = basis @ blocks @ basis.T
    n = torch.arange(BLOCK, device=x.device)
    step = (0.01 + 0.012 * (n[:, None] + n)) * (torch.rand(batch, 1, 1, 1, 1, 1, device=x.device) * 2.5 + 0.2)
    kept = torch.round(coefficients / step) * step
    return (basis.T @ kept @ basis).permute(0, 1, 2, 4, 3, 5).reshape(x.shape)


def _soften(x: Tensor) -> Tensor:
    factor = 1 / (1 + float(torch.rand(())) * 1.5)
    small = functional.interpolate(x, scale_factor=factor, mode="bilinear", antialias=True)
    return functional.interpolate(small, size=x.shape[-2:], mode="bilinear")


def _occlude(x: Tensor) -> Tensor:
    batch, _, height, width = x.shape
    rows = torch.linspace(-1, 1, height, device=x.device)[None, :, None]
    columns = torch.linspace(-1, 1, width, device=x.device)[None, None, :]
    centre = torch.rand(batch, 2, 1, 1, device=x.device) * 2 - 1
    reach = torch.rand(batch, 2, 1, 1, device=x.device) * 0.35 + 0.05
    inside = ((rows - centre[:, 0]).abs() < reach[:, 0]) & ((columns - centre[:, 1]).abs() < reach[:, 1])
    return torch.where(inside[:, None], torch.rand(batch, 3, 1, 1, device=x.device), x)


def degrade(x: Tensor, share: float, grain_share: float = 1.0) -> Tensor:
    """Grain on one share of the pictures; blur and block compression on another."""
    x = _choose(x, _soften(x), share)
    x = _choose(x, compress_blocks(x), share)
    grain = torch.rand(len(x), 1, 1, 1, device=x.device) ** 2 * 0.04
    return _choose(x, (x + torch.randn_like(x) * grain).clamp(0, 1), grain_share)


def mirror_some(images: Tensor, labels: MotionLabels, share: float) -> tuple[Tensor, MotionLabels]:
    """A share of the pictures (B, 3, h, w) as a mirror shows them, with their labels."""
    order = torch.tensor(MIRRORED_KEYPOINTS, device=images.device)
    across = images.new_tensor([-1.0, 1.0, 1.0])
    turn = images.new_tensor([1.0, -1.0, -1.0])
    chosen = torch.rand(len(images), device=images.device) < share

    def pick(changed: Tensor, kept: Tensor) -> Tensor:
        return torch.where(chosen.view(-1, *[1] * (kept.dim() - 1)), changed, kept)

    mirrored = MotionLabels(
        keypoints=labels.keypoints[:, order] * across,
        canonical=labels.canonical[:, order] * across,
        angles_deg=labels.angles_deg * turn,
        expression=labels.expression[:, order] * across,
        scale=labels.scale,
        translation=labels.translation * across,
    )
    return pick(images.flip(-1), images), MotionLabels(*map(pick, mirrored, labels))


def disguise(x: Tensor) -> Tensor:
    """Strong noise for networks that must read any camera: colour, blur, compression, occluders, grey."""
    x = jitter_colour(x)[0]
    x = _choose(x, _occlude(x), 0.2)
    x = _choose(x, x.mean(1, keepdim=True).expand_as(x), 0.08)
    return degrade(x, 0.4)
