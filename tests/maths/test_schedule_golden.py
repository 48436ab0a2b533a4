"""DDIM tables against the golden data."""

import pytest

from newsstudio_ditto.maths.diffusion import ddim_schedule
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import load_json

SCHEDULES = load_json("lmdm/schedule.json")["schedules"]


@pytest.mark.parametrize("num_steps", [key for key in SCHEDULES if "time_pairs" in SCHEDULES[key]])
def test_tables(num_steps: str) -> None:
    """``c`` is NaN in the reference where rounding makes its square negative (S = 5); ours is 0 there."""
    expected, schedule = SCHEDULES[num_steps], ddim_schedule(int(num_steps))
    pairs = [[step.time, step.next_time] for step in schedule.steps()]
    assert pairs == expected["time_pairs"]
    for actual, key in (
        (schedule.sqrt_alpha_next, "alpha_next_sqrt"),
        (schedule.sigma, "sigma"),
        (schedule.c, "c_clamped"),
    ):
        assert_golden("schedule", f"{num_steps}/{key}", actual[:-1], expected[key], tolerances.SCHEDULE)
    last = schedule.steps()[-1]
    assert (last.sqrt_alpha_next, last.c, last.sigma) == (1.0, 0.0, 0.0)


def test_thousand_steps_visit_every_time() -> None:
    assert SCHEDULES["1000"]["n_bad"] == 0
    assert ddim_schedule(1000).times.tolist() == list(range(999, -1, -1))
