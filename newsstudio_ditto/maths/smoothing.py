"""Mean filters over time."""

import torch
from torch import Tensor

from newsstudio_ditto.maths.motion_vector import EXPRESSION_START, MotionSequence


def smooth_rows(values: Tensor, width: int, start: int = 0, stop: int | None = None) -> Tensor:
    """Replace rows by the mean of their neighbourhood, which is cut at the ends.

    Row i becomes the mean of rows i - width//2 to i + width//2 of the unsmoothed values, so an even width acts
    like the next odd one; up to 1 changes nothing.

    Args:
        values: (N, D).
        width: of the window, in rows.
        start: first row to smooth.
        stop: end of the rows to smooth; ``None`` means N.

    Returns:
        (N, D), a new tensor of the same dtype.
    """
    count = len(values)
    start, stop = max(start, 0), count if stop is None else min(stop, count)
    result = values.clone()
    if width <= 1 or stop <= start:
        return result
    reach = width // 2
    origin = max(start - reach, 0)
    near = values[origin : stop + reach].double()
    sums = torch.cat([torch.zeros_like(near[:1]), near.cumsum(dim=0)])  # float64: a running float32 sum drifts
    rows = torch.arange(start, stop, device=values.device)
    low = (rows - reach).clamp(min=0)
    high = (rows + reach + 1).clamp(max=count)
    means = (sums[high - origin] - sums[low - origin]) / (high - low)[:, None]
    result[start:stop] = means.to(values.dtype)
    return result


def smooth_source(motion: MotionSequence, width: int) -> MotionSequence:
    """Smooth a source clip's motion, every part of it, pose logits and canonical keypoints included."""
    return motion.map(lambda part: smooth_rows(part, width))


def smooth_driving(vectors: Tensor, width: int, start: int = 0, stop: int | None = None) -> Tensor:
    """Smooth generated motion rows (N, 265), the expression excepted: lips must not lag.

    Args:
        vectors: (N, 265).
        width: of the window, in rows.
        start: first row to smooth.
        stop: end of the rows to smooth; ``None`` means N.

    Returns:
        (N, 265), a new tensor.
    """
    smoothed = smooth_rows(vectors[:, :EXPRESSION_START], width, start, stop)
    return torch.cat([smoothed, vectors[:, EXPRESSION_START:]], dim=1)
