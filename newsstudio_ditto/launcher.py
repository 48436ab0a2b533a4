"""Runs as Celery tasks on other machines: ends cancelled runs as cancelled, and notices workers that have died.

Named in ``dagster.yaml``; needs the extra ``scale``.
"""

import logging

from dagster import DagsterRun
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

log = logging.getLogger(__name__)

PING_TIMEOUT_S = 2.0
MOST_MISSES = 3
"""Looks in a row at which a worker does not answer, or does not know its task, before the run counts as lost."""


class GpuRunLauncher(CeleryRunLauncher):
    """Dagster's launcher for Celery, with two gaps closed.

    A run is marked as cancelling before its task is stopped, since it would otherwise end as failed and be retried.
    And a task that Celery calls started is believed only while its worker says that it runs it.
    """

    def terminate(self, run_id: str) -> bool:
        """Stop a run; whether there was anything to stop."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        if DAGSTER_CELERY_TASK_ID_TAG not in run.tags:
            return False
        return super().terminate(run_id)

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Ask Celery, and the worker itself when Celery says that it is at work."""
        if DAGSTER_CELERY_TASK_ID_TAG not in run.tags:
            return CheckRunHealthResult(WorkerStatus.UNKNOWN, "the run has not reached Celery yet")
        health = super().check_run_worker_health(run)
        if health.status != WorkerStatus.RUNNING:
            return health
        task = run.tags[DAGSTER_CELERY_TASK_ID_TAG]
        host = self._host_of(task)
        if host is None or self._is_at_work(host, task):
            self._misses().pop(task, None)
            return health
        misses = self._misses()[task] = self._misses().get(task, 0) + 1
        if misses < MOST_MISSES:
            log.warning("a worker does not know its task", extra={"host": host, "task": task, "misses": misses})
            return health
        self._misses().pop(task)
        return CheckRunHealthResult(WorkerStatus.FAILED, f"worker {host} no longer runs Celery task {task}")

    def _host_of(self, task: str) -> str | None:
        info = self.celery.AsyncResult(task).info
        return info.get("hostname") if isinstance(info, dict) else None

    def _is_at_work(self, host: str, task: str) -> bool:
        active = self.celery.control.inspect(destination=[host], timeout=PING_TIMEOUT_S).active() or {}
        return any(entry["id"] == task for entry in active.get(host, []))

    def _misses(self) -> dict[str, int]:
        if not hasattr(self, "_missed"):
            self._missed: dict[str, int] = {}
        return self._missed
