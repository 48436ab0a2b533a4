"""DDIM sampling with classifier-free guidance; tables in float32, as the networks were run (golden section 5)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.errors import UsageError

NUM_TRAIN_STEPS = 1000
_COSINE_SHIFT = 0.008
_LARGEST_BETA = 0.999


@dataclass(frozen=True)
class DdimStep:
    """Coefficients of one step from ``time`` to ``next_time``; the last step, to -1, returns the predicted x0.

    Args:
        time: 0..999.
        next_time: -1..998.
        noise_from_x: factor of x in the predicted noise.
        noise_from_x0: factor of the predicted x0 in the predicted noise, to be subtracted.
        sqrt_alpha_next: factor of the predicted x0 in the next x.
        c: factor of the predicted noise in the next x.
        sigma: factor of the fresh noise in the next x.
    """

    time: int
    next_time: int
    noise_from_x: float
    noise_from_x0: float
    sqrt_alpha_next: float
    c: float
    sigma: float


@dataclass(frozen=True)
class Schedule:
    """Tables of a DDIM run (eta 1), S entries each, float32.

    Args:
        times: (S,) int64, from 999 down.
        next_times: (S,) int64, ends with -1.
        noise_from_x: (S,) sqrt(1 / (1 - alpha)).
        noise_from_x0: (S,) 1 / sqrt(1 / alpha - 1).
        sqrt_alpha_next: (S,), ends with 1.
        c: (S,), ends with 0; where rounding makes its square negative, 0.
        sigma: (S,), ends with 0.
    """

    times: Tensor
    next_times: Tensor
    noise_from_x: Tensor
    noise_from_x0: Tensor
    sqrt_alpha_next: Tensor
    c: Tensor
    sigma: Tensor

    @property
    def num_steps(self) -> int:
        """S."""
        return len(self.times)

    def steps(self) -> list[DdimStep]:
        """The coefficients step by step, as plain numbers."""
        columns = (
            self.times,
            self.next_times,
            self.noise_from_x,
            self.noise_from_x0,
            self.sqrt_alpha_next,
            self.c,
            self.sigma,
        )
        return [DdimStep(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def cumulative_alphas() -> Tensor:
    """Cosine noise schedule: (1000,) float32 cumulative products of 1 - beta."""
    position = (np.arange(NUM_TRAIN_STEPS + 1) / NUM_TRAIN_STEPS + _COSINE_SHIFT) / (1 + _COSINE_SHIFT)
    g = np.cos(position * np.pi / 2) ** 2
    betas = np.clip(1 - g[1:] / g[:-1], 0, _LARGEST_BETA)
    return (1.0 - torch.from_numpy(betas).float()).cumprod(dim=0)


def ddim_schedule(num_steps: int) -> Schedule:
    """Times and coefficients of ``num_steps`` DDIM steps.

    Raises:
        UsageError: ``num_steps`` is not in 1..1000.
    """
    if not 1 <= num_steps <= NUM_TRAIN_STEPS:
        raise UsageError(f"num_steps is {num_steps}", f"give a value from 1 to {NUM_TRAIN_STEPS}")
    times = torch.linspace(-1, NUM_TRAIN_STEPS - 1, num_steps + 1).int().flip(0).long()
    alphas = cumulative_alphas()
    a = alphas[times[:-1]]
    b = torch.cat([alphas[times[1:-1]], torch.ones(1)])
    sigma = ((1 - a / b) * (1 - b) / (1 - a)).sqrt()
    return Schedule(
        times=times[:-1],
        next_times=times[1:],
        noise_from_x=(1 / (1 - a)).sqrt(),
        noise_from_x0=1 / (1 / a - 1).sqrt(),
        sqrt_alpha_next=b.sqrt(),
        c=(1 - b - sigma**2).clamp(min=0).sqrt(),
        sigma=sigma,
    )


def guide(conditional: Tensor, unconditional: Tensor, scale: float) -> Tensor:
    """Classifier-free guidance ``u + scale * (c - u)``; exactly ``conditional`` at ``scale`` 1. All (B, W, 265)."""
    return torch.lerp(unconditional, conditional, scale)


def predict_noise(x: Tensor, x0: Tensor, step: DdimStep) -> Tensor:
    """Noise that leads from the predicted ``x0`` to ``x`` at ``step.time``; all (B, W, 265)."""
    return x * step.noise_from_x - x0 * step.noise_from_x0


def ddim_step(x: Tensor, x0: Tensor, noise: Tensor, step: DdimStep) -> Tensor:
    """Move from ``step.time`` to ``step.next_time``.

    Args:
        x: (B, W, 265) at ``step.time``.
        x0: (B, W, 265) predicted by the (guided) denoiser.
        noise: (B, W, 265) standard normal; not used by the last step.
        step: from :meth:`Schedule.steps`.

    Returns:
        (B, W, 265) at ``step.next_time``; ``x0`` itself at the last step.
    """
    if step.next_time < 0:
        return x0
    return step.sqrt_alpha_next * x0 + step.c * predict_noise(x, x0, step) + step.sigma * noise
