"""The frame-rate rule: any timing becomes 25 frames a second by choosing frames, never by mixing them."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TypeVar

from newsstudio_ditto.errors import MediaError
from newsstudio_ditto.units import FRAME_RATE_HZ

Item = TypeVar("Item")

MAX_GAP_S = 600
FPS_RULE = "nearest-25"
"""Name of the rule, as it is written into packets."""


def resample(timed: Iterable[tuple[Fraction, Fraction, Item]]) -> Iterator[Item]:
    """Choose the item shown in each 1/25 s.

    Output frame k shows the last item whose time, counted from the first item, rounds to slot k or before
    (halves round up). So a clip at 25 fps passes unchanged in spite of small timing errors, slower clips
    repeat items, faster ones drop some, and the clock is never off by more than half a frame.

    Args:
        timed: (time, duration, item) in seconds, in order of showing.

    Yields:
        Items; one that is shown longer comes several times. A single item comes once.

    Raises:
        MediaError: when the times jump by more than 600 s.
    """
    start: Fraction | None = None
    slot = num_items = 0
    end = Fraction(0)
    shown: list[Item] = []
    for time, duration, item in timed:
        start = time if start is None else start
        until = _slot(time - start)
        if until - slot > MAX_GAP_S * FRAME_RATE_HZ:
            raise MediaError("the clip's timestamps jump by more than ten minutes", "re-encode the clip")
        for _ in range(slot, until):
            yield from shown
        slot, shown = max(slot, until), [item]
        end, num_items = max(end, time - start + duration), num_items + 1
    least = slot + 1 if slot == 0 or num_items == 1 else slot
    until = least if num_items == 1 else max(_slot(end), least)
    for _ in range(slot, until):
        yield from shown


def _slot(time: Fraction) -> int:
    """The nearest slot of 1/25 s; halves round up."""
    return (2 * time * FRAME_RATE_HZ + 1) // 2
