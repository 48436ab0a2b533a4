"""Triton kernels of :mod:`newsstudio_ditto.render.modulation`.

The library's float32 products are slow at 160 rows: they leave most of the card idle. Here the matrix units take each
float32 apart into three of their own numbers, which keeps the accuracy of float32.
"""

import sys
from types import ModuleType

import torch
import triton
import triton.language as tl
from torch import Tensor

from newsstudio_ditto.render import modulation as plain
from newsstudio_ditto.render.modulation import Mix, Norm, Pair, Rotation


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
    given_rows,
    width,
    eps,
    PARTS: tl.constexpr,
    HAS_NORM: tl.constexpr,
    HAS_ROTATION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < width
    # A turn mixes neighbouring columns; reading the row twice, swapped, is cheaper than exchanging registers.
    partner = column ^ 1
    given = (row % given_rows) * width
    at, beside = given + column, given + partner
    value = tl.load(x + at, mask=mask, other=0.0)
    other = tl.load(x + beside, mask=mask, other=0.0)
    result = row * width + column
    if PARTS > 0:
        added = tl.load(branch + at, mask=mask, other=0.0)
        added_beside = tl.load(branch + beside, mask=mask, other=0.0)
        for part in tl.static_range(1, PARTS):
            more = branch + part * given_rows * width
            added += tl.load(more + at, mask=mask, other=0.0)
            added_beside += tl.load(more + beside, mask=mask, other=0.0)
        own = modulation + (row // rows) * 2 * width
        value += added * (tl.load(own + column, mask=mask, other=0.0) + 1.0)
        value += tl.load(own + width + column, mask=mask, other=0.0)
        other += added_beside * (tl.load(own + partner, mask=mask, other=0.0) + 1.0)
        other += tl.load(own + width + partner, mask=mask, other=0.0)
        tl.store(moved + result, value, mask=mask)
    if HAS_NORM:
        mean = tl.sum(tl.where(mask, value, 0.0), axis=0) / width
        apart = tl.where(mask, value - mean, 0.0)
        spread = 1.0 / tl.sqrt_rn(tl.sum(apart * apart, axis=0) / width + eps)
        even = apart * spread * tl.load(weight + column, mask=mask, other=0.0)
        even += tl.load(bias + column, mask=mask, other=0.0)
        tl.store(normal + result, even, mask=mask)
        if HAS_ROTATION:
            odd = (other - mean) * spread * tl.load(weight + partner, mask=mask, other=0.0)
            odd += tl.load(bias + partner, mask=mask, other=0.0)
            place = (row % rows) * width + column
            angle_cos = tl.load(cos + place, mask=mask, other=0.0)
            angle_sin = tl.load(sin + place, mask=mask, other=0.0)
            tl.store(turned + result, even * angle_cos + odd * angle_sin, mask=mask)


@triton.jit
def _linear(
    x,
    second,
    weight,
    bias,
    out,
    previous,
    noise,
    num_rows,
    inputs,
    outputs,
    num_first,
    guidance,
    of_product,
    of_previous,
    of_noise,
    HAS_SECOND: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_GELU: tl.constexpr,
    IS_GUIDED: tl.constexpr,
    IS_MIXED: tl.constexpr,
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(2)
    step = tl.arange(0, DEPTH)
    has_row, has_column = row < num_rows, column < outputs
    if HAS_SECOND:
        x = tl.where(tl.program_id(1) * COLUMNS < num_first, x, second)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, SPAN, DEPTH):
        at = part * SPAN + start + step
        has_step = at < inputs
        has_left = has_row[:, None] & has_step[None]
        left = tl.load(x + row[:, None] * inputs + at[None], mask=has_left, other=0.0)
        if IS_GUIDED:
            unguided = tl.load(x + (num_rows + row)[:, None] * inputs + at[None], mask=has_left, other=0.0)
            left = unguided + guidance * (left - unguided)
        has_both = has_column[None] & has_step[:, None]
        right = tl.load(weight + column[None] * inputs + at[:, None], mask=has_both, other=0.0)
        total = tl.dot(left, right, total, input_precision="tf32x3")
    if HAS_BIAS:
        total += tl.load(bias + column, mask=has_column & (part == 0), other=0.0)[None]
    if HAS_GELU:
        total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    place, has_place = row[:, None] * outputs + column[None], has_row[:, None] & has_column[None]
    if IS_MIXED:
        total = of_product * total + of_previous * tl.load(previous + place, mask=has_place, other=0.0)
        total += of_noise * tl.load(noise + place, mask=has_place, other=0.0)
    tl.store(out + part * num_rows * outputs + place, total, mask=has_place)


@triton.jit
def _attend(
    query,
    key,
    value,
    more_keys,
    more_values,
    weight,
    bias,
    out,
    num_queries,
    num_keys,
    num_more,
    query_batch,
    query_row,
    key_batch,
    key_row,
    value_batch,
    value_row,
    scale,
    HAS_WEIGHT: tl.constexpr,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    width: tl.constexpr = HEADS * SIZE
    batch, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    place, column = tl.arange(0, KEYS), tl.arange(0, COLUMNS)
    has_row, has_column, own = row < num_queries, column < SIZE, head * SIZE + column
    at_row = query + batch * query_batch + row[:, None] * query_row
    if HAS_WEIGHT:
        asked = tl.zeros([ROWS, COLUMNS], tl.float32)
        for start in range(0, width, DEPTH):
            at = start + tl.arange(0, DEPTH)
            has_step = at < width
            left = tl.load(at_row + at[None], mask=has_row[:, None] & has_step[None], other=0.0)
            has_both = has_column[None] & has_step[:, None]
            right = tl.load(weight + own[None] * width + at[:, None], mask=has_both, other=0.0)
            asked = tl.dot(left, right, asked, input_precision="tf32x3")
        asked += tl.load(bias + own, mask=has_column, other=0.0)[None]
    else:
        asked = tl.load(at_row + own[None], mask=has_row[:, None] & has_column[None], other=0.0)
    has_key, further = place < num_keys, place - num_keys
    has_more = (further >= 0) & (further < num_more)
    at_key = key + batch * key_batch + place[None] * key_row + own[:, None]
    keys = tl.load(at_key, mask=has_key[None] & has_column[:, None], other=0.0)
    at_key = more_keys + further[None] * width + own[:, None]
    keys += tl.load(at_key, mask=has_more[None] & has_column[:, None], other=0.0)
    scores = tl.dot(asked, keys, input_precision="tf32x3") * scale
    scores = tl.where((has_key | has_more)[None], scores, float("-inf"))
    shares = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    at_value = value + batch * value_batch + place[:, None] * value_row + own[None]
    values = tl.load(at_value, mask=has_key[:, None] & has_column[None], other=0.0)
    at_value = more_values + further[:, None] * width + own[None]
    values += tl.load(at_value, mask=has_more[:, None] & has_column[None], other=0.0)
    result = tl.dot(shares, values, input_precision="tf32x3") / tl.sum(shares, axis=1)[:, None]
    at_out = out + (batch * num_queries + row)[:, None] * width + own[None]
    tl.store(at_out, result, mask=has_row[:, None] & has_column[None])


TILE = (16, 64, 64)
"""Rows, columns and depth of a tile: small, so that 160 rows keep the card busy."""

WARPS, STAGES = 4, 4

SPAN = 256
"""Inputs of one part of :func:`linear_parts`: programs that are alone with all inputs take too long."""

ATTENTION_ROWS = 16
"""Queries of one program: 80 rows are five such blocks."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, gelu: bool = False) -> Tensor:
    """As :func:`newsstudio_ditto.render.modulation.linear`, on a CUDA device."""
    return _launch_linear(x, weight, bias, gelu=gelu)[0]


def linear_parts(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As :func:`newsstudio_ditto.render.modulation.linear_parts`, on a CUDA device."""
    return _launch_linear(x, weight, bias, span=SPAN)


def linear_of_two(first: Tensor, second: Tensor, num_first: int, weight: Tensor, bias: Tensor) -> Tensor:
    """As :func:`newsstudio_ditto.render.modulation.linear_of_two`, on a CUDA device."""
    if num_first % TILE[1]:  # a tile reads one of the two
        parts = ((first, slice(num_first)), (second, slice(num_first, None)))
        return torch.cat([linear(x, weight[rows], bias[rows]) for x, rows in parts], dim=-1)
    return _launch_linear(first, weight, bias, second=second.contiguous(), num_first=num_first)[0]


def linear_mixed(hidden: Tensor, weight: Tensor, bias: Tensor, guidance: float, mix: Mix | None) -> Tensor:
    """As :func:`newsstudio_ditto.render.modulation.linear_mixed`, on a CUDA device."""
    is_guided = len(hidden) == 2
    hidden = hidden.contiguous()
    out = _launch_linear(hidden[:1], weight, bias, guidance=guidance if is_guided else None, mix=mix)
    return out[0]


def _launch_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    gelu: bool = False,
    second: Tensor | None = None,
    num_first: int = 0,
    span: int | None = None,
    guidance: float | None = None,
    mix: Mix | None = None,
) -> Tensor:
    """The product in parts, (P, ..., outputs); guided by rows that follow those of ``x`` in memory."""
    x, weight = x.contiguous(), weight.contiguous()
    outputs, inputs = weight.shape
    num_rows = x.numel() // inputs
    span = triton.cdiv(inputs, TILE[2]) * TILE[2] if span is None else span
    num_parts = triton.cdiv(inputs, span)
    out = torch.empty(num_parts, *x.shape[:-1], outputs, dtype=x.dtype, device=x.device)
    _linear[(triton.cdiv(num_rows, TILE[0]), triton.cdiv(outputs, TILE[1]), num_parts)](
        x,
        x if second is None else second,
        weight,
        weight if bias is None else bias,
        out,
        x if mix is None else mix.previous.contiguous(),
        x if mix is None else mix.noise.contiguous(),
        num_rows,
        inputs,
        outputs,
        num_first,
        0.0 if guidance is None else guidance,
        1.0 if mix is None else mix.of_product,
        0.0 if mix is None else mix.of_previous,
        0.0 if mix is None else mix.of_noise,
        HAS_SECOND=second is not None,
        HAS_BIAS=bias is not None,
        HAS_GELU=gelu,
        IS_GUIDED=guidance is not None,
        IS_MIXED=mix is not None,
        SPAN=span,
        ROWS=TILE[0],
        COLUMNS=TILE[1],
        DEPTH=TILE[2],
        num_warps=WARPS,
        num_stages=STAGES,
    )
    return out


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    *,
    more: Pair | None = None,
    projection: Pair | None = None,
) -> Tensor:
    """As :func:`newsstudio_ditto.render.modulation.attend`, on a CUDA device."""
    batch, num_queries, width = query.shape
    query, key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value))
    more_keys, more_values = (query, query) if more is None else (more[0].contiguous(), more[1].contiguous())
    weight, bias = (query, query) if projection is None else (projection[0].contiguous(), projection[1])
    num_more, size = 0 if more is None else len(more_keys), width // num_heads
    out = torch.empty(batch, num_queries, width, dtype=query.dtype, device=query.device)
    _attend[(batch * num_heads, triton.cdiv(num_queries, ATTENTION_ROWS))](
        query,
        key,
        value,
        more_keys,
        more_values,
        weight,
        bias,
        out,
        num_queries,
        key.shape[1],
        num_more,
        *query.stride()[:2],
        *key.stride()[:2],
        *value.stride()[:2],
        size**-0.5,
        HAS_WEIGHT=projection is not None,
        HEADS=num_heads,
        SIZE=size,
        ROWS=ATTENTION_ROWS,
        KEYS=max(triton.next_power_of_2(key.shape[1] + num_more), 16),
        COLUMNS=max(triton.next_power_of_2(size), 16),
        DEPTH=TILE[2],
        num_warps=WARPS,
        num_stages=STAGES,
    )
    return out


