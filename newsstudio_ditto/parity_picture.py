"""A packet's frame beside a freshly decoded one, for people who look at what `verify --against` found."""

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.storage import replacing

Picture = NDArray[np.uint8]

AMPLIFIED = 8
"""What differences are multiplied by, so that one level of 255 can be seen."""

_GAP_PX = 4


def parity_picture(stored: Picture, fresh: Picture) -> Picture:
    """Packet frame, fresh frame, and their difference times eight, side by side.

    Args:
        stored: (H, W, 3) RGB, from the packet.
        fresh: (H, W, 3) RGB, from the clip.

    Returns:
        (H, 3 W + 8, 3) RGB.
    """
    difference = np.abs(stored.astype(np.int16) - fresh) * AMPLIFIED
    gap = np.full((stored.shape[0], _GAP_PX, 3), 255, np.uint8)
    return np.concatenate([stored, gap, fresh, gap, np.minimum(difference, 255).astype(np.uint8)], axis=1)


def write_picture(picture: Picture, path: Path) -> None:
    """Write (H, W, 3) RGB as PNG; the file appears when it is complete.

    Raises:
        UsageError: the name does not end in ``.png``.
    """
    if path.suffix.lower() != ".png":
        raise UsageError(f"{path.name} is not the name of a PNG file", "give a name that ends in .png")
    _, encoded = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    with replacing(path) as beside:
        beside.write_bytes(encoded.tobytes())
        beside.chmod(0o644)
