"""Values that change with time, one for each output frame."""

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.controls import Curve
from newsstudio_ditto.units import FRAME_RATE_HZ


def sample_curve(curve: Curve, num_frames: int) -> Tensor:
    """Value of a curve at each frame: straight lines between its points, held before the first and after the last.

    Args:
        curve: a number, or ``(t_seconds, value)`` points with rising times.
        num_frames: T; frame i is at i / 25 seconds.

    Returns:
        (T,) float32.
    """
    if isinstance(curve, int | float):
        return torch.full((num_frames,), float(curve))
    times, values = np.array(curve, dtype=np.float64).T
    return torch.from_numpy(np.interp(np.arange(num_frames) / FRAME_RATE_HZ, times, values)).float()
