"""The record of what has been compiled on this machine, and the task that a compiling process reads."""

from dataclasses import replace
from pathlib import Path

import pytest

from newsstudio_ditto.networks.config import MINI, OFFICIAL
from newsstudio_ditto.networks.manifest import read_plain, to_plain
from newsstudio_ditto.render.fast.precompile import Task, cache_folder, marker

TASK = Task(OFFICIAL.networks.warp, OFFICIAL.networks.decoder, (1, 4, 8), 1, 2, 3)


def test_a_task_survives_the_way_to_its_process() -> None:
    assert read_plain(Task, to_plain(TASK), "task") == TASK


def test_the_record_lies_beside_the_kernels_and_knows_what_they_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    record = marker(TASK, "3.6")
    assert record.parent == tmp_path
    assert record == marker(replace(TASK, device=0, share=0, sizes=(8, 1, 4)), "3.6")
    others = [
        marker(TASK, "3.7"),
        marker(replace(TASK, sizes=(1, 4)), "3.6"),
        marker(replace(TASK, warp=MINI.networks.warp), "3.6"),
        marker(replace(TASK, decoder=MINI.networks.decoder), "3.6"),
    ]
    assert len({record, *others}) == 5
