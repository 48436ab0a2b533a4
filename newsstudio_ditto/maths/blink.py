"""When the eyes blink."""

import random
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from newsstudio_ditto.units import FRAME_RATE_HZ

NO_BLINKS = -1
RANDOM_SPACING = 0
BLINK_SHAPE = (0.0, 0.35, 0.85, 1.0, 1.0, 0.8, 0.58, 0.38, 0.2, 0.07, 0.0)
"""How far the lids are closed in each frame of a blink: shut within 0.12 s, open again in twice that."""
_SHORTEST_GAP, _LONGEST_GAP = 60, 100
_RATE_SPREAD = (0.75, 1.25)


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


def blink_starts(
    num_frames: int, per_minute: float, rng: random.Random | None, blink_frames: int = len(BLINK_SHAPE)
) -> list[int]:
    """First frames of blinks at a rate; at least one if the video is as long as a blink.

    Args:
        num_frames: T.
        per_minute: blinks a minute, as far as they have room.
        rng: draws distances of 75 to 125 % of the even one; None keeps them even.
        blink_frames: length of one blink.

    Returns:
        Rising frames; every blink ends inside the video, and none begins inside another.
    """
    distance = FRAME_RATE_HZ * 60 / per_minute
    last_start = num_frames - blink_frames
    if last_start < 0:
        return []
    position = distance * (0.5 if rng is None else rng.uniform(0.25, 0.75))
    starts = [int(position) if position <= last_start else last_start // 2]
    while True:
        position += distance * (1.0 if rng is None else rng.uniform(*_RATE_SPREAD))
        position = max(position, starts[-1] + blink_frames)
        if position > last_start:
            return starts
        starts.append(int(position))


def blink_closing(num_frames: int, per_minute: float, rng: random.Random | None) -> npt.NDArray[np.float32]:
    """How far the lids are closed at each frame, for the blinks of :func:`blink_starts`.

    Returns:
        (num_frames,) float32, 0 open to 1 shut.
    """
    closing = np.zeros(num_frames, dtype=np.float32)
    for start in blink_starts(num_frames, per_minute, rng):
        closing[start : start + len(BLINK_SHAPE)] = BLINK_SHAPE
    return closing


def blink_rows(
    num_frames: int, per_minute: float, rng: random.Random | None, blink_frames: int
) -> npt.NDArray[np.int64]:
    """Like :func:`blink_table`, for the blinks of :func:`blink_starts`.

    Returns:
        (num_frames,) int64 in [0, blink_frames).
    """
    table = np.zeros(num_frames, dtype=np.int64)
    for start in blink_starts(num_frames, per_minute, rng, blink_frames):
        table[start : start + blink_frames] = np.arange(blink_frames)
    return table
