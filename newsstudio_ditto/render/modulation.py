"""Steps of the denoiser, each one kernel on CUDA: linear layers, attention, and what stands between two of them."""

import logging
from functools import cache
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

log = logging.getLogger(__name__)

Rotation = tuple[Tensor, Tensor]
Pair = tuple[Tensor, Tensor]


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


class Mix(NamedTuple):
    """What a product is mixed with: ``of_product * product + of_previous * previous + of_noise * noise``.

    Args:
        of_product: factor.
        previous: (1, rows, outputs).
        of_previous: factor.
        noise: (1, rows, outputs).
        of_noise: factor.
    """

    of_product: float
    previous: Tensor
    of_previous: float
    noise: Tensor
    of_noise: float


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


def linear_parts(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer as parts (P, ..., outputs) that are still to be added, for :func:`modulate`.

    Args:
        x: (..., inputs) float32.
        weight: (outputs, inputs).
        bias: (outputs,).
    """
    kernels = _kernels() if x.is_cuda else None
    if kernels is not None:
        out: Tensor = kernels.linear_parts(x, weight, bias)
        return out
    return functional.linear(x, weight, bias)[None]


def linear_of_two(first: Tensor, second: Tensor, num_first: int, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer whose first ``num_first`` outputs are of one input, the others of another.

    Args:
        first: (..., inputs) float32.
        second: (..., inputs).
        num_first: outputs of ``first``.
        weight: (outputs, inputs).
        bias: (outputs,).
    """
    kernels = _kernels() if first.is_cuda else None
    if kernels is not None:
        out: Tensor = kernels.linear_of_two(first, second, num_first, weight, bias)
        return out
    parts = ((first, slice(num_first)), (second, slice(num_first, None)))
    return torch.cat([functional.linear(x, weight[rows], bias[rows]) for x, rows in parts], dim=-1)


def linear_mixed(hidden: Tensor, weight: Tensor, bias: Tensor, guidance: float, mix: Mix | None) -> Tensor:
    """A linear layer of guided rows, mixed with what there was before.

    Args:
        hidden: (2, rows, inputs) float32, conditional and unconditional; or (1, rows, inputs), taken as they are.
        weight: (outputs, inputs).
        bias: (outputs,).
        guidance: how far to go from the unconditional rows to the conditional ones; 1 ends there.
        mix: None leaves the product as it is.

    Returns:
        (1, rows, outputs).
    """
    kernels = _kernels() if hidden.is_cuda else None
    if kernels is not None:
        out: Tensor = kernels.linear_mixed(hidden, weight, bias, guidance, mix)
        return out
    if len(hidden) == 2:
        hidden = torch.lerp(hidden[1:], hidden[:1], guidance)
    product = functional.linear(hidden, weight, bias)
    if mix is None:
        return product
    return mix.of_product * product + mix.of_previous * mix.previous + mix.of_noise * mix.noise


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    *,
    more: Pair | None = None,
    projection: Pair | None = None,
) -> Tensor:
    """Attention of several heads, side by side in the columns.

    Args:
        query: (B, n, d) float32; with a projection what it is applied to.
        key: (B, m, d).
        value: (B, m, d).
        num_heads: of d / num_heads columns each.
        more: keys and values (k, d) that follow those of each of the B.
        projection: weight (d, d) and bias (d,) that make the queries; None takes ``query`` itself.

    Returns:
        (B, n, d).
    """
    kernels = _kernels() if query.is_cuda else None
    if kernels is not None:
        out: Tensor = kernels.attend(query, key, value, num_heads, more=more, projection=projection)
        return out
    if projection is not None:
        query = functional.linear(query, *projection)
    if more is not None:
        key, value = (
            torch.cat([x, rows.expand(len(x), -1, -1)], dim=1) for x, rows in zip((key, value), more, strict=True)
        )
    q, k, v = (x.reshape(*x.shape[:2], num_heads, -1).transpose(1, 2) for x in (query, key, value))
    return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def modulate(
    x: Tensor, branch: Tensor | None, modulation: Tensor | None, norm: Norm | None, rotation: Rotation | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Add a modulated branch to the residual stream, and prepare what the next sublayer reads.

    Args:
        x: (B, rows, d) float32, or (1, rows, d) where all of B are still the same.
        branch: (P, B or 1, rows, d), whose sum over P is the output of a sublayer; None leaves ``x`` alone.
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
        x = x + branch.sum(dim=0) * (scale + 1) + shift
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
