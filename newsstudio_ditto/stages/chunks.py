"""Cutting N frames into chunks, so that no stage holds more than a few frames at once."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from newsstudio_ditto.progress import report_stage

CHUNK_BYTES = 32 * 2**20

Chunk = dict[str, Tensor]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


def chunk_length(frame_bytes: int, *, most: int = 64) -> int:
    """Frames of one chunk: at least 1, at most ``most``, and no more than fit into 32 MiB."""
    return max(1, min(most, CHUNK_BYTES // max(1, frame_bytes)))


def spans(num_frames: int, length: int) -> Iterator[slice]:
    """Cover ``range(num_frames)`` by consecutive slices of ``length``; the last one may be shorter."""
    for start in range(0, num_frames, length):
        yield slice(start, min(start + length, num_frames))


def counted(stage: str, chunks: Iterable[Chunk], num_frames: int) -> Iterator[Chunk]:
    """Pass chunks through unchanged and report how many frames went by."""
    done = 0
    report_stage(stage, done, num_frames)
    for chunk in chunks:
        yield chunk
        done += len(next(iter(chunk.values())))
        report_stage(stage, done, num_frames)


def fill_gaps(values: Floats, valid: Flags) -> Floats:
    """Replace rows that are not valid by interpolating between the valid rows around them.

    Before the first and after the last valid row, that row is repeated. Valid rows are not changed.

    Args:
        values: (N, ...) float32.
        valid: (N,) bool, at least one of them true.
    """
    known = np.flatnonzero(valid)
    if known.size == len(values):
        return values
    index = np.arange(len(values))
    position = np.clip(np.searchsorted(known, index, side="right"), 1, known.size)
    before, after = known[position - 1], known[np.minimum(position, known.size - 1)]
    span = np.maximum(after - before, 1)
    weight = np.clip((index - before) / span, 0.0, 1.0).reshape(-1, *[1] * (values.ndim - 1)).astype(values.dtype)
    filled = values[before] + weight * (values[after] - values[before])
    shape = (-1, *[1] * (values.ndim - 1))
    return np.where(valid.reshape(shape), values, filled)
