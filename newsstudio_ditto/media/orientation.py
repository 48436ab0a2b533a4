"""Turning stored pictures upright: the eight orientations of a display matrix."""

import struct
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.errors import UnsupportedMediaError

Element = TypeVar("Element", bound=np.generic)

_MATRIX = struct.Struct("=9i")


@dataclass(frozen=True)
class Orientation:
    """How a stored picture becomes upright: first the transpose, then the flips.

    Args:
        transpose: swap rows and columns.
        flip_rows: then turn top to bottom.
        flip_columns: then turn left to right.
    """

    transpose: bool = False
    flip_rows: bool = False
    flip_columns: bool = False

    def apply(self, picture: NDArray[Element]) -> NDArray[Element]:
        """Turn a stored picture (H, W, ...) upright; the result may be a view."""
        if self.transpose:
            picture = picture.swapaxes(0, 1)
        rows, columns = (slice(None, None, -1 if flip else 1) for flip in (self.flip_rows, self.flip_columns))
        return picture[rows, columns]

    def size(self, width_px: int, height_px: int) -> tuple[int, int]:
        """Width and height after :meth:`apply`."""
        return (height_px, width_px) if self.transpose else (width_px, height_px)


UPRIGHT = Orientation()


def parse_display_matrix(matrix: bytes) -> Orientation:
    """Read FFmpeg's display matrix: nine native 32-bit integers that take stored points to shown points.

    Raises:
        UnsupportedMediaError: when the turn is not a multiple of 90 degrees.
    """
    a, b, _u, c, d, *_rest = _MATRIX.unpack(matrix[: _MATRIX.size])
    longest = max(abs(value) for value in (a, b, c, d))
    if longest == 0:
        return UPRIGHT
    along, across = (round(value / longest) for value in (a, c))
    b, d = (round(value / longest) for value in (b, d))
    if along and d and not across and not b:
        return Orientation(flip_rows=d < 0, flip_columns=along < 0)
    if across and b and not along and not d:
        return Orientation(transpose=True, flip_rows=b < 0, flip_columns=across < 0)
    raise _odd_turn()


def orientation_of_turn(degrees: float) -> Orientation:
    """The orientation that turns a stored picture by ``degrees`` counter-clockwise, a multiple of 90.

    Raises:
        UnsupportedMediaError: for other angles.
    """
    turns = {
        0: UPRIGHT,
        90: Orientation(transpose=True, flip_rows=True),
        180: Orientation(flip_rows=True, flip_columns=True),
        270: Orientation(transpose=True, flip_columns=True),
    }
    if degrees % 360 not in turns:
        raise _odd_turn()
    return turns[int(degrees % 360)]


def _odd_turn() -> UnsupportedMediaError:
    return UnsupportedMediaError(
        "the picture is tagged with a turn that is not a multiple of 90 degrees", "re-encode it upright, without a tag"
    )