def modulate(
    x: Tensor, branch: Tensor | None, modulation: Tensor | None, norm: Norm | None, rotation: Rotation | None
) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`newsstudio_ditto.render.modulation.modulate`, on a CUDA device."""
    x = x.contiguous()
    num_given, rows, width = x.shape
    batch = num_given if branch is None or modulation is None else len(modulation)
    fresh = x.new_empty(3, batch, rows, width)
    moved = x if branch is None else fresh[0]
    normal = x if norm is None else fresh[1]
    turned = normal if rotation is None or norm is None else fresh[2]
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
        num_given * rows,
        width,
        1e-5 if norm is None else norm.eps,
        PARTS=0 if branch is None else len(branch),
        HAS_NORM=norm is not None,
        HAS_ROTATION=rotation is not None and norm is not None,
        BLOCK=triton.next_power_of_2(width),
    )
    return moved, normal, turned


_TRIAL_TOLERANCE = 1e-4
_TRIAL_WIDTH, _TRIAL_ROWS, _TRIAL_HEADS = 512, 80, 8  # those of the official model, whose kernels are compiled anyway


def find_problem() -> str | None:
    """Try the kernels on random numbers; what is wrong, or None."""
    device = torch.device("cuda", torch.cuda.current_device())
    try:
        found = [result.double().cpu() for result in try_out(sys.modules[__name__], device, torch.float32)]
    except Exception as error:  # noqa: BLE001 - a compiler fails in many ways; all of them mean the slow way
        return f"{type(error).__name__}: {error}"
    expected = try_out(plain, torch.device("cpu"), torch.float64)
    pairs = zip(found, expected, strict=True)
    is_right = all(torch.allclose(*pair, atol=_TRIAL_TOLERANCE, rtol=_TRIAL_TOLERANCE) for pair in pairs)
    return None if is_right else "wrong numbers"


def try_out(way: ModuleType, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """What the functions of this module, or those of the plain way, make of some random numbers."""
    draw, width, rows = torch.Generator().manual_seed(0), _TRIAL_WIDTH, _TRIAL_ROWS

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw).to(device, dtype)

    x, y, bias = drawn(2, rows, width), drawn(2, rows, width), drawn(width)
    norm = Norm(drawn(width), drawn(width), 1e-5)
    weight, deep = drawn(width, width) / width**0.5, drawn(width, 2 * width) / width**0.5
    parts = way.linear_parts(torch.cat([x, y], dim=-1), deep, bias)
    both = way.linear_of_two(x, y, width // 2, weight, bias)
    more, rotation = (drawn(2, width), drawn(2, width)), (drawn(rows, width), drawn(rows, width))
    mix = Mix(0.7, drawn(1, rows, width), 0.2, drawn(1, rows, width), 0.1)
    return [
        both,
        way.linear(x, weight, bias, gelu=True),
        way.linear_mixed(x, weight, bias, 2.0, mix),
        way.linear_mixed(x[:1], weight, bias, 1.0, None),
        way.attend(x, y, both, _TRIAL_HEADS),
        way.attend(x, y, both, _TRIAL_HEADS, more=more, projection=(weight, bias)),
        *way.modulate(x[:1], parts[:, :1], drawn(2, 2 * width), norm, rotation),
    ]
