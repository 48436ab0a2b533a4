"""The rotated square of a frame that the landmark network looks at."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.faces.detection import Detection
from newsstudio_ditto.faces.observation import Floats, Pixels

MARGIN = 1.5
LEFT_EYE_CORNER, RIGHT_EYE_CORNER = 33, 263


@dataclass(frozen=True)
class Region:
    """A rotated square.

    Args:
        centre_x: in pixels of the frame.
        centre_y: in pixels of the frame.
        side_px: side length.
        angle_rad: direction of the line from the left to the right eye of the picture; 0 is upright.
    """

    centre_x: float
    centre_y: float
    side_px: float
    angle_rad: float

    def to_frame(self, size_px: int) -> NDArray[np.float64]:
        """(2, 3) affine from pixels of a ``size_px`` square crop to pixels of the frame."""
        step = self.side_px / size_px
        cos, sin = step * np.cos(self.angle_rad), step * np.sin(self.angle_rad)
        half = size_px / 2
        return np.array(
            [
                [cos, -sin, self.centre_x - (cos - sin) * half],
                [sin, cos, self.centre_y - (sin + cos) * half],
            ]
        )

    def cut(self, frame: Pixels, size_px: int) -> Pixels:
        """Sample the square from a frame (H, W, 3) as (size_px, size_px, 3); beyond the frame the edge repeats."""
        matrix = self.to_frame(size_px)
        shrink = int(self.side_px // size_px)
        if shrink >= 2:  # plain bilinear sampling would alias
            frame, matrix = self._shrink(frame, matrix, shrink)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        crop = cv2.warpAffine(frame, matrix, (size_px, size_px), flags=flags, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(crop, np.uint8)

    def _shrink(self, frame: Pixels, matrix: NDArray[np.float64], factor: int) -> tuple[Pixels, NDArray[np.float64]]:
        """Average ``factor`` x ``factor`` blocks of the part of the frame around the square."""
        height, width = frame.shape[:2]
        reach = self.side_px * (abs(np.cos(self.angle_rad)) + abs(np.sin(self.angle_rad))) / 2 + factor
        left = int(np.clip(self.centre_x - reach, 0, width - 1))
        top = int(np.clip(self.centre_y - reach, 0, height - 1))
        right = int(np.clip(np.ceil(self.centre_x + reach), left + 1, width))
        bottom = int(np.clip(np.ceil(self.centre_y + reach), top + 1, height))
        columns, rows = max((right - left) // factor, 1), max((bottom - top) // factor, 1)
        part = frame[top : min(top + rows * factor, bottom), left : min(left + columns * factor, right)]
        small = cv2.resize(part, (columns, rows), interpolation=cv2.INTER_AREA)
        scale_x, scale_y = columns / part.shape[1], rows / part.shape[0]
        moved = matrix.copy()
        moved[0] *= scale_x
        moved[1] *= scale_y
        moved[0, 2] += (0.5 - left) * scale_x - 0.5
        moved[1, 2] += (0.5 - top) * scale_y - 0.5
        return np.asarray(small, np.uint8), moved


def region_of_detection(detection: Detection) -> Region:
    """The square around a detected box, turned so that the eyes are level."""
    left, top, right, bottom = detection.box
    (x0, y0), (x1, y1) = detection.eyes
    side = MARGIN * max(right - left, bottom - top)
    return Region((left + right) / 2, (top + bottom) / 2, side, float(np.arctan2(y1 - y0, x1 - x0)))


def region_of_landmarks(landmarks: Floats) -> Region:
    """The square around landmarks (478, 3), turned so that the outer eye corners are level."""
    across = landmarks[RIGHT_EYE_CORNER, :2] - landmarks[LEFT_EYE_CORNER, :2]
    angle = float(np.arctan2(across[1], across[0]))
    upright = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    turned = landmarks[:, :2] @ upright.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    centre = (low + high) / 2 @ upright
    return Region(float(centre[0]), float(centre[1]), MARGIN * float((high - low).max()), angle)
