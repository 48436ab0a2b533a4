"""Steps of the denoiser, each one kernel on CUDA: linear layers, and what stands between two of them."""

import logging
from functools import cache
from types import ModuleType
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

log = logging.getLogger(__name__)

Rotation = tuple[Tensor, Tensor]


class Norm(NamedTuple):
    """A layer norm's weights.

    Args:
        weight: (d,).
        bias: (d,).
        eps: added to the variance.
    """

    weight: Tensor
    bias: Tensor
    eps: float


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, gelu: bool = False) -> Tensor:
    """A linear layer in float32 accuracy, with the activation that may follow.

    Args:
        x: (..., inputs) float32.
        weight: (outputs, inputs).
        bias: (outputs,) or None.
        gelu: apply GELU to the result.
    """
    kernels = _kernels() if x.is_cuda else None
    if kernels is not None:
        out: Tensor = kernels.linear(x, weight, bias, gelu=gelu)
        return out
    result = functional.linear(x, weight, bias)
    return functional.gelu(result) if gelu else result


def modulate(
    x: Tensor, branch: Tensor | None, modulation: Tensor | None, norm: Norm | None, rotation: Rotation | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Add a modulated branch to the residual stream, and prepare what the next sublayer reads.

    Args:
        x: (B, rows, d) float32.
        branch: (B, rows, d), output of a sublayer; None leaves ``x`` alone.
        modulation: (B, 2 d), scale and shift of the branch.
        norm: of the next sublayer; None where there is none.
        rotation: cosines and signed sines (rows, d); None where nothing is turned.

    Returns:
        The new ``x``, its normalised rows, and those turned. Without norm or rotation the last two mean nothing.
    """
    kernels = _kernels() if x.is_cuda else None
    if kernels is not None:
        moved: tuple[Tensor, Tensor, Tensor] = kernels.modulate(x, branch, modulation, norm, rotation)
        return moved
    if branch is not None and modulation is not None:
        scale, shift = modulation[:, None].chunk(2, dim=-1)
        x = x + branch * (scale + 1) + shift
    if norm is None:
        return x, x, x
    normal = functional.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, norm.eps)
    if rotation is None:
        return x, normal, normal
    swapped = normal.view(*normal.shape[:-1], -1, 2).flip(-1).flatten(-2)
    return x, normal, normal * rotation[0] + swapped * rotation[1]


@cache
def _kernels() -> ModuleType | None:
    """The CUDA kernels, or None where Triton cannot be used, which is said once."""
    try:
        from newsstudio_ditto.render import modulation_kernel
    except ImportError as error:
        log.warning("Triton is not installed: motion takes the slow way", extra={"reason": str(error)})
        return None
    problem = modulation_kernel.find_problem()
    if problem is None:
        return modulation_kernel
    log.warning("the motion kernels do not work here: motion takes the slow way", extra={"reason": problem})
    return None
