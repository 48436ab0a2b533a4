"""Playing a clip back and forth."""

from typing import overload

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


@overload
def mirror_index(index: int, count: int) -> int: ...
@overload
def mirror_index(index: Indices, count: int) -> Indices: ...
def mirror_index(index: int | Indices, count: int) -> int | Indices:
    """Clip frame of an output frame when the clip runs forwards, backwards, forwards...; its ends repeat.

    Args:
        index: output frame or (T,) frames, not negative.
        count: frames of the clip, at least 1.

    Returns:
        Index or indices in [0, count); 0 1 2 2 1 0 0 1 ... for ``count`` 3.
    """
    rest = index % (2 * count)
    if isinstance(rest, int):
        return min(rest, 2 * count - 1 - rest)
    return np.minimum(rest, 2 * count - 1 - rest)
