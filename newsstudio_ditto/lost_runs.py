"""Runs whose process has died without a word: they are ended, and what they held of a pool is free again.

Dagster watches over the processes that its own servers start. One that was started at a terminal, or whose server died
with it, would stay *Started* for ever, and its avatar and its place on the GPU with it.
"""

import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from newsstudio_ditto.writers import is_running

if TYPE_CHECKING:
    from dagster import DagsterInstance

log = logging.getLogger(__name__)

PROCESS_TAG = ".dagster/newsstudio_process"
"""Host, process id and start of the process that executes a run. The prefix keeps it out of the list of runs."""


def process_mark() -> str:
    """This process, in a form that no later process with the same number shares."""
    return f"{socket.gethostname()} {os.getpid()} {_started(os.getpid())}"


def is_gone(mark: str) -> bool:
    """Whether the process of a mark has ended; one of another machine cannot be asked and counts as alive."""
    host, _, rest = mark.partition(" ")
    number, _, started = rest.partition(" ")
    return host == socket.gethostname() and number.isdigit() and _started(int(number)) != started


def _started(process_id: int) -> str:
    """When a process started, in ticks since the machine did; empty if there is none."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        has_proc = Path("/proc/self/stat").exists()
        # Without it, whether the number is taken is all that can be known.
        return "" if has_proc or not is_running(process_id) else "running"
    except ProcessLookupError:
        return ""  # it ended between the opening of that file and its reading
    state, *rest = stat.rpartition(")")[2].split()
    return "" if state == "Z" else rest[18]


def end_lost_runs(instance: "DagsterInstance") -> list[str]:
    """End every run whose process has died on this machine, and free what it held; ids of these runs."""
    from dagster import DagsterRunStatus, RunsFilter

    statuses = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
    going = instance.get_runs(RunsFilter(statuses=statuses))
    gone = [run.run_id for run in going if is_gone(run.tags.get(PROCESS_TAG, ""))]
    # Asked again, since one may have come to its end, and its process with it, between the two looks.
    lost = instance.get_runs(RunsFilter(run_ids=gone, statuses=statuses)) if gone else []
    for run in lost:
        message = f"the process of this run has died ({run.tags[PROCESS_TAG]})"
        if run.status == DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, message)
        else:
            instance.report_run_failed(run, message)
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        log.warning("a run was ended: its process has died", extra={"run_id": run.run_id})
    return [run.run_id for run in lost]
