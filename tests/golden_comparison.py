"""The one comparison of golden tests. It remembers every difference, for the table of ``tests/golden_table.py``."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Comparison:
    """One array against its golden.

    Args:
        group: of goldens.
        name: of the array.
        error: largest absolute difference.
        tolerance: that the error must not exceed; 0 asks for equal values.
    """

    group: str
    name: str
    error: float
    tolerance: float


COMPARISONS: list[Comparison] = []


def assert_golden(group: str, name: str, actual: Any, expected: Any, tolerance: float = 0.0) -> None:
    """Assert equal shapes, and that no value differs by more than ``tolerance``.

    Args:
        group: of goldens, for the table.
        name: of the array, for messages.
        actual: array or tensor.
        expected: the golden.
        tolerance: largest absolute difference; 0 asks for equal values.
    """
    found, golden = np.asarray(actual), np.asarray(expected)
    assert found.shape == golden.shape, f"{group} {name}: shape {found.shape}, golden {golden.shape}"
    difference = np.abs(found.astype(np.float64) - golden.astype(np.float64))
    error = float(difference.max()) if difference.size else 0.0
    COMPARISONS.append(Comparison(group, name, error, tolerance))
    assert error <= tolerance, f"{group} {name}: {error:.3g} over {tolerance:.3g}"
