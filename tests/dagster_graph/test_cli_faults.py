"""Whatever stops a run that a terminal started ends in two lines and exit code 1."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from newsstudio_ditto import inspection
from newsstudio_ditto.cli import main
from newsstudio_ditto.errors import StorageError
from newsstudio_ditto.exclusion import hold_bench
from newsstudio_ditto.graph_run import run_here
from newsstudio_ditto.orchestration import PreprocessReport
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.stages import masks
from newsstudio_ditto.storage import StorageLayout
from tests.dagster_graph.conftest import AVATAR, DEMO


@pytest.fixture
def copied(tmp_path: Path, layout: StorageLayout, prepared: PreprocessReport) -> Iterator[StorageLayout]:
    shutil.copytree(layout.root, tmp_path / "studio", symlinks=True)
    (tmp_path / "studio" / "cache" / "benches" / "ditto" / AVATAR / "masks.pt").unlink()
    yield StorageLayout(tmp_path / "studio")


def preprocess(layout: StorageLayout) -> Result:
    arguments = ["preprocess", str(DEMO / "anchor.mp4"), "--avatar-id", AVATAR, "--max-frames", "2"]
    return CliRunner().invoke(main, [*arguments, "--storage", str(layout.root)])


def said(result: Result) -> list[str]:
    """The lines after the progress bar."""
    assert result.exit_code == 1, result.exception
    assert isinstance(result.exception, SystemExit), result.exception
    lines = result.stderr.strip().splitlines()
    (first,) = (index for index, line in enumerate(lines) if line.startswith("Error: "))
    return lines[first:]


def test_a_failed_check_names_itself_and_what_it_found(copied: StorageLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "compare_with_frames", lambda *_: ["too dark"])
    before = AvatarStore(copied.root).open(AVATAR).folder
    what, hint = said(preprocess(copied))
    assert what == "Error: check matches_spec of packet/masks: too dark"
    assert hint.startswith("Hint: nothing was published")
    assert AvatarStore(copied.root).open(AVATAR).folder == before


def test_an_unforeseen_error_says_where_its_traceback_is(
    copied: StorageLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_track: object) -> NoReturn:
        raise ZeroDivisionError("no mask today")

    monkeypatch.setattr(masks, "stream_masks", fail)
    what, hint = said(preprocess(copied))
    assert what == "Error: ZeroDivisionError: no mask today"
    assert "traceback" in hint


def test_a_bench_that_is_taken_is_said_so(copied: StorageLayout) -> None:
    with hold_bench(copied, AVATAR, "run 1234"):
        what, hint = said(preprocess(copied))
    assert what == f"Error: the packet of {AVATAR} is being made by run 1234"
    assert hint == "Hint: wait until that has ended, or cancel it"


@dg.asset(partitions_def=dg.StaticPartitionsDefinition([AVATAR]))
def written() -> None:
    """Writes where there is no room."""
    raise StorageError("no room", "free some") from OSError(28, "No space left on device")


def test_an_error_of_a_stage_keeps_its_cause() -> None:
    jobs = [dg.define_asset_job("write", selection=[written], executor_def=dg.in_process_executor)]
    job = dg.Definitions(assets=[written], jobs=jobs).resolve_job_def("write")
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(StorageError, match="no room") as stopped:
        run_here(job, instance, AVATAR)
    assert isinstance(stopped.value.__cause__, OSError)
