"""Whether rewritten networks still paint what the plain ones paint: asked on the card itself before they are used."""

from collections.abc import Callable

import torch
from torch import Tensor

from newsstudio_ditto.units import NUM_KEYPOINTS

MAX_MEAN_LEVELS = 2.0
MIN_PSNR_DB = 40.0
_SEED = 20
_REACH = 0.3

Paint = Callable[..., Tensor]


def trial_inputs(like: dict[str, Tensor]) -> dict[str, Tensor]:
    """Seeded random inputs in the shapes, types and place of an engine's own.

    Args:
        like: ``volume`` (B, C, D, h, w), ``source_keypoints`` and ``driving_keypoints`` (B, 21, 3).
    """
    volume = like["volume"]
    generator = torch.Generator(volume.device).manual_seed(_SEED)

    def keypoints() -> Tensor:
        shape = (len(volume), NUM_KEYPOINTS, 3)
        return _REACH * (2 * torch.rand(shape, generator=generator, device=volume.device) - 1)

    noise = torch.randn(volume.shape, generator=generator, device=volume.device)
    return {"volume": noise.to(volume.dtype), "source_keypoints": keypoints(), "driving_keypoints": keypoints()}


@torch.no_grad()
def disagreement(fast: Paint, plain: Paint, inputs: dict[str, Tensor]) -> str | None:
    """How far the pictures of ``fast`` lie from those of ``plain``, or None if they may stand for them.

    The first and the last row are compared, one at a time, so that the plain networks need little memory.

    Args:
        fast: takes the inputs by name, gives pictures (B, 3, H, W), 0..1.
        plain: the same, of any batch size.
        inputs: by name.
    """
    pictures = fast(**inputs)
    for row in sorted({0, len(pictures) - 1}):
        expected = plain(**{name: part[row : row + 1] for name, part in inputs.items()})[0]
        difference = (pictures[row].double() - expected.double()).abs()
        mean_levels = float(difference.mean()) * 255
        psnr_db = float(-10 * torch.log10((difference**2).mean().clamp(min=1e-12)))
        if not (mean_levels <= MAX_MEAN_LEVELS and psnr_db >= MIN_PSNR_DB):
            return f"row {row} of {len(pictures)} is off by {mean_levels:.2f} levels on average, {psnr_db:.1f} dB"
    return None
