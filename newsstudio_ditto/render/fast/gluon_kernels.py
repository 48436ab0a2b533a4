"""The convolutions of the fast path with explicit staging, for Hopper's matrix unit. Importing this needs Gluon.

One warp fetches boxes of input and rows of weights into a ring in shared memory; eight warps multiply straight from
there. A program works through many tiles, so the next tile's first steps are fetched while this one's results are
written. Weights are packed in an order that leaves neighbouring output channels with one thread (``thread_order``).
"""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait


@triton.constexpr_function
def _mma_layout(columns, warps):
    return gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[warps, 1], instr_shape=[16, columns, 16])


@triton.constexpr_function
def _thread_layout(rows, columns, warps):
    """Rows of pixels and columns of channels of a result, each thread with ``columns / 4`` neighbouring channels."""
    registers, step = [], 1
    while step < columns // 4:
        registers.append([0, step])
        step *= 2
    registers.append([8, 0])
    step = 16 * warps
    while step < rows:
        registers.append([step, 0])
        step *= 2
    lanes = [[0, columns // 4], [0, columns // 2], [1, 0], [2, 0], [4, 0]]
    warp_bases, step = [], 16
    while step < 16 * warps:
        warp_bases.append([step, 0])
        step *= 2
    return gl.DistributedLinearLayout(registers, lanes, warp_bases, [], [rows, columns])


@gluon.jit
def _feed(
    a_desc, w_desc, t_desc, a_bufs, w_bufs, t_bufs, ready, empty, count, b, z, y, x, b2, z2, y2, x2, row,
    KY: gl.constexpr, KX: gl.constexpr, BLOCKS: gl.constexpr, STEPS: gl.constexpr,
    BN: gl.constexpr, BK: gl.constexpr, TAIL: gl.constexpr, RING: gl.constexpr, GROUPS: gl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        slot = count % RING
        block = step % BLOCKS
        tap = step // BLOCKS
        mbarrier.wait(empty.index(slot), ((count // RING) & 1) ^ 1)
        bar = ready.index(slot)
        nbytes: gl.constexpr = GROUPS * a_desc.block_type.nbytes + w_desc.block_type.nbytes
        if TAIL:
            mbarrier.expect(bar, nbytes + t_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(t_desc, [row + BN, step * BK], bar, t_bufs.index(slot))
        else:
            mbarrier.expect(bar, nbytes)
        tma.async_copy_global_to_shared(
            a_desc, [b, z + tap // (KX * KY), y + tap // KX % KY, x + tap % KX, block * BK], bar, a_bufs.index(slot)
        )
        if GROUPS == 2:
            tma.async_copy_global_to_shared(
                a_desc,
                [b2, z2 + tap // (KX * KY), y2 + tap // KX % KY, x2 + tap % KX, block * BK],
                bar,
                a_bufs.index(slot + RING),
            )
        tma.async_copy_global_to_shared(w_desc, [row, step * BK], bar, w_bufs.index(slot))
        count += 1
    return count


@gluon.jit
def _multiply(
    a_bufs, w_bufs, t_bufs, ready, empty, count,
    STEPS: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, TAIL: gl.constexpr,
    RING: gl.constexpr, WARPS: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    acc = gl.zeros((BM, BN), gl.float32, _mma_layout(BN, WARPS))
    TAIL_N: gl.constexpr = TAIL if TAIL else 16
    tail = gl.zeros((BM, TAIL_N), gl.float32, _mma_layout(TAIL_N, WARPS))
    for step in range(STEPS):
        slot = count % RING
        mbarrier.wait(ready.index(slot), (count // RING) & 1)
        a = a_bufs.index(slot + GROUP * RING).reshape([BM, BK])
        token = warpgroup_mma(a, w_bufs.index(slot).permute((1, 0)), acc, is_async=True)
        if TAIL:
            more = warpgroup_mma(a, t_bufs.index(slot).permute((1, 0)), tail, is_async=True)
            acc, tail = warpgroup_mma_wait(2, deps=(token, more))
        else:
            acc = warpgroup_mma_wait(1, deps=(token,))
        if step > 0:
            mbarrier.arrive(empty.index((count + RING - 1) % RING), count=1)
        count += 1
    if TAIL:
        acc, tail = warpgroup_mma_wait(0, deps=(acc, tail))
    else:
        acc = warpgroup_mma_wait(0, deps=(acc,))
    mbarrier.arrive(empty.index((count + RING - 1) % RING), count=1)
    return acc, tail, count


@gluon.jit
def _leaky(x, SLOPE: gl.constexpr):
    if SLOPE == 1.0:
        return x
    return gl.where(x >= 0, x, x * SLOPE)


@gluon.jit
def _write(
    raw, first, shift, bias_row, phase_y, phase_x, b, z, y, x, tile, D, H, W,
    out_ptr, bias_ptr, extra_ptr, scale_ptr, partial_ptr,
    ob, od, oh, ow, eb, ed, eh, ew, N,
    TD: gl.constexpr, TH: gl.constexpr, TW: gl.constexpr, COLUMNS: gl.constexpr, WARPS: gl.constexpr,
    SCALE_Y: gl.constexpr, TARGET_Y: gl.constexpr, STEP_Y: gl.constexpr, COPIES_Y: gl.constexpr,
    SCALE_X: gl.constexpr, TARGET_X: gl.constexpr, STEP_X: gl.constexpr, COPIES_X: gl.constexpr,
    SLOPE: gl.constexpr, HAS_BIAS: gl.constexpr, HAS_RESIDUAL: gl.constexpr, SHIFT: gl.constexpr,
    HAS_SCALE: gl.constexpr, HAS_MOMENTS: gl.constexpr,
):  # fmt: skip
    BM: gl.constexpr = TD * TH * TW
    layout: gl.constexpr = _thread_layout(BM, COLUMNS, WARPS)
    ordered = raw.reshape([BM, COLUMNS // 8, 4, 2]).permute((0, 2, 1, 3)).reshape([BM, COLUMNS])
    acc = gl.convert_layout(ordered, layout)
    i = gl.arange(0, BM, layout=gl.SliceLayout(1, layout))
    c = first + gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))
    px = i % TW + x
    py = i // TW % TH + y
    pz = i // (TW * TH) + z
    inside = c < N
    row = py * SCALE_Y + TARGET_Y + STEP_Y * phase_y
    column = px * SCALE_X + TARGET_X + STEP_X * phase_x
    if HAS_BIAS:
        acc += gl.load(bias_ptr + bias_row + c, mask=inside, other=0.0)[None, :]
    if HAS_RESIDUAL:
        here = extra_ptr + b.to(gl.int64) * eb
        place = (pz * ed + (row >> SHIFT) * eh + (column >> SHIFT) * ew)[:, None] + c[None, :]
        acc += gl.load(here + place, mask=inside[None, :], other=0.0).to(gl.float32)
    acc = _leaky(acc, SLOPE)
    if HAS_SCALE:
        acc *= gl.load(scale_ptr + (b * H + py) * W + px)[:, None]
    if HAS_MOMENTS:
        mean = gl.sum(acc, 0) / BM
        spread = acc - mean[None, :]
        base = partial_ptr + tile.to(gl.int64) * 2 * N + c
        gl.store(base, mean, mask=inside)
        gl.store(base + N, gl.sum(spread * spread, 0), mask=inside)
    value = acc.to(out_ptr.dtype.element_ty)
    base = out_ptr + b.to(gl.int64) * ob
    for dy in gl.static_range(COPIES_Y):
        for dx in gl.static_range(COPIES_X):
            place = (pz * od + (row + dy) * oh + (column + dx) * ow)[:, None] + (c - shift)[None, :]
            if TD == 1:
                gl.store(base + place, value, mask=inside[None, :])
            else:
                gl.store(base + place, value, mask=inside[None, :] & (pz < D)[:, None])


@gluon.jit
def _locate(t, N, WIDTH: gl.constexpr, PHASES: gl.constexpr, GROUPS: gl.constexpr):
    """Block of channels, phase and first tile of pixels that a program does as its task ``t``."""
    tiles_n = gl.cdiv(N, WIDTH)
    return t % tiles_n, t // tiles_n % PHASES, t // tiles_n // PHASES * GROUPS


@gluon.jit
def _corner(tile, D, H, W, TD: gl.constexpr, TH: gl.constexpr, TW: gl.constexpr):
    """Image, and first z, y and x, of a tile of pixels."""
    x = tile % (W // TW) * TW
    y = tile // (W // TW) % (H // TH) * TH
    deep = gl.cdiv(D, TD)  # the smallest volumes are less deep than their tile
    z = tile // ((W // TW) * (H // TH)) % deep * TD
    return tile // ((W // TW) * (H // TH) * deep), z, y, x


@gluon.jit
def _convolve_feed(
    a0, w0, t0, a1, w1, t1, a2, w2, a_bufs, w_bufs, t_bufs, ready, empty, D, H, W, N, total,
    TD: gl.constexpr, TH: gl.constexpr, TW: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, TAIL: gl.constexpr,
    RING: gl.constexpr, KY: gl.constexpr, KX: gl.constexpr, BLOCKS: gl.constexpr, STEPS: gl.constexpr,
    OFFSET_Z: gl.constexpr, PHASES_Y: gl.constexpr, OFFSET_Y: gl.constexpr, MOVE_Y: gl.constexpr,
    PHASES_X: gl.constexpr, OFFSET_X: gl.constexpr, MOVE_X: gl.constexpr,
    KY1: gl.constexpr, KX1: gl.constexpr, BLOCKS1: gl.constexpr, STEPS1: gl.constexpr,
    OFFSET_Z1: gl.constexpr, OFFSET_Y1: gl.constexpr, OFFSET_X1: gl.constexpr,
    K2: gl.constexpr, BLOCKS2: gl.constexpr, STEPS2: gl.constexpr, PADDED: gl.constexpr, GROUPS: gl.constexpr,
):  # fmt: skip
    count = 0
    for t in range(gl.program_id(0), total, gl.num_programs(0)):
        n, phase, tile = _locate(t, N, BN + TAIL, PHASES_Y * PHASES_X, GROUPS)
        b, z, y, x = _corner(tile, D, H, W, TD, TH, TW)
        b2, z2, y2, x2 = _corner(tile + GROUPS - 1, D, H, W, TD, TH, TW)
        move_y = OFFSET_Y + MOVE_Y * (phase // PHASES_X)
        move_x = OFFSET_X + MOVE_X * (phase % PHASES_X)
        row = phase * PADDED + n * (BN + TAIL)
        count = _feed(
            a0, w0, t0, a_bufs, w_bufs, t_bufs, ready, empty, count, b, z + OFFSET_Z, y + move_y, x + move_x,
            b2, z2 + OFFSET_Z, y2 + move_y, x2 + move_x, row, KY, KX, BLOCKS, STEPS, BN, BK, TAIL, RING, GROUPS,
        )  # fmt: skip
        if STEPS1:
            count = _feed(
                a1, w1, t1, a_bufs, w_bufs, t_bufs, ready, empty, count, b, z + OFFSET_Z1, y + OFFSET_Y1, x + OFFSET_X1,
                b2, z2 + OFFSET_Z1, y2 + OFFSET_Y1, x2 + OFFSET_X1, row,
                KY1, KX1, BLOCKS1, STEPS1, BN, BK, TAIL, RING, GROUPS,
            )  # fmt: skip
        if STEPS2:
            count = _feed(
                a2, w2, w2, a_bufs, w_bufs, t_bufs, ready, empty, count, b, z, y - K2 // 2, x - K2 // 2,
                b2, z2, y2 - K2 // 2, x2 - K2 // 2, row, K2, K2, BLOCKS2, STEPS2, BN, BK, 0, RING, GROUPS,
            )  # fmt: skip


@gluon.jit
def _convolve_write(
    a_bufs, w_bufs, t_bufs, ready, empty, out_ptr, rest_ptr, bias_ptr, extra_ptr, scale_ptr, partial_ptr,
    ob, od, oh, ow, rb, rd, rh, rw, eb, ed, eh, ew, D, H, W, N, total,
    TD: gl.constexpr, TH: gl.constexpr, TW: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, TAIL: gl.constexpr,
    RING: gl.constexpr, WARPS: gl.constexpr, ALL_STEPS: gl.constexpr,
    PHASES_Y: gl.constexpr, SCALE_Y: gl.constexpr, TARGET_Y: gl.constexpr, STEP_Y: gl.constexpr,
    COPIES_Y: gl.constexpr,
    PHASES_X: gl.constexpr, SCALE_X: gl.constexpr, TARGET_X: gl.constexpr, STEP_X: gl.constexpr,
    COPIES_X: gl.constexpr,
    SLOPE: gl.constexpr, HAS_BIAS: gl.constexpr, HAS_RESIDUAL: gl.constexpr, SHIFT: gl.constexpr,
    HAS_SCALE: gl.constexpr, HAS_MOMENTS: gl.constexpr, HAS_REST: gl.constexpr,
    GROUPS: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    count = 0
    for t in range(gl.program_id(0), total, gl.num_programs(0)):
        n, phase, tile = _locate(t, N, BN + TAIL, PHASES_Y * PHASES_X, GROUPS)
        tile += GROUP
        b, z, y, x = _corner(tile, D, H, W, TD, TH, TW)
        acc, tail, count = _multiply(
            a_bufs, w_bufs, t_bufs, ready, empty, count, ALL_STEPS, TD * TH * TW, BN, BK, TAIL, RING, WARPS, GROUP
        )
        _write(
            acc, n * (BN + TAIL), 0, phase * N, phase // PHASES_X, phase % PHASES_X, b, z, y, x, tile, D, H, W,
            out_ptr, bias_ptr, extra_ptr, scale_ptr, partial_ptr, ob, od, oh, ow, eb, ed, eh, ew, N,
            TD, TH, TW, BN, WARPS, SCALE_Y, TARGET_Y, STEP_Y, COPIES_Y, SCALE_X, TARGET_X, STEP_X, COPIES_X,
            SLOPE, HAS_BIAS, HAS_RESIDUAL, SHIFT, HAS_SCALE, HAS_MOMENTS,
        )  # fmt: skip
        if HAS_REST:
            _write(
                tail, n * (BN + TAIL) + BN, BN, phase * N, phase // PHASES_X, phase % PHASES_X, b, z, y, x, tile,
                D, H, W, rest_ptr, bias_ptr, extra_ptr, scale_ptr, partial_ptr, rb, rd, rh, rw, eb, ed, eh, ew, N,
                TD, TH, TW, TAIL, WARPS, SCALE_Y, TARGET_Y, STEP_Y, COPIES_Y, SCALE_X, TARGET_X, STEP_X, COPIES_X,
                SLOPE, HAS_BIAS, HAS_RESIDUAL, SHIFT, HAS_SCALE, HAS_MOMENTS,
            )  # fmt: skip
        elif TAIL:
            _write(
                tail, n * (BN + TAIL) + BN, 0, phase * N, phase // PHASES_X, phase % PHASES_X, b, z, y, x, tile,
                D, H, W, out_ptr, bias_ptr, extra_ptr, scale_ptr, partial_ptr, ob, od, oh, ow, eb, ed, eh, ew, N,
                TD, TH, TW, TAIL, WARPS, SCALE_Y, TARGET_Y, STEP_Y, COPIES_Y, SCALE_X, TARGET_X, STEP_X, COPIES_X,
                SLOPE, HAS_BIAS, HAS_RESIDUAL, SHIFT, HAS_SCALE, HAS_MOMENTS,
            )  # fmt: skip


@gluon.jit
def _ring(a_desc, w_desc, t_desc, TAIL: gl.constexpr, RING: gl.constexpr, GROUPS: gl.constexpr):
    a_bufs = gl.allocate_shared_memory(gl.float16, [GROUPS * RING] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
    w_bufs = gl.allocate_shared_memory(gl.float16, [RING] + w_desc.block_type.shape, w_desc.layout)  # noqa: RUF005
    t_bufs = w_bufs
    if TAIL:
        t_bufs = gl.allocate_shared_memory(gl.float16, [RING] + t_desc.block_type.shape, t_desc.layout)  # noqa: RUF005
    ready = gl.allocate_shared_memory(gl.int64, [RING, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [RING, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(RING):
        mbarrier.init(ready.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=GROUPS)
    return a_bufs, w_bufs, t_bufs, ready, empty


@gluon.jit
def convolve(
    a0, w0, t0, a1, w1, t1, a2, w2, out_ptr, rest_ptr, bias_ptr, extra_ptr, scale_ptr, partial_ptr,
    ob, od, oh, ow, rb, rd, rh, rw, eb, ed, eh, ew, D, H, W, N, total,
    TD: gl.constexpr, TH: gl.constexpr, TW: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, TAIL: gl.constexpr,
    RING: gl.constexpr, WARPS: gl.constexpr,
    KY: gl.constexpr, KX: gl.constexpr, BLOCKS: gl.constexpr, STEPS: gl.constexpr,
    OFFSET_Z: gl.constexpr,
    PHASES_Y: gl.constexpr, OFFSET_Y: gl.constexpr, MOVE_Y: gl.constexpr,
    SCALE_Y: gl.constexpr, TARGET_Y: gl.constexpr, STEP_Y: gl.constexpr, COPIES_Y: gl.constexpr,
    PHASES_X: gl.constexpr, OFFSET_X: gl.constexpr, MOVE_X: gl.constexpr,
    SCALE_X: gl.constexpr, TARGET_X: gl.constexpr, STEP_X: gl.constexpr, COPIES_X: gl.constexpr,
    KY1: gl.constexpr, KX1: gl.constexpr, BLOCKS1: gl.constexpr, STEPS1: gl.constexpr,
    OFFSET_Z1: gl.constexpr, OFFSET_Y1: gl.constexpr, OFFSET_X1: gl.constexpr,
    K2: gl.constexpr, BLOCKS2: gl.constexpr, STEPS2: gl.constexpr,
    SLOPE: gl.constexpr, HAS_BIAS: gl.constexpr, HAS_RESIDUAL: gl.constexpr, SHIFT: gl.constexpr,
    HAS_SCALE: gl.constexpr, HAS_MOMENTS: gl.constexpr, HAS_REST: gl.constexpr, PADDED: gl.constexpr,
    GROUPS: gl.constexpr,
):  # fmt: skip
    """Up to three inputs, convolved and added; see ``TorchOperators.convolve``. PADDED: rows of a phase's weights."""
    a_bufs, w_bufs, t_bufs, ready, empty = _ring(a0, w0, t0, TAIL, RING, GROUPS)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_convolve_write, (
                    a_bufs, w_bufs, t_bufs, ready, empty,
                    out_ptr, rest_ptr, bias_ptr, extra_ptr, scale_ptr, partial_ptr,
                    ob, od, oh, ow, rb, rd, rh, rw, eb, ed, eh, ew, D, H, W, N, total,
                    TD, TH, TW, BN, BK, TAIL, RING, WARPS, STEPS + STEPS1 + STEPS2,
                    PHASES_Y, SCALE_Y, TARGET_Y, STEP_Y, COPIES_Y, PHASES_X, SCALE_X, TARGET_X, STEP_X, COPIES_X,
                    SLOPE, HAS_BIAS, HAS_RESIDUAL, SHIFT, HAS_SCALE, HAS_MOMENTS, HAS_REST, GROUPS, 0,
                )),
                (_convolve_write, (
                    a_bufs, w_bufs, t_bufs, ready, empty,
                    out_ptr, rest_ptr, bias_ptr, extra_ptr, scale_ptr, partial_ptr,
                    ob, od, oh, ow, rb, rd, rh, rw, eb, ed, eh, ew, D, H, W, N, total,
                    TD, TH, TW, BN, BK, TAIL, RING, WARPS, STEPS + STEPS1 + STEPS2,
                    PHASES_Y, SCALE_Y, TARGET_Y, STEP_Y, COPIES_Y, PHASES_X, SCALE_X, TARGET_X, STEP_X, COPIES_X,
                    SLOPE, HAS_BIAS, HAS_RESIDUAL, SHIFT, HAS_SCALE, HAS_MOMENTS, HAS_REST, GROUPS, 1,
                )),
                (_convolve_feed, (
                    a0, w0, t0, a1, w1, t1, a2, w2, a_bufs, w_bufs, t_bufs, ready, empty, D, H, W, N, total,
                    TD, TH, TW, BN, BK, TAIL, RING, KY, KX, BLOCKS, STEPS, OFFSET_Z,
                    PHASES_Y, OFFSET_Y, MOVE_Y, PHASES_X, OFFSET_X, MOVE_X,
                    KY1, KX1, BLOCKS1, STEPS1, OFFSET_Z1, OFFSET_Y1, OFFSET_X1, K2, BLOCKS2, STEPS2, PADDED, GROUPS,
                )),
            ],
            [WARPS, 1],
            [232, 40],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_convolve_write, (
                    a_bufs, w_bufs, t_bufs, ready, empty,
                    out_ptr, rest_ptr, bias_ptr, extra_ptr, scale_ptr, partial_ptr,
                    ob, od, oh, ow, rb, rd, rh, rw, eb, ed, eh, ew, D, H, W, N, total,
                    TD, TH, TW, BN, BK, TAIL, RING, WARPS, STEPS + STEPS1 + STEPS2,
                    PHASES_Y, SCALE_Y, TARGET_Y, STEP_Y, COPIES_Y, PHASES_X, SCALE_X, TARGET_X, STEP_X, COPIES_X,
                    SLOPE, HAS_BIAS, HAS_RESIDUAL, SHIFT, HAS_SCALE, HAS_MOMENTS, HAS_REST, GROUPS, 0,
                )),
                (_convolve_feed, (
                    a0, w0, t0, a1, w1, t1, a2, w2, a_bufs, w_bufs, t_bufs, ready, empty, D, H, W, N, total,
                    TD, TH, TW, BN, BK, TAIL, RING, KY, KX, BLOCKS, STEPS, OFFSET_Z,
                    PHASES_Y, OFFSET_Y, MOVE_Y, PHASES_X, OFFSET_X, MOVE_X,
                    KY1, KX1, BLOCKS1, STEPS1, OFFSET_Z1, OFFSET_Y1, OFFSET_X1, K2, BLOCKS2, STEPS2, PADDED, GROUPS,
                )),
            ],
            [1],
            [40],
        )  # fmt: skip


@gluon.jit
def _modulate_feed(
    a_desc, w_desc, a_bufs, w_bufs, ready, empty, H, W, N, total,
    TH: gl.constexpr, TW: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, RING: gl.constexpr,
    BLOCKS: gl.constexpr, STEPS: gl.constexpr, WIDTH: gl.constexpr, GROUPS: gl.constexpr,
):  # fmt: skip
    count = 0
    for t in range(gl.program_id(0), total, gl.num_programs(0)):
        n, _phase, tile = _locate(t, N, WIDTH, 1, GROUPS)
        b, _z, y, x = _corner(tile, 1, H, W, 1, TH, TW)
        b2, _z2, y2, x2 = _corner(tile + GROUPS - 1, 1, H, W, 1, TH, TW)
        count = _feed(
            a_desc, w_desc, w_desc, a_bufs, w_bufs, w_bufs, ready, empty, count, b, 0, y - 1, x - 1,
            b2, 0, y2 - 1, x2 - 1, n * BN, 3, 3, BLOCKS, STEPS, BN, BK, 0, RING, GROUPS,
        )  # fmt: skip


@gluon.jit
def _modulate_write(
    a_bufs, w_bufs, ready, empty, x_ptr, moments_ptr, bias_ptr, out_ptr, xb, xh, xw, ob, oh, ow, H, W, N, total,
    TH: gl.constexpr, TW: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, RING: gl.constexpr, WARPS: gl.constexpr,
    STEPS: gl.constexpr, WIDTH: gl.constexpr, SHIFT: gl.constexpr, PAIRED: gl.constexpr, SLOPE: gl.constexpr,
    GROUPS: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    BM: gl.constexpr = TH * TW
    layout: gl.constexpr = _thread_layout(BM, WIDTH, WARPS)
    count = 0
    for t in range(gl.program_id(0), total, gl.num_programs(0)):
        n, _phase, tile = _locate(t, N, WIDTH, 1, GROUPS)
        b, _z, y, x = _corner(tile + GROUP, 1, H, W, 1, TH, TW)
        raw, _tail, count = _multiply(
            a_bufs, w_bufs, w_bufs, ready, empty, count, STEPS, BM, BN, BK, 0, RING, WARPS, GROUP
        )
        i = gl.arange(0, BM, layout=gl.SliceLayout(1, layout))
        c = n * WIDTH + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, layout))
        inside = c < N
        px = i % TW + x
        py = i // TW + y
        place = ((py >> SHIFT) * xh + (px >> SHIFT) * xw)[:, None] + c[None, :]
        given = gl.load(x_ptr + b.to(gl.int64) * xb + place, mask=inside[None, :], other=0.0).to(gl.float32)
        mean = gl.load(moments_ptr + b * 2 * N + c, mask=inside, other=0.0)
        inverse = gl.load(moments_ptr + (b * 2 + 1) * N + c, mask=inside, other=0.0)
        normal = (given - mean[None, :]) * inverse[None, :]
        ordered = raw.reshape([BM, BN // 8, 4, 2]).permute((0, 2, 1, 3))
        if PAIRED:
            gamma, beta = ordered.reshape([BM, WIDTH, 2]).split()
            gamma = gl.convert_layout(gamma, layout)
            beta = gl.convert_layout(beta, layout)
            gamma += gl.load(bias_ptr + 2 * c, mask=inside, other=0.0)[None, :]
            beta += gl.load(bias_ptr + 2 * c + 1, mask=inside, other=0.0)[None, :]
            value = normal * gamma + beta
        else:
            gamma = gl.convert_layout(ordered.reshape([BM, WIDTH]), layout)
            gamma += gl.load(bias_ptr + c, mask=inside, other=0.0)[None, :]
            value = normal * gamma
        value = _leaky(value, SLOPE).to(out_ptr.dtype.element_ty)
        place = (py * oh + px * ow)[:, None] + c[None, :]
        gl.store(out_ptr + b.to(gl.int64) * ob + place, value, mask=inside[None, :])


@gluon.jit
def modulate(
    a_desc, w_desc, x_ptr, moments_ptr, bias_ptr, out_ptr, xb, xh, xw, ob, oh, ow, H, W, N, total,
    TH: gl.constexpr, TW: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, RING: gl.constexpr, WARPS: gl.constexpr,
    BLOCKS: gl.constexpr, STEPS: gl.constexpr, SHIFT: gl.constexpr, PAIRED: gl.constexpr, SLOPE: gl.constexpr,
    GROUPS: gl.constexpr,
):  # fmt: skip
    """A 3x3 convolution whose outputs scale and shift ``x``; see ``TorchOperators.modulate``. N channels of x."""
    WIDTH: gl.constexpr = BN // 2 if PAIRED else BN
    a_bufs, w_bufs, _t_bufs, ready, empty = _ring(a_desc, w_desc, w_desc, 0, RING, GROUPS)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_modulate_write, (
                    a_bufs, w_bufs, ready, empty, x_ptr, moments_ptr, bias_ptr, out_ptr, xb, xh, xw, ob, oh, ow,
                    H, W, N, total, TH, TW, BN, BK, RING, WARPS, STEPS, WIDTH, SHIFT, PAIRED, SLOPE, GROUPS, 0,
                )),
                (_modulate_write, (
                    a_bufs, w_bufs, ready, empty, x_ptr, moments_ptr, bias_ptr, out_ptr, xb, xh, xw, ob, oh, ow,
                    H, W, N, total, TH, TW, BN, BK, RING, WARPS, STEPS, WIDTH, SHIFT, PAIRED, SLOPE, GROUPS, 1,
                )),
                (_modulate_feed, (
                    a_desc, w_desc, a_bufs, w_bufs, ready, empty, H, W, N, total,
                    TH, TW, BN, BK, RING, BLOCKS, STEPS, WIDTH, GROUPS,
                )),
            ],
            [WARPS, 1],
            [232, 40],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_modulate_write, (
                    a_bufs, w_bufs, ready, empty, x_ptr, moments_ptr, bias_ptr, out_ptr, xb, xh, xw, ob, oh, ow,
                    H, W, N, total, TH, TW, BN, BK, RING, WARPS, STEPS, WIDTH, SHIFT, PAIRED, SLOPE, GROUPS, 0,
                )),
                (_modulate_feed, (
                    a_desc, w_desc, a_bufs, w_bufs, ready, empty, H, W, N, total,
                    TH, TW, BN, BK, RING, BLOCKS, STEPS, WIDTH, GROUPS,
                )),
            ],
            [1],
            [40],
        )  # fmt: skip
