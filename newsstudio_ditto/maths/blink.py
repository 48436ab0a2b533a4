"""When the eyes blink."""

import random
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

NO_BLINKS = -1
RANDOM_SPACING = 0
_SHORTEST_GAP, _LONGEST_GAP = 60, 100


def blink_table(
    num_frames: int, blink_frames: int, spacing: int | Sequence[int], rng: random.Random
) -> npt.NDArray[np.int64]:
    """Frame of the blink animation for each output frame; 0 is the open eye.

    Args:
        num_frames: length of the table.
        blink_frames: length of one blink.
        spacing: frames between blinks: ``NO_BLINKS``, ``RANDOM_SPACING`` (60 to 100), a number, or a cycle of them.
        rng: source of random spacings; seed it for equal videos.

    Returns:
        (num_frames,) int64 in [0, blink_frames).
    """
    table = np.zeros(num_frames, dtype=np.int64)
    if spacing == NO_BLINKS:
        return table
    next_gap = _gaps(spacing, rng)
    start, last = next_gap(), _last_gap(spacing, rng)
    while start < num_frames - max(last, blink_frames):
        table[start : start + blink_frames] = np.arange(blink_frames)
        start += blink_frames + next_gap()
    return table


def _gaps(spacing: int | Sequence[int], rng: random.Random) -> Callable[[], int]:
    if spacing == RANDOM_SPACING:
        return lambda: rng.randint(_SHORTEST_GAP, _LONGEST_GAP)
    cycle = [spacing] if isinstance(spacing, int) else list(spacing)
    position = -1

    def following() -> int:
        nonlocal position
        position = (position + 1) % len(cycle)
        return cycle[position]

    return following


def _last_gap(spacing: int | Sequence[int], rng: random.Random) -> int:
    if spacing == RANDOM_SPACING:
        return rng.randint(_SHORTEST_GAP, _LONGEST_GAP)
    return spacing if isinstance(spacing, int) else spacing[-1]
