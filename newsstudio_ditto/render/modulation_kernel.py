"""Triton kernels of :mod:`newsstudio_ditto.render.modulation`.

The library's float32 products are slow at 160 rows: they leave most of the card idle. Here the matrix units take each
float32 apart into three of their own numbers, which keeps the accuracy of float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from newsstudio_ditto.render.modulation import Norm, Rotation


@triton.jit
def _modulate(
    x,
    branch,
    modulation,
    weight,
    bias,
    cos,
    sin,
    moved,
    normal,
    turned,
    rows,
    width,
    eps,
    HAS_BRANCH: tl.constexpr,
    HAS_NORM: tl.constexpr,
    HAS_ROTATION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < width
    # A turn mixes neighbouring columns; reading the row twice, swapped, is cheaper than exchanging registers.
    partner = column ^ 1
    at, beside = row * width + column, row * width + partner
    value = tl.load(x + at, mask=mask, other=0.0)
    other = tl.load(x + beside, mask=mask, other=0.0)
    if HAS_BRANCH:
        own = modulation + (row // rows) * 2 * width
        value += tl.load(branch + at, mask=mask, other=0.0) * (tl.load(own + column, mask=mask, other=0.0) + 1.0)
        value += tl.load(own + width + column, mask=mask, other=0.0)
        other += tl.load(branch + beside, mask=mask, other=0.0) * (tl.load(own + partner, mask=mask, other=0.0) + 1.0)
        other += tl.load(own + width + partner, mask=mask, other=0.0)
        tl.store(moved + at, value, mask=mask)
    if HAS_NORM:
        mean = tl.sum(tl.where(mask, value, 0.0), axis=0) / width
        apart = tl.where(mask, value - mean, 0.0)
        spread = 1.0 / tl.sqrt_rn(tl.sum(apart * apart, axis=0) / width + eps)
        even = apart * spread * tl.load(weight + column, mask=mask, other=0.0)
        even += tl.load(bias + column, mask=mask, other=0.0)
        tl.store(normal + at, even, mask=mask)
        if HAS_ROTATION:
            odd = (other - mean) * spread * tl.load(weight + partner, mask=mask, other=0.0)
            odd += tl.load(bias + partner, mask=mask, other=0.0)
            place = (row % rows) * width + column
            angle_cos = tl.load(cos + place, mask=mask, other=0.0)
            angle_sin = tl.load(sin + place, mask=mask, other=0.0)
            tl.store(turned + at, even * angle_cos + odd * angle_sin, mask=mask)


@triton.jit
def _linear(
    x,
    weight,
    bias,
    out,
    num_rows,
    inputs,
    outputs,
    HAS_BIAS: tl.constexpr,
    HAS_GELU: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    step = tl.arange(0, DEPTH)
    has_row, has_column = row < num_rows, column < outputs
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, inputs, DEPTH):
        at = start + step
        has_step = at < inputs
        left = tl.load(x + row[:, None] * inputs + at[None], mask=has_row[:, None] & has_step[None], other=0.0)
        has_both = has_column[None] & has_step[:, None]
        right = tl.load(weight + column[None] * inputs + at[:, None], mask=has_both, other=0.0)
        total = tl.dot(left, right, total, input_precision="tf32x3")
    if HAS_BIAS:
        total += tl.load(bias + column, mask=has_column, other=0.0)[None]
    if HAS_GELU:
        total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    tl.store(out + row[:, None] * outputs + column[None], total, mask=has_row[:, None] & has_column[None])


TILE = (32, 32, 64)
"""Rows, columns and depth of a tile: small, so that 160 rows keep the card busy."""

WARPS, STAGES = 4, 4


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, gelu: bool) -> Tensor:
    """As :func:`newsstudio_ditto.render.modulation.linear`, on a CUDA device."""
    x, weight = x.contiguous(), weight.contiguous()
    outputs, inputs = weight.shape
    num_rows = x.numel() // inputs
    out = torch.empty(*x.shape[:-1], outputs, dtype=x.dtype, device=x.device)
    _linear[(triton.cdiv(num_rows, TILE[0]), triton.cdiv(outputs, TILE[1]))](
        x,
        weight,
        weight if bias is None else bias,
        out,
        num_rows,
        inputs,
        outputs,
        HAS_BIAS=bias is not None,
        HAS_GELU=gelu,
        ROWS=TILE[0],
        COLUMNS=TILE[1],
        DEPTH=TILE[2],
        num_warps=WARPS,
        num_stages=STAGES,
    )
    return out


def modulate(
    x: Tensor, branch: Tensor | None, modulation: Tensor | None, norm: Norm | None, rotation: Rotation | None
) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`newsstudio_ditto.render.modulation.modulate`, on a CUDA device."""
    batch, rows, width = x.shape
    x = x.contiguous()
    moved = x if branch is None else torch.empty_like(x)
    normal = x if norm is None else torch.empty_like(x)
    turned = normal if rotation is None or norm is None else torch.empty_like(x)
    cos, sin = rotation or (x, x)
    _modulate[(batch * rows,)](
        x,
        x if branch is None else branch.contiguous(),
        x if modulation is None else modulation.contiguous(),
        x if norm is None else norm.weight,
        x if norm is None else norm.bias,
        cos,
        sin,
        moved,
        normal,
        turned,
        rows,
        width,
        1e-5 if norm is None else norm.eps,
        HAS_BRANCH=branch is not None,
        HAS_NORM=norm is not None,
        HAS_ROTATION=rotation is not None and norm is not None,
        BLOCK=triton.next_power_of_2(width),
    )
    return moved, normal, turned


def find_problem() -> str | None:
    """Try the kernels on a few rows; what is wrong, or None."""
    device = torch.device("cuda", torch.cuda.current_device())
    x = torch.arange(32, device=device, dtype=torch.float32).view(1, 2, 16).sin()
    norm = Norm(torch.ones(16, device=device), torch.zeros(16, device=device), 1e-5)
    weight = torch.arange(160, device=device, dtype=torch.float32).view(10, 16).cos()
    try:
        _, normal, _ = modulate(x, x, torch.zeros(1, 32, device=device), norm, None)
        product = linear(x, weight, None, gelu=False)
    except Exception as error:  # noqa: BLE001 - a compiler fails in many ways; all of them mean the slow way
        return f"{type(error).__name__}: {error}"
    expected = torch.nn.functional.layer_norm(2 * x, (16,))
    exact = (x.double() @ weight.double().T).float()
    pairs = ((normal, expected), (product, exact))
    return None if all(torch.allclose(*pair, atol=1e-5) for pair in pairs) else "wrong numbers"
