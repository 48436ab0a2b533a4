"""Steps on the GPU take turns, all others do not wait for them; and what a killed process held is free again."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.test_utils import create_run_for_test

from newsstudio_ditto import lost_runs
from newsstudio_ditto.lost_runs import PROCESS_TAG, end_lost_runs, is_gone, process_mark
from newsstudio_ditto.orchestration import open_instance
from newsstudio_ditto.pool_waiting import seconds_to_next_claim
from newsstudio_ditto.storage import StorageLayout
from tests.dagster_graph.conftest import AVATAR, DEMO, Studio, preprocess
from tests.dagster_graph.test_server import DEADLINE_S, default_signals

SOMEBODY = "0" * 32


@pytest.fixture
def busy(tmp_path: Path, studio: Studio) -> Iterator[Studio]:
    """A copy of the studio in which somebody else has the GPU."""
    shutil.copytree(studio.layout.root, tmp_path / "studio", symlinks=True)
    layout = StorageLayout(tmp_path / "studio")
    with open_instance(layout) as instance:
        assert instance.event_log_storage.claim_concurrency_slot("gpu", SOMEBODY, "render").is_claimed
        yield Studio(layout, instance)


def wait_until_made(studio: Studio, key: list[str], than: float) -> None:
    end = time.monotonic() + DEADLINE_S
    while made_at(studio, key) <= than:
        assert time.monotonic() < end, f"{key} was not made"
        time.sleep(0.1)


def made_at(studio: Studio, key: list[str]) -> float:
    event = studio.instance.get_latest_materialization_event(dg.AssetKey(key))
    return event.timestamp if event else 0.0


def test_cpu_stages_do_not_wait_for_the_gpu_and_a_killed_run_leaves_nothing_held(busy: Studio) -> None:
    before, on_gpu = made_at(busy, ["packet", "masks"]), made_at(busy, ["packet", "f_s"])
    command = [sys.executable, "-m", "newsstudio_ditto.cli", "preprocess", str(DEMO / "anchor.mp4"), "--force"]
    command += ["--avatar-id", AVATAR, "--max-frames", "2", "--storage", str(busy.layout.root)]
    killed = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=default_signals)
    try:
        wait_until_made(busy, ["packet", "masks"], before)
        assert made_at(busy, ["packet", "frames"]) > before
        assert made_at(busy, ["packet", "f_s"]) == on_gpu, "the GPU was taken"
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    (lost,) = end_lost_runs(busy.instance)
    run = busy.instance.get_run_by_id(lost)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.FAILURE
    assert f" {killed.pid} " in run.tags[PROCESS_TAG]
    assert end_lost_runs(busy.instance) == []
    assert busy.instance.event_log_storage.get_concurrency_info("gpu").pending_step_count == 0
    busy.instance.event_log_storage.free_concurrency_slots_for_run(SOMEBODY)
    assert preprocess(busy.layout, force=True).made[-1] == "meta"
    assert busy.instance.event_log_storage.get_concurrency_info("gpu").active_slot_count == 0


def test_a_process_is_known_from_a_later_one_with_its_number() -> None:
    mark = process_mark()
    assert not is_gone(mark)
    host, number, started = mark.split()
    assert int(number) == os.getpid()
    assert is_gone(f"{host} {number} {int(started) - 1}")
    assert not is_gone(f"another-host {number} {int(started) - 1}")
    assert not is_gone("")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert is_gone(f"{host} {ended.pid} {started}")


def test_a_run_that_ends_while_it_is_looked_at_keeps_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        ended = create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags={PROCESS_TAG: "ended"})
        killed = create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags={PROCESS_TAG: "killed"})

        def end_now(mark: str) -> bool:
            if mark == "ended":
                success = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, ended.job_name)
                instance.report_dagster_event(success, ended.run_id)
            return True

        monkeypatch.setattr(lost_runs, "is_gone", end_now)
        assert end_lost_runs(instance) == [killed.run_id]
        run = instance.get_run_by_id(ended.run_id)
        assert run is not None
        assert run.status == dg.DagsterRunStatus.SUCCESS


def test_a_step_that_waits_for_a_pool_sleeps(studio: Studio) -> None:
    run = studio.instance.get_runs(limit=1)[0]
    context = InstanceConcurrencyContext(studio.instance, run)
    assert context.interval_to_next_pending_claim_check() == 0.0
    context._pending_timeouts["packet__f_s"] = time.time() + 60
    assert 0.0 < context.interval_to_next_pending_claim_check() == seconds_to_next_claim(context) <= 1.0
