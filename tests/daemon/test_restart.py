"""Ends of every kind: polite, by kill -9, by a second daemon."""

import signal
import time
from pathlib import Path

import pytest

from newsstudio_ditto.daemon.daemon import Daemon
from newsstudio_ditto.daemon.devices import open_devices
from newsstudio_ditto.daemon.settings import DaemonSettings
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.storage import StorageLayout
from tests.daemon.running import RunningDaemon, running_daemon


def send_two(daemon: RunningDaemon) -> tuple[str, str]:
    running, waiting = (daemon.render(40.0).json()["id"] for _ in range(2))
    daemon.wait_for(running, ("running",))
    return running, waiting


def half_made(storage: Path) -> list[Path]:
    return list((storage / "videos").glob("**/.ditto-*"))


def test_after_kill_nine_jobs_are_interrupted_and_nothing_is_left(storage: Path, tiny_model: Path) -> None:
    with running_daemon(storage, tiny_model) as daemon:
        done = daemon.wait(daemon.render(0.2).json()["id"])
        running, waiting = send_two(daemon)
        deadline = time.monotonic() + 30
        while not half_made(storage):
            assert time.monotonic() < deadline, "FFmpeg never began to write"
        daemon.kill()
    with running_daemon(storage, tiny_model) as daemon:
        states = {job["id"]: job for job in daemon.client.get("/api/jobs").json()}
        assert states[done["id"]]["state"] == "done"
        for job_id in (running, waiting):
            assert states[job_id]["state"] == "interrupted"
            assert states[job_id]["hint"] == "send it again"
        assert daemon.client.get(done["video"]).status_code == 200
        assert half_made(storage) == []
        assert not (storage / "daemon" / "jobs" / running).exists()
        assert daemon.wait(daemon.render(0.2).json()["id"])["state"] == "done"
        with pytest.raises(UsageError, match="another daemon"), _second(storage, tiny_model).started():
            pass


def _second(storage: Path, model: Path) -> Daemon:
    pool = open_devices(("cpu",), str(model), eager=True)
    return Daemon(DaemonSettings(StorageLayout(storage), model=str(model)), pool)


def test_a_polite_end_interrupts_what_runs_and_is_quick(storage: Path, tiny_model: Path) -> None:
    with running_daemon(storage, tiny_model) as daemon:
        running, waiting = send_two(daemon)
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(20) in (0, -signal.SIGTERM)
    with running_daemon(storage, tiny_model) as daemon:
        states = [daemon.client.get(f"/api/jobs/{job_id}").json() for job_id in (running, waiting)]
    assert [state["state"] for state in states] == ["interrupted"] * 2
    assert all(state["what"] for state in states)
