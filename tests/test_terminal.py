"""What is printed is what was said, whatever characters it has."""

import json

import pytest

from newsstudio_ditto.terminal import show_json, show_table


def test_brackets_in_a_cell_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("state",), [("expected a slug, got [/bold] and [red]",)])
    assert "[/bold] and [red]" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("value", ["caf\udce9.mp4", "café", "\\ud800"])
def test_json_of_any_text_can_be_printed_and_read_back(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"source_name": value})
    printed = capsys.readouterr().out
    assert printed.encode("utf-8")
    assert json.loads(printed) == {"source_name": value}
