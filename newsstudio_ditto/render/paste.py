"""Paste-back and colours on the device: rendered face crops painted into frames that are planar YUV already.

A source frame is converted once (:func:`frames_to_planes`); after that an output frame costs one pass over its paste
window (:func:`paint_planes`). On CUDA both are one kernel each. :func:`paste_back` is the plain way, in RGB.
"""

import logging
from functools import cache
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from newsstudio_ditto.maths.colour import rgb_to_yuv420
from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.packet.spec import FrameSize

log = logging.getLogger(__name__)


def paste_back(
    frames: Tensor, images: Tensor, grids: Tensor, alphas: Tensor, face_valid: Tensor, window: PasteWindow
) -> Tensor:
    """Blend each rendered crop into its frame, inside the paste window only.

    ``alpha * render + (1 - alpha) * frame``, clipped to 0..255 and truncated, as the reference blends. A frame whose
    face was not found, and every pixel outside the window or where alpha is 0, comes back bit for bit.

    Args:
        frames: (B, 3, H, W) uint8, background.
        images: (B, 3, S, S) floating, rendered crops, 0..1.
        grids: (B, h, w, 2) float32, where each window pixel reads the crop, normalised for ``align_corners=False``.
        alphas: (B, 1, h, w) uint8, alpha * 255.
        face_valid: (B,) bool.
        window: where the (h, w) rectangle lies in the frame.

    Returns:
        (B, 3, H, W) uint8, a new tensor on the device of ``frames``.
    """
    pasted = frames.clone()
    background = pasted[..., window.slices[0], window.slices[1]]
    background.copy_(blend_window(background, images, grids, alphas, face_valid))
    return pasted


def blend_window(background: Tensor, images: Tensor, grids: Tensor, alphas: Tensor, face_valid: Tensor) -> Tensor:
    """The paste window after the blend: (B, 3, h, w) uint8; arguments as in :func:`paste_back`."""
    crops = images.float().clamp(0.0, 1.0) * 255.0
    renders = F.grid_sample(crops, grids, mode="bilinear", padding_mode="zeros", align_corners=False)
    weights = alphas.float() / 255.0
    blended = (weights * renders + (1.0 - weights) * background.float()).clamp_(0.0, 255.0).to(torch.uint8)
    keep = (alphas == 0) | ~face_valid[:, None, None, None]
    return torch.where(keep, background, blended)


def frames_to_planes(frames: Tensor) -> Tensor:
    """Convert (B, 3, H, W) uint8 RGB to (B, H*W*3//2) uint8 planes: I420, bt709, limited range."""
    kernels = _kernels() if frames.is_cuda else None
    return rgb_to_yuv420(frames) if kernels is None else kernels.convert(frames)


def paint_planes(
    planes: Tensor,
    patches: Tensor,
    images: Tensor,
    grids: Tensor,
    alphas: Tensor,
    face_valid: Tensor,
    window: PasteWindow,
    frame_size: FrameSize,
) -> None:
    """Paste rendered crops into frames that are planes already, in place.

    The result is that of :func:`paste_back` followed by a conversion of the whole frame: window corners are even, so
    that no 2x2 block of the chroma planes reaches over the window's edge.

    Args:
        planes: (B, H*W*3//2) uint8, I420, contiguous; the window's part is overwritten.
        patches: (B, 3, h, w) uint8 RGB, the background inside the window, contiguous.
        images: (B, 3, S, S) floating, rendered crops, 0..1.
        grids: (B, h, w, 2) float32, contiguous.
        alphas: (B, 1, h, w) uint8, alpha * 255, contiguous.
        face_valid: (B,) bool.
        window: where the (h, w) rectangle lies in the frame.
        frame_size: H and W.
    """
    kernels = _kernels() if planes.is_cuda else None
    if kernels is not None:
        kernels.paint(planes, patches, images, grids, alphas, face_valid, window, frame_size)
        return
    painted = rgb_to_yuv420(blend_window(patches, images, grids, alphas, face_valid))
    _write_window(planes, painted, window, frame_size)


def _write_window(planes: Tensor, painted: Tensor, window: PasteWindow, frame_size: FrameSize) -> None:
    """Copy the planes of the window (B, h*w*3//2) to their places in the planes of the frame."""
    batch, (height, width) = len(planes), frame_size
    luma, chroma = height * width, height * width // 4
    own_luma, own_chroma = window.height * window.width, window.height * window.width // 4
    rows, columns = window.slices
    target = planes[:, :luma].view(batch, height, width)
    target[:, rows, columns] = painted[:, :own_luma].view(batch, window.height, window.width)
    target = planes[:, luma : luma + 2 * chroma].view(batch, 2, height // 2, width // 2)
    half_rows = slice(window.top // 2, window.bottom // 2)
    half_columns = slice(window.left // 2, window.right // 2)
    source = painted[:, own_luma : own_luma + 2 * own_chroma]
    target[..., half_rows, half_columns] = source.view(batch, 2, window.height // 2, window.width // 2)


@cache
def _kernels() -> ModuleType | None:
    """The CUDA kernels, or None where Triton cannot be used, which is said once."""
    try:
        from newsstudio_ditto.render import paste_kernels
    except ImportError as error:
        log.warning("Triton is not installed: paste-back takes the slow way", extra={"reason": str(error)})
        return None
    problem = paste_kernels.find_problem()
    if problem is None:
        return paste_kernels
    log.warning("paste-back kernels do not work here: paste-back takes the slow way", extra={"reason": problem})
    return None
