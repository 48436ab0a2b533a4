import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.render.prefetch import prefetch


@given(st.lists(st.integers(), max_size=30), st.integers(1, 8))
def test_items_come_out_once_and_in_order(items: list[int], depth: int) -> None:
    assert list(prefetch(items, depth)) == items


def test_an_error_surfaces_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("disk gone")

    seen = []
    with pytest.raises(OSError, match="disk gone"):
        for item in prefetch(items(), 4):
            seen.append(item)
    assert seen == [1, 2]


def test_the_producer_runs_ahead_by_depth_and_no_further() -> None:
    produced = []

    def items() -> Iterator[int]:
        for item in range(20):
            produced.append(item)
            yield item

    stream = prefetch(items(), 3)
    assert next(stream) == 0
    deadline = time.monotonic() + 5
    while len(produced) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert produced == [0, 1, 2, 3, 4]  # one read, three waiting, one in the producer's hand
    stream.close()


def test_a_reader_that_stops_early_closes_the_source_and_leaves_no_thread() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            while True:
                yield 0
        finally:
            closed.set()

    before = threading.active_count()
    stream = prefetch(items(), 2)
    next(stream)
    stream.close()
    assert closed.is_set()
    assert threading.active_count() == before


def test_nothing_runs_before_the_first_item_is_asked_for() -> None:
    before = threading.active_count()
    prefetch(range(3), 1)
    assert threading.active_count() == before


def test_a_depth_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="depth is 0"):
        prefetch([], 0)
