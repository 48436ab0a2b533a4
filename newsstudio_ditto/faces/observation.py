"""What is known about one face in one frame."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NUM_LANDMARKS = 478

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class FaceObservation:
    """One face in one frame.

    Args:
        landmarks: (478, 3) float32; x and y in pixels of the frame, z in the same unit, smaller is nearer.
            The order is that of MediaPipe's face mesh with both irises.
        score: how sure the landmark network is that it looks at a face, 0 to 1.
    """

    landmarks: Floats = field(repr=False)
    score: float

    def __post_init__(self) -> None:
        """Refuse landmarks of another shape."""
        if self.landmarks.shape != (NUM_LANDMARKS, 3):
            raise ValueError(f"landmarks: expected ({NUM_LANDMARKS}, 3), got {self.landmarks.shape}")

    @property
    def box(self) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of the landmarks, in pixels of the frame; may reach outside it."""
        left, top = self.landmarks[:, :2].min(axis=0)
        right, bottom = self.landmarks[:, :2].max(axis=0)
        return float(left), float(top), float(right), float(bottom)

    @property
    def centre(self) -> tuple[float, float]:
        """Centre of :attr:`box`, x before y, in pixels."""
        left, top, right, bottom = self.box
        return (left + right) / 2, (top + bottom) / 2

    @property
    def side_px(self) -> float:
        """Longer side of :attr:`box`, in pixels."""
        left, top, right, bottom = self.box
        return max(right - left, bottom - top)


def is_continuous(previous: FaceObservation, current: FaceObservation, *, shift: float, ratio: float) -> bool:
    """Whether two observations can be one face shortly after another.

    Args:
        previous: the earlier observation.
        current: the later observation.
        shift: how far the centre may have moved, in face sides.
        ratio: how much the side may have grown or shrunk, as a factor above 1.
    """
    moved_px = np.hypot(*np.subtract(current.centre, previous.centre))
    growth = current.side_px / max(previous.side_px, 1e-6)
    return bool(moved_px <= shift * previous.side_px and 1 / ratio <= growth <= ratio)
