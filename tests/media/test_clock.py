from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.errors import MediaError
from newsstudio_ditto.media.clock import resample


def steady(rate: Fraction, count: int, start: Fraction = Fraction(0)) -> list[tuple[Fraction, Fraction, int]]:
    return [(start + index / rate, 1 / rate, index) for index in range(count)]


@pytest.mark.parametrize(
    "rate", [Fraction(24000, 1001), Fraction(30000, 1001), Fraction(30), Fraction(50), Fraction(60), Fraction(12)]
)
def test_ten_seconds_stay_ten_seconds_and_the_clock_is_right(rate: Fraction) -> None:
    shown = list(resample(steady(rate, round(10 * rate))))
    assert abs(len(shown) - 250) <= 1
    for slot, index in enumerate(shown):
        assert abs(Fraction(slot, 25) - index / rate) <= max(Fraction(1, 50), 1 / rate)


@given(st.integers(1, 200), st.fractions(-10, 10), st.lists(st.integers(-19, 19), min_size=200, max_size=200))
def test_25_fps_passes_unchanged_in_spite_of_jitter(count: int, start: Fraction, jitter_ms: list[int]) -> None:
    timed = [
        (time + Fraction(0 if index == 0 else jitter_ms[index] // 2, 1000), length, index)
        for time, length, index in steady(Fraction(25), count, start)
    ]
    assert list(resample(timed)) == list(range(count))


@given(st.lists(st.fractions(0, 2), min_size=1, max_size=40))
def test_order_and_length_for_any_timing(gaps: list[Fraction]) -> None:
    time, timed = Fraction(7), []
    for index, gap in enumerate(gaps):
        timed.append((time, gap, index))
        time += gap
    shown = list(resample(timed))
    assert shown == sorted(shown)
    assert shown
    assert shown[0] == max(index for index, item in enumerate(timed) if (item[0] - 7) * 25 < Fraction(1, 2))
    if len(gaps) > 1:
        assert abs(len(shown) - 25 * (time - 7)) <= 1


def test_a_single_item_comes_once_however_long_it_lasts() -> None:
    assert list(resample([(Fraction(0), Fraction(9), "still")])) == ["still"]


def test_nothing_in_nothing_out() -> None:
    assert list(resample([])) == []


def test_a_pause_repeats_the_item_before_it() -> None:
    timed = [(Fraction(0), Fraction(1, 25), "a"), (Fraction(1, 5), Fraction(1, 25), "b")]
    assert list(resample(timed)) == ["a"] * 5 + ["b"]


def test_a_jump_of_hours_is_refused() -> None:
    timed = [(Fraction(0), Fraction(1, 25), "a"), (Fraction(10**6), Fraction(1, 25), "b")]
    with pytest.raises(MediaError, match="timestamps jump"):
        list(resample(timed))
