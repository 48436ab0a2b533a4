"""How a running job tells where it is, and hears that nobody wants it any more."""

import threading
import time

from newsstudio_ditto.daemon.jobs import JobBoard

_EVERY_S = 0.1


class JobCancelled(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The job is not wanted any more."""


class JobReport:
    """Progress of one job.

    Args:
        board: where it is written.
        job_id: which.
        unwanted: set when the job is to end.
    """

    def __init__(self, board: JobBoard, job_id: str, unwanted: threading.Event) -> None:
        """Start the clock."""
        self._board, self._job_id, self._unwanted = board, job_id, unwanted
        self._stage, self._begun_s, self._begun_at, self._told = "", time.monotonic(), 0, 0.0

    def check(self) -> None:
        """Raise :class:`JobCancelled` if the job is to end."""
        if self._unwanted.is_set():
            raise JobCancelled

    def stage(self, name: str, percent: float) -> None:
        """Say which stage has begun."""
        self.check()
        self._begin(name, 0)
        self._board.update(self._job_id, note={"stage": name, "percent": percent, "fps": None, "eta_s": None})

    def frames(self, name: str, done: int, total: int) -> None:
        """Say how many frames of a stage are done; told at most ten times a second."""
        self.check()
        now = time.monotonic()
        if name != self._stage:
            self._begin(name, done)
        elif now - self._told < _EVERY_S and done < total:
            return
        self._told = now
        seconds, num_frames = now - self._begun_s, done - self._begun_at
        fps = num_frames / seconds if num_frames > 0 and seconds > 0 else None
        note = {
            "stage": name,
            "percent": 100.0 * done / max(total, 1),
            "fps": fps,
            "eta_s": (total - done) / fps if fps else None,
        }
        self._board.update(self._job_id, note=note)

    def _begin(self, name: str, done: int) -> None:
        """Count speed from here: what came before the first word of a stage has no known duration."""
        self._stage, self._begun_s, self._begun_at = name, time.monotonic(), done
