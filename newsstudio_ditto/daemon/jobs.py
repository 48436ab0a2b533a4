"""Jobs, and the board that remembers them across restarts."""

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from newsstudio_ditto.daemon.problems import RequestError
from newsstudio_ditto.errors import StorageError

log = logging.getLogger(__name__)

JobKind = Literal["render", "preprocess"]

STOPPED = "the daemon stopped before this job was finished"
STOPPED_HINT = "send it again"


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def is_final(self) -> bool:
        """Nothing will change any more."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True)
class Job:
    """One job.

    Args:
        id: 16 hexadecimal digits.
        kind: what it does.
        avatar_id: for whom.
        request: plain values that it was asked with; no paths outside its own folder.
        state: where it stands.
        created_s: Unix time.
        started_s: Unix time; None while it waits.
        ended_s: Unix time; None until it is final.
        stage: what it is doing.
        percent: 0 to 100.
        fps: frames a second while it renders.
        eta_s: seconds left, as far as that can be told.
        what: what went wrong.
        hint: what to do about it.
        result: plain values that it ended with.
    """

    id: str
    kind: JobKind
    avatar_id: str
    request: Mapping[str, Any] = field(default_factory=dict)
    state: JobState = JobState.QUEUED
    created_s: float = field(default_factory=time.time)
    started_s: float | None = None
    ended_s: float | None = None
    stage: str = "waiting"
    percent: float = 0.0
    fps: float | None = None
    eta_s: float | None = None
    what: str = ""
    hint: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def output_name(self) -> str:
        """Name of the video, which is also its speech id in the storage."""
        return self.id


class JobBoard:
    """Every job: changes of state are on the disk at once, progress is kept in memory alone.

    While the disk takes nothing, jobs that are known already are kept in memory, and written down as soon as it does.

    Args:
        path: of the database; its folder is made.
        jobs_kept: finished jobs that are remembered.
    """

    def __init__(self, path: Path, *, jobs_kept: int) -> None:
        """Open the database."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._kept = jobs_kept
        self._lock = threading.RLock()
        self._live: dict[str, Job] = {}
        self._unsaved: dict[str, Job] = {}
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, created REAL, state TEXT, record TEXT NOT NULL)"
        )

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    def add(self, job: Job) -> None:
        """Remember a new job.

        Raises:
            StorageError: the disk takes nothing.
        """
        with self._lock:
            try:
                self._write(job)
            except sqlite3.OperationalError as error:
                raise StorageError(
                    f"the job cannot be written down: {error}", "free some space, or look at the disk of the storage"
                ) from error
            self._live[job.id] = job

    def update(self, job_id: str, *, note: Mapping[str, Any] | None = None, state: JobState | None = None) -> Job:
        """Change a job; one that is final stays as it is.

        Args:
            job_id: which.
            note: fields to set, such as ``stage`` and ``percent``.
            state: where it stands now.

        Returns:
            The job as it is now.
        """
        with self._lock:
            job = self._live.get(job_id)
            if job is None:
                return self.get(job_id)
            changes = dict(note or {})
            if state is not None:
                changes["state"] = state
                changes |= {"started_s": time.time()} if state is JobState.RUNNING else {}
                changes |= {"ended_s": time.time(), "eta_s": None} if state.is_final else {}
            job = self._live[job_id] = replace(job, **changes)
            if state is not None:
                self._save(job)
            if job.state.is_final:
                del self._live[job_id]
            return job

    def get(self, job_id: str) -> Job:
        """One job.

        Raises:
            RequestError: 404, there is none of this id.
        """
        with self._lock:
            job = self._live.get(job_id) or self._unsaved.get(job_id)
            if job is not None:
                return job
            row = self._db.execute("SELECT record FROM jobs WHERE id = ?", (job_id,)).fetchone()
        if row is None:
            raise RequestError(404, f"there is no job {job_id[:32]!r}", "see GET /api/jobs")
        return _from_record(row[0])

    def newest(self, count: int) -> list[Job]:
        """The ``count`` newest jobs, newest first."""
        with self._lock:
            rows = self._db.execute("SELECT record FROM jobs ORDER BY rowid DESC LIMIT ?", (count,)).fetchall()
            jobs = [_from_record(row[0]) for row in rows]
            return [self._live.get(job.id) or self._unsaved.get(job.id, job) for job in jobs]

    def interrupt_unfinished(self) -> list[Job]:
        """Call what an earlier daemon left unfinished interrupted, and return it."""
        with self._lock:
            rows = self._db.execute(
                "SELECT record FROM jobs WHERE state IN (?, ?)", (JobState.QUEUED, JobState.RUNNING)
            ).fetchall()
            jobs = [
                replace(
                    _from_record(row[0]),
                    state=JobState.INTERRUPTED,
                    ended_s=time.time(),
                    what=STOPPED,
                    hint=STOPPED_HINT,
                )
                for row in rows
            ]
            for job in jobs:
                self._save(job)
            self._live.clear()
        return jobs

    def forget_oldest(self) -> list[str]:
        """Drop finished jobs beyond the number to keep, and return their ids; none while the disk takes nothing."""
        with self._lock, self._bearing_the_disk():
            rows = self._db.execute(
                "SELECT id FROM jobs WHERE state NOT IN (?, ?) ORDER BY rowid DESC LIMIT -1 OFFSET ?",
                (JobState.QUEUED, JobState.RUNNING, self._kept),
            ).fetchall()
            self._db.executemany("DELETE FROM jobs WHERE id = ?", rows)
            return [row[0] for row in rows]
        return []

    def _save(self, job: Job) -> None:
        """Write a known job down, and what could not be written before; what still cannot be waits."""
        self._unsaved[job.id] = job
        with self._bearing_the_disk():
            for waiting in list(self._unsaved.values()):
                self._write(waiting)
                del self._unsaved[waiting.id]

    @contextmanager
    def _bearing_the_disk(self) -> Iterator[None]:
        """A disk that takes nothing must not end a worker."""
        try:
            yield
        except sqlite3.OperationalError as error:
            log.warning("jobs cannot be written down", extra={"num_waiting": len(self._unsaved), "reason": str(error)})

    def _write(self, job: Job) -> None:
        self._db.execute(
            # An update keeps its row, whose number is the order in which jobs came, whatever the clock said.
            "INSERT INTO jobs (id, created, state, record) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET state = excluded.state, record = excluded.record",
            (job.id, job.created_s, job.state, json.dumps(asdict(job))),
        )


def _from_record(text: str) -> Job:
    fields = json.loads(text)
    return Job(**{**fields, "state": JobState(fields["state"])})
