"""The board of jobs, paths in words, settings: without a server."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.daemon.artifacts import ENGINE_ARTIFACTS, avatar_status, link_anchor
from newsstudio_ditto.daemon.jobs import Job, JobBoard, JobState
from newsstudio_ditto.daemon.problems import RequestError, without_paths
from newsstudio_ditto.daemon.settings import DaemonSettings
from newsstudio_ditto.errors import StorageError, UsageError
from newsstudio_ditto.packet.spec import PARTS
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.storage import StorageLayout


@pytest.fixture
def board(tmp_path: Path) -> JobBoard:
    return JobBoard(tmp_path / "jobs.sqlite", jobs_kept=3)


def test_a_board_remembers_across_restarts(board: JobBoard, tmp_path: Path) -> None:
    for number, state in enumerate((JobState.DONE, JobState.RUNNING, None)):
        job = Job(f"{number:016x}", "render", "anna", {"seed": number})
        board.add(job)
        if state is not None:
            board.update(job.id, state=state, note={"percent": 40.0})
    board.close()
    again = JobBoard(tmp_path / "jobs.sqlite", jobs_kept=3)
    assert {job.id[-1] for job in again.interrupt_unfinished()} == {"1", "2"}
    states = [job.state for job in again.newest(5)]
    assert states == [JobState.INTERRUPTED, JobState.INTERRUPTED, JobState.DONE]
    assert again.get(f"{1:016x}").hint == "send it again"
    assert again.interrupt_unfinished() == []


def test_a_clock_that_is_set_back_changes_nothing(board: JobBoard) -> None:
    for number in range(5):
        board.add(Job(f"{number:016x}", "render", "anna", created_s=1000.0 - number))
        board.update(f"{number:016x}", state=JobState.DONE)
    assert [int(job.id, 16) for job in board.newest(5)] == [4, 3, 2, 1, 0]
    assert sorted(board.forget_oldest()) == [f"{0:016x}", f"{1:016x}"]


def test_a_disk_that_takes_nothing_ends_no_job(board: JobBoard, tmp_path: Path) -> None:
    board.add(Job("a" * 16, "render", "anna"))
    board.update("a" * 16, state=JobState.RUNNING)
    other = sqlite3.connect(tmp_path / "jobs.sqlite", isolation_level=None)
    board._db.execute("PRAGMA busy_timeout = 0")
    other.execute("BEGIN EXCLUSIVE")
    assert board.update("a" * 16, state=JobState.DONE, note={"percent": 100.0}).state is JobState.DONE
    assert board.get("a" * 16).percent == 100.0
    assert board.newest(1)[0].state is JobState.DONE
    assert board.forget_oldest() == []
    with pytest.raises(StorageError, match="cannot be written down"):
        board.add(Job("b" * 16, "render", "anna"))
    other.execute("ROLLBACK")
    board.add(Job("c" * 16, "render", "anna"))
    board.update("c" * 16, state=JobState.RUNNING)
    board.close()
    states = {job.id[0]: job.state for job in JobBoard(tmp_path / "jobs.sqlite", jobs_kept=3).newest(5)}
    assert states == {"a": JobState.DONE, "c": JobState.RUNNING}


def test_a_final_job_stays_as_it_is(board: JobBoard) -> None:
    board.add(Job("a" * 16, "render", "anna"))
    board.update("a" * 16, state=JobState.CANCELLED)
    assert board.update("a" * 16, state=JobState.DONE).state is JobState.CANCELLED
    assert board.update("a" * 16, note={"percent": 3.0}).percent == 0.0


def test_old_jobs_are_forgotten_and_unknown_ones_are_refused(board: JobBoard) -> None:
    for number in range(6):
        board.add(Job(f"{number:016x}", "render", "anna", created_s=float(number)))
        if number != 1:
            board.update(f"{number:016x}", state=JobState.DONE)
    assert sorted(board.forget_oldest()) == [f"{0:016x}", f"{2:016x}"]
    assert board.get(f"{1:016x}").state is JobState.QUEUED, "one that waits is never forgotten"
    with pytest.raises(RequestError) as refusal:
        board.get(f"{0:016x}")
    assert refusal.value.status == 404


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/a b/storage/anchors/x.mp4 is empty", "x.mp4 is empty"),
        ("packet /home/me/cache/sets: no", "packet sets: no"),
        ("see GET /api/jobs and /docs", "see GET /api/jobs and /docs"),
        ("use http://host/a/b or 3/4 of it", "use http://host/a/b or 3/4 of it"),
        ("'/etc/passwd' and /tmp/x/", "'passwd' and a folder"),
    ],
)
def test_answers_hold_no_paths(text: str, expected: str) -> None:
    assert without_paths(text, "/srv/a b/storage") == expected


@given(st.lists(st.text("abc.-_", min_size=1), min_size=2, max_size=5))
def test_no_absolute_path_survives(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    assert path not in without_paths(f"cannot read {path}")


def test_every_file_of_the_spec_is_declared_once() -> None:
    assert [artifact.file_name for artifact in ENGINE_ARTIFACTS["ditto"]] == [part.file_name for part in PARTS.values()]
    assert "uint8 (N, 3, H, W)" in ENGINE_ARTIFACTS["ditto"][4].content["frames"]


def test_status_says_what_is_wrong_with_each_file(storage: Path) -> None:
    layout = StorageLayout(storage)
    whole = avatar_status(layout, "anna", verify=True)
    assert whole.ready
    assert {file.checksum for file in whole.files} == {"good"}
    masks = AvatarStore(storage).published("anna") / "masks.pt"
    damaged = bytearray(masks.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    masks.unlink()
    masks.write_bytes(damaged)
    assert avatar_status(layout, "anna").ready, "opening does not read the bytes"
    report = avatar_status(layout, "anna", verify=True)
    assert not report.ready
    assert {file.name for file in report.files if file.checksum == "bad"} == {"masks"}
    masks.write_bytes(b"not a zip")
    report = avatar_status(layout, "anna")
    assert not report.ready
    assert [file.name for file in report.files if file.fault] == ["masks"]
    masks.unlink()
    report = avatar_status(layout, "anna")
    assert [file.name for file in report.files if not file.present] == ["masks"]
    nobody = avatar_status(layout, "nobody")
    assert (nobody.ready, [file.present for file in nobody.files]) == (False, [False] * 6)


def test_the_anchor_link_follows_the_packet(storage: Path) -> None:
    layout = StorageLayout(storage)
    for _ in range(2):
        link = link_anchor(layout, "anna")
    assert link == storage / "cache" / "anchors" / "anna" / "ditto"
    assert link.resolve() == layout.packet("anna").resolve()
    assert sorted(path.name for path in link.iterdir()) == sorted(part.file_name for part in PARTS.values())
    assert [path.name for path in link.parent.iterdir()] == ["ditto"]


def test_settings_refuse_what_cannot_work(tmp_path: Path) -> None:
    layout = StorageLayout(tmp_path)
    assert "secret" not in repr(DaemonSettings(layout, token="secret-secret"))
    assert DaemonSettings(layout).is_local
    assert not DaemonSettings(layout).uses_graph
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").write_text("")
    assert DaemonSettings(layout).uses_graph
    magic = ({"preprocess": "magic"}, {"lips": "magic"})
    for wrong in ({"token": "short"}, {"port": 0}, {"queue_limit": 0}, {"devices": ()}, *magic):
        with pytest.raises(UsageError):
            DaemonSettings(layout, **wrong)  # type: ignore[arg-type]
