"""Dagster's own records: runs and their event rows, which nothing else ever removes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun, RunRecord

_PAGE = 200


@dataclass(frozen=True)
class OldRun:
    """A run that can go.

    Args:
        run_id: Dagster's.
        job_name: which job.
        status: how it ended.
        age_days: since it ended or was last heard of.
        num_events: rows that go with it.
    """

    run_id: str
    job_name: str
    status: str
    age_days: float
    num_events: int


def list_old_runs(
    instance: "DagsterInstance", *, older_than_days: float, keep: int = 0, now: float | None = None
) -> list[OldRun]:
    """Finished runs that are old, except those that say how a file came to be as it is.

    Kept are: the latest run, and the latest that succeeded, of every asset and partition, since their events hold the
    checks that a render asks for; runs that go on; and the ``keep`` latest.

    Args:
        instance: whose records.
        older_than_days: runs that were heard of later than that stay.
        keep: so many of the latest runs stay whatever their age.
        now: seconds since the epoch; None asks the clock.
    """
    now = time.time() if now is None else now
    found: list[OldRun] = []
    covered: set[tuple[bool, str, str]] = set()
    for position, record in enumerate(_newest_first(instance)):
        run = record.dagster_run
        covers = {(is_success, *key) for key in _made_by(run) for is_success in {False, run.is_success}}
        is_needed = not covers <= covered
        covered |= covers
        age_days = (now - (record.end_time or record.update_timestamp.timestamp())) / 86400
        if position < keep or is_needed or not run.is_finished or age_days <= older_than_days:
            continue
        num_events = len(instance.get_records_for_run(run.run_id, limit=100_000).records)
        found.append(OldRun(run.run_id, run.job_name, run.status.value, round(age_days, 2), num_events))
    return found


def _newest_first(instance: "DagsterInstance") -> Iterator["RunRecord"]:
    cursor = None
    while records := instance.get_run_records(limit=_PAGE, cursor=cursor):
        yield from records
        cursor = records[-1].dagster_run.run_id


def _made_by(run: "DagsterRun") -> set[tuple[str, str]]:
    """Partition and asset, of all that a run was to make; a whole job counts as one thing."""
    partition = run.tags.get("dagster/partition", "")
    if not run.asset_selection:
        return {(partition, run.job_name)}
    return {(partition, key.to_user_string()) for key in run.asset_selection}


def remove_runs(instance: "DagsterInstance", runs: list[OldRun]) -> int:
    """Remove runs with their events; how many rows that were."""
    for run in runs:
        instance.delete_run(run.run_id)
    return sum(run.num_events for run in runs)
