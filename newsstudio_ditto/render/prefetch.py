"""The one piece of concurrency: an iterable that runs ahead of its reader in a thread."""

import queue
import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

_POLL_S = 0.1


@dataclass(frozen=True)
class _Failure:
    error: BaseException


class _End:
    """Marks the end of the items."""


class _Producer(threading.Thread, Generic[Item]):
    """Moves items into a bounded queue until they end, fail, or nobody wants them any more."""

    def __init__(self, items: Iterable[Item], depth: int) -> None:
        super().__init__(name="prefetch", daemon=True)
        self._items = items
        self.outbox: queue.Queue[Item | _Failure | _End] = queue.Queue(maxsize=depth)
        self.unwanted = threading.Event()

    def run(self) -> None:
        try:
            self._put_all()
        except BaseException as error:  # noqa: BLE001 - carried to the reader, who raises it
            self._put(_Failure(error))
        else:
            self._put(_End())

    def _put_all(self) -> None:
        iterator = iter(self._items)
        try:
            for item in iterator:
                if not self._put(item):
                    return
        finally:
            if isinstance(iterator, Generator):
                iterator.close()

    def _put(self, item: Item | _Failure | _End) -> bool:
        # A timed put: a reader that died with a full queue must not hold this thread for ever.
        while not self.unwanted.is_set():
            try:
                self.outbox.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return True
        return False


def prefetch(items: Iterable[Item], depth: int) -> Generator[Item, None, None]:
    """Yield ``items`` in order while a thread produces up to ``depth`` of them ahead.

    An error of the iterable surfaces here, after the items that came before it. When the reader stops early,
    the iterable is closed in its own thread and that thread is waited for.

    Args:
        items: any iterable; it is consumed in one other thread only.
        depth: items that may wait, at least 1. Besides these the producer holds one and the reader one.
    """
    if depth < 1:
        raise ValueError(f"depth is {depth}, must be at least 1")
    return _drain(_Producer(items, depth))


def _drain(producer: _Producer[Item]) -> Generator[Item, None, None]:
    producer.start()
    try:
        while True:
            item = producer.outbox.get()
            if isinstance(item, _End):
                return
            if isinstance(item, _Failure):
                raise item.error
            yield item
    finally:
        producer.unwanted.set()
        producer.join()
