"""Face crops for the networks: 512 x 512 by affine sampling, halved by area averaging for those that take 256."""

from collections.abc import Iterator

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newsstudio_ditto.stages.chunks import Floats, spans
from newsstudio_ditto.units import CROP_SIZE_PX, NETWORK_INPUT_PX

BATCH_FRAMES = 8


def crop_face(
    frame: NDArray[np.uint8], original_to_crop: Floats, input_px: int = NETWORK_INPUT_PX
) -> NDArray[np.uint8]:
    """One face, as the networks were trained on it.

    Args:
        frame: (3, H, W) uint8, planar RGB. Only the pixels under the crop are read.
        original_to_crop: (3, 3), frame pixels to crop pixels.
        input_px: P, what the network takes: 512, or a whole fraction of it.

    Returns:
        (3, P, P) uint8; black where the crop leaves the frame.
    """
    size = (CROP_SIZE_PX, CROP_SIZE_PX)
    matrix = np.asarray(original_to_crop[:2], np.float64)
    crop = (cv2.warpAffine(plane, matrix, size, flags=cv2.INTER_LINEAR, borderValue=0) for plane in frame)
    if input_px == CROP_SIZE_PX:
        return np.stack(list(crop))
    return np.stack([cv2.resize(plane, (input_px, input_px), interpolation=cv2.INTER_AREA) for plane in crop])


def read_crops(
    frames: Tensor, original_to_crop: Floats, input_px: int = NETWORK_INPUT_PX, *, length: int = BATCH_FRAMES
) -> Iterator[Tensor]:
    """Yield batches (B, 3, P, P) uint8 of all N frames in order.

    Args:
        frames: (N, 3, H, W) uint8.
        original_to_crop: (N, 3, 3).
        input_px: P, as for :func:`crop_face`.
        length: frames of one batch.
    """
    for span in spans(len(frames), length):
        pairs = zip(frames[span].numpy(), original_to_crop[span], strict=True)
        yield torch.from_numpy(np.stack([crop_face(frame, matrix, input_px) for frame, matrix in pairs]))


def to_network_input(crops: Tensor, network: nn.Module) -> Tensor:
    """Bring (B, 3, P, P) uint8 to where a network lives, in its dtype, scaled to 0..1."""
    weight = next(network.parameters())
    return crops.to(weight.device).to(weight.dtype) / 255.0
