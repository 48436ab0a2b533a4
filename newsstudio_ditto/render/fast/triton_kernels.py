"""Triton kernels of the fast path's small steps. Importing this module needs Triton."""

import triton
import triton.language as tl


@triton.jit
def gather_moments(
    partial_ptr,
    out_ptr,
    N,
    COUNT,
    EPS,
    tiles: tl.constexpr,
    BT: tl.constexpr,
    BC: tl.constexpr,
):
    """Mean and inverse deviation per channel from those of tiles of COUNT values: (B, tiles, 2, N) -> (B, 2, N)."""
    b = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = c < N
    base = partial_ptr + b.to(tl.int64) * tiles * 2 * N + c
    total = tl.zeros((BT, BC), tl.float32)
    for start in range(0, tiles, BT):
        t = start + tl.arange(0, BT)
        here = (t < tiles)[:, None] & inside[None, :]
        total += tl.load(base[None, :] + (t * 2 * N)[:, None], mask=here, other=0.0)
    mean = tl.sum(total, 0) / tiles
    spread = tl.zeros((BT, BC), tl.float32)
    for start in range(0, tiles, BT):
        t = start + tl.arange(0, BT)
        here = (t < tiles)[:, None] & inside[None, :]
        apart = tl.load(base[None, :] + (t * 2 * N)[:, None], mask=here, other=0.0) - mean[None, :]
        within = tl.load(base[None, :] + (t * 2 * N)[:, None] + N, mask=here, other=0.0)
        spread += tl.where(here, within + apart * apart * COUNT, 0.0)
    variance = tl.sum(spread, 0) / (tiles * COUNT)
    tl.store(out_ptr + b * 2 * N + c, mean, mask=inside)
    tl.store(out_ptr + (b * 2 + 1) * N + c, 1.0 / tl.sqrt(variance + EPS), mask=inside)


