"""The record of what has been compiled on this machine, and the task that a compiling process reads."""

import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from newsstudio_ditto.networks.config import MINI, OFFICIAL
from newsstudio_ditto.networks.manifest import read_plain, to_plain
from newsstudio_ditto.render.fast.precompile import Task, _wait, cache_folder, launch_kind, marker

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


@dataclass
class Boxes:
    """Stands in for a descriptor."""

    base: torch.Tensor
    block_shape: list[int]


def test_launches_that_run_the_same_machine_code_are_of_one_kind() -> None:
    parameters = [SimpleNamespace(is_constexpr=constant) for constant in (False, False, False, True)]
    kernel = SimpleNamespace(params=parameters, __name__="step")
    image = torch.zeros(64, dtype=torch.float16)

    def kind(*given: object, **options: object) -> object:
        return launch_kind(kernel, given, options)

    usual = kind(image, Boxes(image, [8, 64]), 4096, 3, num_warps=4)
    assert usual == kind(image[8:], Boxes(image[8:], [8, 64]), 8192, 3, num_warps=4)
    others = [
        kind(image[1:], Boxes(image, [8, 64]), 4096, 3, num_warps=4),
        kind(image.float(), Boxes(image, [8, 64]), 4096, 3, num_warps=4),
        kind(image, Boxes(image, [16, 64]), 4096, 3, num_warps=4),
        kind(image, Boxes(image, [8, 64]), 4097, 3, num_warps=4),
        kind(image, Boxes(image, [8, 64]), 1, 3, num_warps=4),
        kind(image, Boxes(image, [8, 64]), 1 << 31, 3, num_warps=4),
        kind(image, Boxes(image, [8, 64]), 4096, 5, num_warps=4),
        kind(image, Boxes(image, [8, 64]), 4096, 3, num_warps=8),
    ]
    assert len({usual, *others}) == 9


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("pass", ""),
        ("import sys; sys.exit('no card\\nno kernels')", "no kernels"),
        ("import os; os._exit(3)", "ended with status 3"),
        ("import time; time.sleep(60)", "no end after"),
    ],
)
def test_a_compiling_process_that_fails_or_hangs_is_heard_of(program: str, complaint: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    patience_s = 2.0 if "sleep" in program else 60.0
    said = _wait(child, time.monotonic() + patience_s)
    assert complaint in said
    assert bool(said) == bool(complaint)
    assert child.poll() is not None
