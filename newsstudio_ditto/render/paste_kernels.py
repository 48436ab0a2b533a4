"""Triton kernels of paste-back: one pass over a frame turns it into planes, one over a window blends and converts.

A program takes blocks of 2x2 pixels, since each gives four luma values and one pair of chroma values.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.packet.spec import FrameSize

_BLOCK = 256


@triton.jit
def _luma(red, green, blue):
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@triton.jit
def _store_chroma(row, at, num_luma, red, green, blue, mask):
    """Store U and V of 2x2 blocks whose mean colour is given; ``at`` counts the blocks of the frame."""
    grey = _luma(red, green, blue)
    u = (blue - grey) * (224.0 / 255.0 / 1.8556) + 128.0
    v = (red - grey) * (224.0 / 255.0 / 1.5748) + 128.0
    tl.store(row + num_luma + at, (u + 0.5).to(tl.uint8), mask=mask)
    tl.store(row + num_luma + num_luma // 4 + at, (v + 0.5).to(tl.uint8), mask=mask)


@triton.jit(do_not_specialize=["height", "width"])
def _convert(planes, frames, height, width, BLOCK: tl.constexpr):
    batch = tl.program_id(1).to(tl.int64)
    num_luma = height * width
    row = planes + batch * (num_luma * 3 // 2)
    source = frames + batch * 3 * num_luma
    block = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = block < num_luma // 4
    y, x = block // (width // 2), block % (width // 2)
    red = tl.zeros([BLOCK], tl.float32)
    green = tl.zeros([BLOCK], tl.float32)
    blue = tl.zeros([BLOCK], tl.float32)
    for corner in tl.static_range(4):
        at = (2 * y + corner // 2) * width + 2 * x + corner % 2
        r = tl.load(source + at, mask=mask, other=0).to(tl.float32)
        g = tl.load(source + num_luma + at, mask=mask, other=0).to(tl.float32)
        b = tl.load(source + 2 * num_luma + at, mask=mask, other=0).to(tl.float32)
        tl.store(row + at, (_luma(r, g, b) * (219.0 / 255.0) + 16.5).to(tl.uint8), mask=mask)
        red += r
        green += g
        blue += b
    _store_chroma(row, block, num_luma, red * 0.25, green * 0.25, blue * 0.25, mask)


@triton.jit
def _tap(plane, x, y, side, step_y, step_x, mask):
    inside = mask & (x >= 0) & (x < side) & (y >= 0) & (y < side)
    value = tl.load(plane + y * step_y + x * step_x, mask=inside, other=0.0).to(tl.float32)
    return tl.minimum(tl.maximum(value, 0.0), 1.0) * 255.0


@triton.jit(do_not_specialize=["side", "height", "width", "top", "left", "h", "w"])
def _paint(
    planes,
    patches,
    images,
    grids,
    alphas,
    valid,
    side,
    step_b,
    step_c,
    step_y,
    step_x,
    height,
    width,
    top,
    left,
    h,
    w,
    BLOCK: tl.constexpr,
):
    batch = tl.program_id(1).to(tl.int64)
    num_luma = height * width
    area = h * w
    row = planes + batch * (num_luma * 3 // 2)
    picture = images + batch * step_b
    has_face = tl.load(valid + batch) != 0
    block = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = block < area // 4
    by, bx = block // (w // 2), block % (w // 2)
    red = tl.zeros([BLOCK], tl.float32)
    green = tl.zeros([BLOCK], tl.float32)
    blue = tl.zeros([BLOCK], tl.float32)
    for corner in tl.static_range(4):
        y, x = 2 * by + corner // 2, 2 * bx + corner % 2
        at = y * w + x
        place = grids + (batch * area + at) * 2
        u = ((tl.load(place, mask=mask, other=-4.0) + 1.0) * side - 1.0) * 0.5
        v = ((tl.load(place + 1, mask=mask, other=-4.0) + 1.0) * side - 1.0) * 0.5
        # far outside reads nothing either way, and would not fit an integer
        u = tl.minimum(tl.maximum(u, -2.0), side + 1.0)
        v = tl.minimum(tl.maximum(v, -2.0), side + 1.0)
        floor_u, floor_v = tl.floor(u), tl.floor(v)
        right, below = u - floor_u, v - floor_v
        u0, v0 = floor_u.to(tl.int32), floor_v.to(tl.int32)
        alpha = tl.load(alphas + batch * area + at, mask=mask, other=0)
        weight = tl.div_rn(alpha.to(tl.float32), 255.0)
        is_kept = (alpha == 0) | (has_face == 0)
        r = tl.zeros([BLOCK], tl.float32)
        g = tl.zeros([BLOCK], tl.float32)
        b = tl.zeros([BLOCK], tl.float32)
        for channel in tl.static_range(3):
            plane = picture + channel * step_c
            render = (
                _tap(plane, u0, v0, side, step_y, step_x, mask) * ((1.0 - right) * (1.0 - below))
                + _tap(plane, u0 + 1, v0, side, step_y, step_x, mask) * (right * (1.0 - below))
                + _tap(plane, u0, v0 + 1, side, step_y, step_x, mask) * ((1.0 - right) * below)
                + _tap(plane, u0 + 1, v0 + 1, side, step_y, step_x, mask) * (right * below)
            )
            behind = tl.load(patches + (batch * 3 + channel) * area + at, mask=mask, other=0).to(tl.float32)
            mixed = tl.floor(tl.minimum(tl.maximum(weight * render + (1.0 - weight) * behind, 0.0), 255.0))
            value = tl.where(is_kept, behind, mixed)
            if channel == 0:
                r = value
            elif channel == 1:
                g = value
            else:
                b = value
        luma = (_luma(r, g, b) * (219.0 / 255.0) + 16.5).to(tl.uint8)
        tl.store(row + (top + y) * width + left + x, luma, mask=mask)
        red += r
        green += g
        blue += b
    chroma = (top // 2 + by) * (width // 2) + left // 2 + bx
    _store_chroma(row, chroma, num_luma, red * 0.25, green * 0.25, blue * 0.25, mask)


def convert(frames: Tensor) -> Tensor:
    """Convert (B, 3, H, W) uint8 RGB on a CUDA device to (B, H*W*3//2) uint8 planes."""
    frames = frames.contiguous()
    batch, _, height, width = frames.shape
    planes = torch.empty(batch, height * width * 3 // 2, dtype=torch.uint8, device=frames.device)
    with torch.cuda.device(frames.device):
        grid = (triton.cdiv(height * width // 4, _BLOCK), batch)
        _convert[grid](planes, frames, height, width, BLOCK=_BLOCK)
    return planes


def paint(
    planes: Tensor,
    patches: Tensor,
    images: Tensor,
    grids: Tensor,
    alphas: Tensor,
    face_valid: Tensor,
    window: PasteWindow,
    frame_size: FrameSize,
) -> None:
    """Blend and convert the paste window, in place; as :func:`newsstudio_ditto.render.paste.paint_planes`."""
    with torch.cuda.device(planes.device):
        grid = (triton.cdiv(window.height * window.width // 4, _BLOCK), len(planes))
        _paint[grid](
            planes,
            patches,
            images,
            grids,
            alphas,
            face_valid.view(torch.uint8),
            images.shape[-1],
            *images.stride(),
            *frame_size,
            *window,
            BLOCK=_BLOCK,
        )


def find_problem() -> str | None:
    """Try both kernels on a small frame; what is wrong, or None."""
    device = torch.device("cuda", torch.cuda.current_device())
    frames = torch.arange(192, device=device, dtype=torch.uint8).view(1, 3, 8, 8)
    window, size = PasteWindow(0, 0, 8, 8), FrameSize(8, 8)
    try:
        planes = convert(frames)
        alphas = torch.full((1, 1, 8, 8), 255, dtype=torch.uint8, device=device)
        images, grids = torch.ones(1, 3, 4, 4, device=device), torch.zeros(1, 8, 8, 2, device=device)
        paint(planes, frames, images, grids, alphas, torch.ones(1, dtype=torch.bool, device=device), window, size)
        white = planes[0, :64].cpu()
    except Exception as error:  # noqa: BLE001 - a compiler fails in many ways; all of them mean the slow way
        return f"{type(error).__name__}: {error}"
    return None if bool((white == 235).all()) else f"white came out as {white.tolist()[:4]}"
