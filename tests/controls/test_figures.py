"""The manual's pictures are what the code draws today."""

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.mark.parametrize("name", ["controls_blink.svg", "controls_mouth.svg"])
def test_a_picture_is_up_to_date(name: str) -> None:
    drawn = runpy.run_path(str(DOCS / "make_control_figures.py"))["FIGURES"][name]()
    kept = (DOCS / name).read_text()
    assert NUMBER.sub("n", drawn) == NUMBER.sub("n", kept)
    now, before = ([float(number) for number in NUMBER.findall(text)] for text in (drawn, kept))
    assert now == pytest.approx(before, abs=0.15)
