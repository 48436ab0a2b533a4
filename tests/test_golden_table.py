"""The table of golden comparisons: the worst of each group, and nothing that was not compared."""

import numpy as np
import pytest

from tests.golden_comparison import COMPARISONS, Comparison, assert_golden
from tests.golden_table import show, table


def test_the_row_of_a_group_is_its_worst_comparison() -> None:
    rows = table(
        [
            Comparison("eyes", "large", 0.5, 10.0),
            Comparison("blinks", "equal", 0.0, 0.0),
            Comparison("eyes", "near", 0.03, 0.04),
            Comparison("blinks", "off", 1.0, 0.0),
        ]
    )
    assert rows == [("blinks", "2", "1", "0", "inf%", "off"), ("eyes", "2", "0.03", "0.04", "75.0%", "near")]
    assert show(rows).splitlines()[2].split() == ["eyes", "2", "0.03", "0.04", "75.0%", "near"]


def test_a_comparison_is_remembered_whether_it_holds_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.golden_comparison.COMPARISONS", seen := [])
    assert seen is not COMPARISONS
    assert_golden("g", "near", np.array([1.0, 2.5]), np.array([1.0, 2.0]), 0.5)
    with pytest.raises(AssertionError, match=r"g far: 0\.5 over 0\.4"):
        assert_golden("g", "far", np.array([1.0, 2.5]), np.array([1.0, 2.0]), 0.4)
    with pytest.raises(AssertionError, match=r"g nan: nan over 0\.5"):
        assert_golden("g", "nan", np.array([np.nan]), np.array([1.0]), 0.5)
    with pytest.raises(AssertionError, match="shape"):
        assert_golden("g", "other", np.zeros(3), np.zeros((3, 1)))
    assert [(each.name, each.error) for each in seen[:2]] == [("near", 0.5), ("far", 0.5)]
