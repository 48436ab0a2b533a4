"""Paste-back on the device: rendered face crops into their background frames."""

import torch
import torch.nn.functional as F
from torch import Tensor

from newsstudio_ditto.maths.paste import PasteWindow


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
    top, left, height, width = window
    pasted = frames.clone()
    background = pasted[..., top : top + height, left : left + width]
    crops = images.float().clamp(0.0, 1.0) * 255.0
    renders = F.grid_sample(crops, grids, mode="bilinear", padding_mode="zeros", align_corners=False)
    weights = alphas.float() / 255.0
    blended = (weights * renders + (1.0 - weights) * background.float()).clamp_(0.0, 255.0).to(torch.uint8)
    keep = (alphas == 0) | ~face_valid[:, None, None, None]
    background.copy_(torch.where(keep, background, blended))
    return pasted
