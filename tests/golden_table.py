"""Runs the golden tests and prints, for each group, how many arrays were compared and the worst error.

``python -m tests.golden_table`` leaves out the slow ones, such as the run end to end; ``--all`` takes them as well.
Other arguments go to pytest: ``--all -m slow`` runs the slow ones alone.
"""

import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.golden_comparison import COMPARISONS, Comparison

TESTS = Path(__file__).parent
PATTERNS = ("maths/test_*_golden.py", "networks/test_*_goldens.py", "official/test_faces.py", "render/test_*_golden.py")
MORE = ("official/test_onnx_encoder.py", "networks/test_hubert.py")
HEADER = ("group", "arrays", "worst error", "tolerance", "share", "where")


def share(comparison: Comparison) -> float:
    """Error over tolerance; values that have to be equal have a share of 0 if they are."""
    if comparison.tolerance == 0:
        return 0.0 if comparison.error == 0 else float("inf")
    return comparison.error / comparison.tolerance


def table(comparisons: list[Comparison]) -> list[tuple[str, ...]]:
    """One row a group: the comparison that came nearest to its tolerance."""
    rows = []
    for group, members in groupby(sorted(comparisons, key=lambda each: each.group), key=lambda each: each.group):
        found = list(members)
        worst = max(found, key=lambda each: (share(each), each.error))
        percent = f"{share(worst):.1%}"
        rows.append((group, str(len(found)), f"{worst.error:.2g}", f"{worst.tolerance:.2g}", percent, worst.name[:44]))
    return rows


def show(rows: list[tuple[str, ...]]) -> str:
    """Columns of equal width."""
    widths = [max(len(row[column]) for row in (HEADER, *rows)) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (HEADER, *rows)
    )


def main(arguments: list[str]) -> int:
    """Run, print, and return what pytest returned."""
    files = [str(path) for pattern in PATTERNS for path in sorted(TESTS.glob(pattern))]
    files += [str(TESTS / name) for name in MORE]
    chosen = [] if "--all" in arguments else ["-m", "not slow"]
    chosen += [argument for argument in arguments if argument != "--all"]
    code = pytest.main(["-q", "-p", "no:cacheprovider", *chosen, *files])
    rows = table(COMPARISONS)
    groups = f"{len(COMPARISONS)} arrays in {len(rows)} groups"
    sys.stdout.write(f"\n{show(rows)}\n\n{groups}; pytest returned {int(code)}\n")
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
