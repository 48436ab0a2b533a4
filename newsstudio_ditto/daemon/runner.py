"""The bounded queue of jobs, and one worker for each device."""

import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from newsstudio_ditto.daemon.devices import Device, DevicePool
from newsstudio_ditto.daemon.jobs import STOPPED, STOPPED_HINT, Job, JobBoard, JobKind, JobState
from newsstudio_ditto.daemon.metrics import Metrics
from newsstudio_ditto.daemon.problems import UNEXPECTED, UNEXPECTED_HINT, RequestError, without_paths
from newsstudio_ditto.daemon.report import JobCancelled, JobReport
from newsstudio_ditto.daemon.settings import DaemonSettings
from newsstudio_ditto.daemon.work import job_folder, run_preprocess, run_render
from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.media.partial import remove_stale
from newsstudio_ditto.render.engine import Engine

log = logging.getLogger(__name__)

_RETRY_DEVICE_S = 0.2
_LONGEST_RETRY_S = 120
_STOP_S = 10.0

Work = Callable[[Job, Engine, DaemonSettings, JobReport], dict[str, Any]]
_WORK: dict[JobKind, Work] = {"render": run_render, "preprocess": run_preprocess}


class Runner:
    """Runs jobs in the order they came, one on each device at a time.

    Args:
        board: where jobs are remembered.
        pool: devices.
        settings: of the daemon.
        metrics: what is counted.
    """

    def __init__(self, board: JobBoard, pool: DevicePool, settings: DaemonSettings, metrics: Metrics) -> None:
        """Nothing runs before :meth:`start`."""
        self._board, self._pool, self._settings, self._metrics = board, pool, settings, metrics
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._running: dict[str, threading.Event] = {}
        self._reserved = 0
        self._is_stopping = False
        self._usual_seconds = 10.0
        self._threads = [
            threading.Thread(target=self._work, args=(device,), name=f"worker-{device.name}", daemon=True)
            for device in pool.devices
        ]

    def start(self) -> None:
        """Call unfinished jobs of an earlier daemon interrupted, tidy up after them, and start the workers."""
        for job in self._board.interrupt_unfinished():
            self._forget_files(job)
        shutil.rmtree(self._settings.folder / "jobs", ignore_errors=True)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End what runs; it is called interrupted. Returns when the workers have ended, or after ten seconds."""
        with self._changed:
            self._is_stopping = True
            for unwanted in self._running.values():
                unwanted.set()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_STOP_S)
        self._board.interrupt_unfinished()

    @property
    def is_alive(self) -> bool:
        """Whether every worker lives."""
        return not self._is_stopping and all(thread.is_alive() for thread in self._threads)

    @property
    def num_waiting(self) -> int:
        """Jobs that wait."""
        return len(self._waiting)

    def reserve(self) -> None:
        """Hold a place in the queue while what the job needs is read; :meth:`submit` or :meth:`unreserve` ends it.

        Raises:
            RequestError: 503, the queue is full.
        """
        with self._changed:
            waiting = len(self._waiting) + self._reserved
            if self._is_stopping or waiting >= self._settings.queue_limit:
                raise RequestError(
                    503,
                    f"the queue is full: {waiting} of {self._settings.queue_limit} places are taken",
                    "come back later",
                    retry_after_s=self._retry_after_s(),
                )
            self._reserved += 1

    def unreserve(self) -> None:
        """Give a reserved place back."""
        with self._changed:
            self._reserved -= 1

    def submit(self, job: Job) -> Job:
        """Put a job into the place that was reserved for it.

        Raises:
            RequestError: 409, this avatar is being prepared already.
        """
        with self._changed:
            if job.kind == "preprocess" and job.avatar_id in self._preparing():
                raise RequestError(409, f"avatar {job.avatar_id!r} is being prepared already", "wait for that job")
            self._board.add(job)
            self._reserved -= 1
            self._waiting.append(job.id)
            self._metrics.waiting.set(len(self._waiting))
            self._changed.notify()
        return job

    def cancel(self, job_id: str) -> Job:
        """End a job; one that runs ends at its next frame. A job that is final stays as it is.

        Raises:
            RequestError: 404, there is none of this id.
        """
        job = self._board.get(job_id)
        with self._changed:
            if job_id in self._waiting:
                self._waiting.remove(job_id)
                self._metrics.waiting.set(len(self._waiting))
                job = self._finish(job, JobState.CANCELLED)
            elif job_id in self._running:
                self._running[job_id].set()
        return job

    def _preparing(self) -> set[str]:
        jobs = [self._board.get(job_id) for job_id in (*self._waiting, *self._running)]
        return {job.avatar_id for job in jobs if job.kind == "preprocess"}

    def _retry_after_s(self) -> int:
        ahead = len(self._waiting) / len(self._threads)
        return max(1, min(round(ahead * self._usual_seconds), _LONGEST_RETRY_S))

    def _work(self, device: Device) -> None:
        while True:
            job = self._next_job(device)
            if job is None:
                return
            try:
                self._run(job, device)
            finally:
                device.release()
                with self._changed:
                    del self._running[job.id]

    def _next_job(self, device: Device) -> Job | None:
        """The next job, with the device claimed; None when the daemon stops."""
        with self._changed:
            while not self._is_stopping:
                if self._waiting and not self._pool.is_wanted_live and device.try_claim():
                    job_id = self._waiting.popleft()
                    self._running[job_id] = threading.Event()
                    self._metrics.waiting.set(len(self._waiting))
                    return self._board.update(job_id, state=JobState.RUNNING)
                # A live session tells nobody that it has ended.
                self._changed.wait(_RETRY_DEVICE_S if self._waiting else None)
        return None

    def _run(self, job: Job, device: Device) -> None:
        started = time.monotonic()
        report = JobReport(self._board, job.id, self._running[job.id])
        try:
            with device.engine.busy:
                result = _WORK[job.kind](job, device.engine, self._settings, report)
        except JobCancelled:
            if self._is_stopping:
                self._finish(job, JobState.INTERRUPTED, {"what": STOPPED, "hint": STOPPED_HINT})
            else:
                self._finish(job, JobState.CANCELLED)
        except DittoError as error:
            log.info("job failed", extra={"job": job.id, "reason": str(error)})
            note = {"what": self._public(error.what), "hint": self._public(error.hint)}
            self._finish(job, JobState.FAILED, note)
        except Exception:
            log.exception("job failed unexpectedly", extra={"job": job.id})
            self._finish(job, JobState.FAILED, {"what": UNEXPECTED, "hint": UNEXPECTED_HINT})
        else:
            seconds = time.monotonic() - started
            self._usual_seconds += (seconds - self._usual_seconds) / 4
            self._metrics.job_seconds.labels(job.kind).observe(seconds)
            self._metrics.frames.inc(result["num_frames"] if job.kind == "render" else 0)
            self._finish(job, JobState.DONE, {"result": result, "percent": 100.0, "stage": "done"})

    def _finish(self, job: Job, state: JobState, note: Mapping[str, Any] | None = None) -> Job:
        shutil.rmtree(job_folder(self._settings, job.id), ignore_errors=True)
        self._metrics.jobs.labels(job.kind, state).inc()
        done = self._board.update(job.id, note=note, state=state)
        self._board.forget_oldest()
        return done

    def _forget_files(self, job: Job) -> None:
        if job.kind == "render":
            output = self._settings.storage.video(job.avatar_id, job.output_name)
            if output.parent.is_dir():
                remove_stale(output)

    def _public(self, text: str) -> str:
        return without_paths(text, str(self._settings.storage.root))
