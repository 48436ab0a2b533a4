"""Whether the colour tags of a video tell how its colours are stored: seen on its first picture, beside the face."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.media.excerpt import decode_excerpt
from newsstudio_ditto.media.facts import ColourTags
from newsstudio_ditto.packet.reader import Packet

MOST_SHIFT = 16.0
"""Levels of 255 by which broad areas may be off, on average; the strongest compression stays below seven."""

_WORTH_ASKING = 1.5
_CLEARLY_BETTER = 0.75
_OTHERS = [ColourTags(matrix, 1, 1, full_range) for matrix, full_range in product((1, 5), (False, True))]
_NAMES = {1: "bt709", 5: "bt601"}
_CELLS = 12
_FEWEST_CELLS = 6

Cell = tuple[slice, slice]


@dataclass(frozen=True)
class ColourMatch:
    """How the first picture compares with the packet's first frame.

    Args:
        shift: mean difference of broad areas beside the paste window, in 0..255, of the worst of red, green and blue;
            None when the window leaves too little to compare.
        better: other tags, in words, under which the picture fits clearly better.
    """

    shift: float | None = None
    better: str = ""

    def faults(self) -> list[str]:
        """Sentences; empty if all is well."""
        if self.shift is None:
            return []
        if self.better:
            return [f"the colours are stored as {self.better}, the tags say otherwise ({self.shift:.1f} levels off)"]
        return [f"colours are off by {self.shift:.1f} of 255 levels beside the face"] if self.shift > MOST_SHIFT else []


def match_colours(path: Path, tags: ColourTags, packet: Packet) -> ColourMatch:
    """Compare broad areas, so that compression hardly counts, but a wrong matrix, range or order of planes does.

    Args:
        path: the video.
        tags: what it says about itself.
        packet: what it was rendered from.

    Raises:
        MediaError: the picture cannot be decoded.
    """
    wanted = packet.frames[0].permute(1, 2, 0).numpy()
    cells = list(_cells_beside(packet))
    if len(cells) < _FEWEST_CELLS:
        return ColourMatch()
    shift = _shift(path, tags, wanted, cells)
    if shift is None or shift < _WORTH_ASKING:
        return ColourMatch(shift)
    for other in _OTHERS:
        found = _shift(path, other, wanted, cells)
        if found is not None and found < _CLEARLY_BETTER * shift:
            return ColourMatch(shift, f"{_NAMES[other.matrix]}, {'full' if other.full_range else 'limited'} range")
    return ColourMatch(shift)


def _shift(path: Path, tags: ColourTags, wanted: NDArray[np.uint8], cells: list[Cell]) -> float | None:
    got = next((pixels for _, pixels in decode_excerpt(path, range(1), tags)), None)
    if got is None or got.shape != wanted.shape:
        return None  # the number of frames or the size is wrong, which is somebody else's finding
    shifts = [_mean(got[cell]) - _mean(wanted[cell]) for cell in cells]
    return float(np.abs(shifts).mean(axis=0).max())


def _cells_beside(packet: Packet) -> Iterator[Cell]:
    """The cells of a coarse grid over the frame that do not touch the paste window."""
    window, size = packet.paste_window, packet.frame_size
    rows, columns = (np.linspace(0, side, _CELLS + 1).astype(int).tolist() for side in (size.height, size.width))
    for (top, bottom), (left, right) in product(pairwise(rows), pairwise(columns)):
        is_beside = (
            bottom <= window.top
            or top >= window.top + window.height
            or right <= window.left
            or left >= window.left + window.width
        )
        if is_beside and bottom > top and right > left:
            yield slice(top, bottom), slice(left, right)


def _mean(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    return np.asarray(pixels.reshape(-1, 3).mean(axis=0))