@triton.jit
def shuffle(parts_ptr, image_ptr, H, W, CHANNELS, BX: tl.constexpr):
    """Pixel shuffle and sigmoid: (B, H, W, CHANNELS) with 12 in use -> a planar picture (B, 3, 2H, 2W)."""
    x = tl.program_id(0) * BX + tl.arange(0, BX)
    y = tl.program_id(1)
    b = tl.program_id(2).to(tl.int64)
    c = tl.arange(0, 4)
    mask = (c < 3)[:, None] & (x < 2 * W)[None, :]
    place = ((b * H + y // 2) * W + x // 2)[None, :] * CHANNELS + (4 * c)[:, None] + (y % 2 * 2 + x % 2)[None, :]
    part = tl.load(parts_ptr + place, mask=mask, other=0.0).to(tl.float32)
    value = (1.0 / (1.0 + tl.exp(-part))).to(image_ptr.dtype.element_ty)
    tl.store(
        image_ptr + ((b * 3 + c)[:, None] * 2 * H + y) * 2 * W + x[None, :],
        value,
        mask=mask,
    )


@triton.jit
def halve(
    x_ptr,
    out_ptr,
    xb,
    xd,
    xh,
    xw,
    ob,
    od,
    oh,
    ow,
    D,
    H,
    W,
    C,
    BP: tl.constexpr,
    BC: tl.constexpr,
):
    """Mean of 1x2x2 cells; D, H, W of the output."""
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    x = p % W
    y = p // W % H
    z = p // (W * H) % D
    b = tl.program_id(2).to(tl.int64)
    mask = (p < D * H * W)[:, None] & (c < C)[None, :]
    place = x_ptr + b * xb + (z * xd + 2 * y * xh + 2 * x * xw)[:, None] + c[None, :]
    total = tl.load(place, mask=mask, other=0.0).to(tl.float32)
    total += tl.load(place + xw, mask=mask, other=0.0).to(tl.float32)
    total += tl.load(place + xh, mask=mask, other=0.0).to(tl.float32)
    total += tl.load(place + xh + xw, mask=mask, other=0.0).to(tl.float32)
    place = out_ptr + b * ob + (z * od + y * oh + x * ow)[:, None] + c[None, :]
    tl.store(place, (total * 0.25).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def compress(
    volume_ptr, weight_ptr, bias_ptr, last_ptr, few_ptr, S, C,
    FEW: tl.constexpr, ROWS: tl.constexpr, BC: tl.constexpr, BS: tl.constexpr,
):  # fmt: skip
    """(B, C, S) -> channels last (B, S, C), and FEW channels (B, S, FEW) behind a rectifier. ROWS: FEW, padded."""
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    b = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, BC)
    j = tl.arange(0, ROWS)
    mask = (c < C)[:, None] & (s < S)[None, :]
    x = tl.load(volume_ptr + b * C * S + c[:, None] * S + s[None, :], mask=mask, other=0.0)
    tl.store(last_ptr + b * C * S + s[None, :] * C + c[:, None], x, mask=mask)
    some = (j < FEW)[:, None] & (c < C)[None, :]
    weight = tl.load(weight_ptr + j[:, None] * C + c[None, :], mask=some, other=0.0)
    few = tl.dot(weight.to(x.dtype), x) + tl.load(bias_ptr + j, mask=j < FEW, other=0.0)[:, None]
    place = few_ptr + (b * S + s[None, :]) * FEW + j[:, None]
    mask = (j < FEW)[:, None] & (s < S)[None, :]
    tl.store(place, tl.maximum(few, 0.0).to(few_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _cell(position, size, k):
    low = tl.floor(position)
    share = position - low
    index = low.to(tl.int32) + k
    weight = tl.where(k == 0, 1 - share, share)
    weight = tl.where((index >= 0) & (index < size), weight, 0.0)
    return tl.minimum(tl.maximum(index, 0), size - 1), weight


@triton.jit
def candidates(
    few_ptr, source_ptr, driving_ptr, out_ptr, rest_ptr, ob, od, oh, ow, rb, rd, rh, rw,
    D: tl.constexpr, G: tl.constexpr, MOTIONS: tl.constexpr, FEW: tl.constexpr,
    ROOM: tl.constexpr, BX: tl.constexpr, BMOTION: tl.constexpr, BFEW: tl.constexpr, FALLOFF: tl.constexpr,
):  # fmt: skip
    """Heat maps and shifted volumes of all motions; see ``TorchOperators.candidates``. ROOM: channels of the first."""
    x = tl.program_id(0) * BX + tl.arange(0, BX)
    y = tl.program_id(1) % G
    z = tl.program_id(1) // G
    b = tl.program_id(2).to(tl.int64)
    k = tl.arange(0, BMOTION)
    inside = k < MOTIONS
    point = (b * (MOTIONS - 1) + k - 1) * 3
    known = inside & (k >= 1)
    sx = tl.load(source_ptr + point, mask=known, other=0.0)
    sy = tl.load(source_ptr + point + 1, mask=known, other=0.0)
    sz = tl.load(source_ptr + point + 2, mask=known, other=0.0)
    dx = tl.load(driving_ptr + point, mask=known, other=0.0)
    dy = tl.load(driving_ptr + point + 1, mask=known, other=0.0)
    dz = tl.load(driving_ptr + point + 2, mask=known, other=0.0)
    gx = -1.0 + x.to(tl.float32) * (2.0 / (G - 1))
    gy = -1.0 + y.to(tl.float32) * (2.0 / (G - 1))
    gz = -1.0 + z.to(tl.float32) * (2.0 / (D - 1))
    far_s = ((gy - sy) * (gy - sy) + (gz - sz) * (gz - sz))[:, None] + (gx[None, :] - sx[:, None]) * (
        gx[None, :] - sx[:, None]
    )
    far_d = ((gy - dy) * (gy - dy) + (gz - dz) * (gz - dz))[:, None] + (gx[None, :] - dx[:, None]) * (
        gx[None, :] - dx[:, None]
    )
    heat = tl.where(known[:, None], tl.exp(far_d * FALLOFF) - tl.exp(far_s * FALLOFF), 0.0)
    place = out_ptr + b * ob + z * od + y * oh + (x * ow)[None, :] + k[:, None]
    mask = inside[:, None] & (x < G)[None, :]
    tl.store(place, heat.to(out_ptr.dtype.element_ty), mask=mask)
    at_x = ((gx[None, :] - dx[:, None] + sx[:, None] + 1) * G - 1) * 0.5
    at_y = ((gy - dy + sy + 1) * G - 1) * 0.5
    at_z = ((gz - dz + sz + 1) * D - 1) * 0.5
    channel = tl.arange(0, BFEW)
    some = (channel < FEW)[None, None, :]
    base = few_ptr + b * (D * G * G * FEW) + channel[None, None, :]
    total = tl.zeros((BMOTION, BX, BFEW), tl.float32)
    for corner in tl.static_range(8):
        iz, wz = _cell(at_z, D, corner // 4)
        iy, wy = _cell(at_y, G, corner // 2 % 2)
        ix, wx = _cell(at_x, G, corner % 2)
        cell = (iz * G * G + iy * G)[:, None] + ix
        value = tl.load(base + (cell * FEW)[:, :, None], mask=some, other=0.0).to(tl.float32)
        total += value * ((wz * wy)[:, None] * wx)[:, :, None]
    value = total.to(out_ptr.dtype.element_ty)
    to = MOTIONS + (k * FEW)[:, None, None] + channel[None, None, :]
    mask = mask[:, :, None] & some
    row = out_ptr + b * ob + z * od + y * oh
    tl.store(row + (x * ow)[None, :, None] + to, value, mask=mask & (to < ROOM))
    if ROOM < MOTIONS + MOTIONS * FEW:
        row = rest_ptr + b * rb + z * rd + y * rh - ROOM
        tl.store(row + (x * rw)[None, :, None] + to, value, mask=mask & (to >= ROOM))


@triton.jit
def visibility(
    parts_ptr,
    bias_ptr,
    out_ptr,
    CHANNELS,
    G,
    K: tl.constexpr,
    BX: tl.constexpr,
    BT: tl.constexpr,
):
    """Sigmoid of the shifted sum of all taps; see ``TorchOperators.visibility``."""
    x = tl.program_id(0) * BX + tl.arange(0, BX)
    y = tl.program_id(1)
    b = tl.program_id(2)
    t = tl.arange(0, BT)
    row = y + t // K - K // 2
    column = x[:, None] + (t % K - K // 2)[None, :]
    mask = ((t < K * K) & (row >= 0) & (row < G))[None, :] & (column >= 0) & (column < G)
    place = ((b * G + row)[None, :] * G + column) * CHANNELS + t[None, :]
    total = tl.sum(tl.load(parts_ptr + place, mask=mask, other=0.0), 1) + tl.load(bias_ptr)
    tl.store(out_ptr + (b * G + y) * G + x, 1.0 / (1.0 + tl.exp(-total)), mask=x < G)


@triton.jit
def move(
    volume_ptr, parts_ptr, bias_ptr, source_ptr, driving_ptr, out_ptr, CHANNELS, ob, oh, ow,
    D: tl.constexpr, G: tl.constexpr, MOTIONS: tl.constexpr, TAPS: tl.constexpr, C: tl.constexpr,
    BX: tl.constexpr, BMOTION: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Softmax of the mask, flow and trilinear sampling; see ``TorchOperators.move``."""
    x = tl.program_id(0) * BX + tl.arange(0, BX)
    y = tl.program_id(1) % G
    z = tl.program_id(1) // G
    b = tl.program_id(2).to(tl.int64)
    k = tl.arange(0, BMOTION)
    inside = k < MOTIONS
    logits = tl.zeros((BX, BMOTION), tl.float32) + tl.load(bias_ptr + k, mask=inside, other=float("-inf"))[None, :]
    for tap in tl.static_range(TAPS):
        layer = z + tap - TAPS // 2
        mask = inside[None, :] & (x < G)[:, None] & (layer >= 0) & (layer < D)
        place = ((b * D + layer) * G + y) * G
        logits += tl.load(
            parts_ptr + (place + x)[:, None] * CHANNELS + tap * MOTIONS + k[None, :],
            mask=mask,
            other=0.0,
        ).to(tl.float32)
    share = tl.exp(logits - tl.max(logits, 1)[:, None])
    share = share / tl.sum(share, 1)[:, None]
    known = inside & (k >= 1)
    point = (b * (MOTIONS - 1) + k - 1) * 3
    shift_x = tl.load(source_ptr + point, mask=known, other=0.0) - tl.load(driving_ptr + point, mask=known, other=0.0)
    point += 1
    shift_y = tl.load(source_ptr + point, mask=known, other=0.0) - tl.load(driving_ptr + point, mask=known, other=0.0)
    point += 1
    shift_z = tl.load(source_ptr + point, mask=known, other=0.0) - tl.load(driving_ptr + point, mask=known, other=0.0)
    at_x = -1.0 + x.to(tl.float32) * (2.0 / (G - 1)) + tl.sum(share * shift_x[None, :], 1)
    at_y = -1.0 + y.to(tl.float32) * (2.0 / (G - 1)) + tl.sum(share * shift_y[None, :], 1)
    at_z = -1.0 + z.to(tl.float32) * (2.0 / (D - 1)) + tl.sum(share * shift_z[None, :], 1)
    at_x = ((at_x + 1) * G - 1) * 0.5
    at_y = ((at_y + 1) * G - 1) * 0.5
    at_z = ((at_z + 1) * D - 1) * 0.5
    c = tl.arange(0, BC)
    total = tl.zeros((BX, BC), tl.float32)
    for corner in tl.static_range(8):
        iz, wz = _cell(at_z, D, corner // 4)
        iy, wy = _cell(at_y, G, corner // 2 % 2)
        ix, wx = _cell(at_x, G, corner % 2)
        place = (((b * D + iz) * G + iy) * G + ix) * C
        value = tl.load(volume_ptr + place[:, None] + c[None, :], mask=(c < C)[None, :], other=0.0)
        total += value.to(tl.float32) * (wz * wy * wx)[:, None]
    place = out_ptr + b * ob + y * oh + (x * ow)[:, None] + z * C + c[None, :]
    tl.store(
        place,
        total.to(out_ptr.dtype.element_ty),
        mask=(c < C)[None, :] & (x < G)[:, None],
    )
