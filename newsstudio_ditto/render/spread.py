"""Batches of one speech over several engines: dealt out in turn, and their frames put back into order."""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeVar

from newsstudio_ditto.render.frame_plan import FramePlan

Item = TypeVar("Item")


class BatchDealer:
    """Deals batches to so many hands in turn; each hand is read by a thread of its own.

    Args:
        batches: in order.
        num_hands: how many.
    """

    def __init__(self, batches: Iterator[FramePlan], num_hands: int) -> None:
        """Nothing is dealt yet."""
        self._batches = batches
        self._hands: list[deque[FramePlan]] = [deque() for _ in range(num_hands)]
        self._sizes: deque[int] = deque()
        self._num_dealt = 0
        self._is_over = False
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def hand(self, index: int) -> Iterator[FramePlan]:
        """Every batch whose turn it is. An error of the batches is raised in every hand."""
        while True:
            with self._lock:
                while not self._hands[index] and not self._is_over:
                    self._deal()
                if not self._hands[index]:
                    if self._error is not None:
                        raise self._error
                    return
                batch = self._hands[index].popleft()
            yield batch

    def next_size(self) -> int:
        """Frames of the next batch in order, once a frame of it has been seen."""
        with self._lock:
            return self._sizes.popleft()

    def _deal(self) -> None:
        try:
            batch = next(self._batches, None)
        except BaseException as error:  # noqa: BLE001 - raised in the hands, whose readers wait for more
            self._error, batch = error, None
        if batch is None:
            self._is_over = True
            return
        self._hands[self._num_dealt % len(self._hands)].append(batch)
        self._sizes.append(batch.num_frames)
        self._num_dealt += 1


def merge_batches(parts: Sequence[Iterator[Item]], dealer: BatchDealer) -> Iterator[Item]:
    """Yield what the hands' readers make of their batches, one item a frame, in the order of the frames.

    Args:
        parts: items of each hand's batches.
        dealer: that dealt them.
    """
    turn = 0
    while True:
        part = parts[turn % len(parts)]
        try:
            item = next(part)
        except StopIteration:
            return
        yield item
        for _ in range(dealer.next_size() - 1):
            yield next(part)
        turn += 1
