"""Pictures with known faces, made from a small presenter clip."""

from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

ANCHOR = Path(__file__).parents[1] / "media_files" / "presenter_320.mp4"
GROUND = (60, 80, 90)


@cache
def anchor_frames(count: int = 25) -> tuple[Pixels, ...]:
    """The first frames (H, W, 3) of the clip."""
    with av.open(str(ANCHOR)) as container:
        return tuple(frame.to_ndarray(format="rgb24") for frame in islice(container.decode(video=0), count))


def face_patch() -> Pixels:
    """The head of the first frame, about 190 px wide, with the face about 105 px wide."""
    return np.ascontiguousarray(anchor_frames()[0][45:265, 65:255])


def shifted_hue(picture: Pixels, amount: int = 60) -> Pixels:
    """The picture with another skin and hair colour."""
    hsv = cv2.cvtColor(picture, cv2.COLOR_RGB2HSV).astype(int)
    hsv[..., 0] = (hsv[..., 0] + amount) % 180
    return np.asarray(cv2.cvtColor(hsv.astype(np.uint8), cv2.COLOR_HSV2RGB), np.uint8)


def twin_patch() -> Pixels:
    """Somebody else: the mirrored head in other colours."""
    return np.ascontiguousarray(shifted_hue(face_patch())[:, ::-1])


def canvas(height: int = 480, width: int = 640) -> Pixels:
    """An empty studio (height, width, 3)."""
    return np.full((height, width, 3), GROUND, np.uint8)


@dataclass(frozen=True)
class Placed:
    """Where a patch was put: its scale and its top-left corner in pixels of the scene."""

    scale: float
    left: float
    top: float


def place(scene: Pixels, patch: Pixels, *, centre: tuple[float, float], scale: float = 1.0) -> Placed:
    """Draw a scaled patch into a scene, cut at its borders."""
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    small = cv2.resize(patch, None, fx=scale, fy=scale, interpolation=way)
    height, width = small.shape[:2]
    left, top = round(centre[0] - width / 2), round(centre[1] - height / 2)
    x0, y0 = max(left, 0), max(top, 0)
    x1, y1 = min(left + width, scene.shape[1]), min(top + height, scene.shape[0])
    if x1 > x0 and y1 > y0:
        scene[y0:y1, x0:x1] = small[y0 - top : y1 - top, x0 - left : x1 - left]
    return Placed(scale, left, top)
