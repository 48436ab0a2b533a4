"""Many speeches of one avatar in one process."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from newsstudio_ditto.backfill import make_videos, unmade_speeches
from newsstudio_ditto.errors import MediaError
from newsstudio_ditto.orchestration import open_instance
from newsstudio_ditto.render import engine as engines
from newsstudio_ditto.storage import StorageLayout
from tests.dagster_graph.conftest import AVATAR, Studio, write_speech

SPEECHES = ["first", "second"]


@pytest.fixture
def rundown(tmp_path: Path, studio: Studio) -> Iterator[Studio]:
    shutil.copytree(studio.layout.root, tmp_path / "studio", symlinks=True)
    layout = StorageLayout(tmp_path / "studio")
    shutil.rmtree(layout.speeches)
    layout.speeches.mkdir()
    for index, name in enumerate(SPEECHES):
        write_speech(layout.speeches / f"{name}.wav", 0.08 + 0.04 * index)
    with open_instance(layout) as instance:
        yield Studio(layout, instance)


def test_a_rundown_is_one_process_and_one_engine(rundown: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[engines.Engine] = []

    class CountedEngine(engines.Engine):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr(engines, "_engines", {})
    monkeypatch.setattr(engines, "Engine", CountedEngine)
    result = rundown.definitions.resolve_job_def("render_many").execute_in_process(
        instance=rundown.instance, run_config={"ops": {"make_all": {"config": {"avatar_id": AVATAR}}}}
    )
    assert result.success
    assert len(made) == 1
    assert all(rundown.layout.video(AVATAR, name).is_file() for name in SPEECHES)
    assert unmade_speeches(rundown.layout, AVATAR) == []
    runs = rundown.instance.get_runs(filters=None)
    assert {run.tags.get("newsstudio/batch") for run in runs if run.job_name == "render"} >= {result.run_id}


def test_a_speech_that_is_not_there_is_refused_before_anything_is_made(rundown: Studio) -> None:
    num_runs = rundown.instance.get_runs_count()
    with pytest.raises(MediaError, match="no speech named 'third'"):
        make_videos(rundown.layout, rundown.instance, AVATAR, [*SPEECHES, "third"], device="cpu")
    assert rundown.instance.get_runs_count() == num_runs


def test_a_speech_that_fails_does_not_stop_the_others(rundown: Studio) -> None:
    (rundown.layout.speeches / "first.wav").write_bytes(b"no sound")
    outcomes = make_videos(rundown.layout, rundown.instance, AVATAR, SPEECHES, device="cpu")
    assert [bool(outcome.fault) for outcome in outcomes] == [True, False]
    assert outcomes[0].fault.startswith("first: ")
    assert {outcome.process_id for outcome in outcomes} == {os.getpid()}
    assert unmade_speeches(rundown.layout, AVATAR) == ["first"]
