"""The Celery app of a worker: ``celery -A newsstudio_ditto.worker worker -Q gpu``.

Broker and settings are those of the run launcher in ``dagster.yaml``, so there is one place for them. Needs the extra
``scale`` and the variable ``DAGSTER_HOME``.
"""

from celery import Celery
from dagster import DagsterInstance
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task

from newsstudio_ditto.errors import UsageError


def build_app() -> Celery:
    """The launcher's own app with the tasks that a worker runs.

    Raises:
        UsageError: the instance in ``DAGSTER_HOME`` has another launcher.
    """
    # Closed again at once: the children that run the tasks must not share its connections.
    with DagsterInstance.get() as instance:
        launcher = instance.run_launcher
        if not isinstance(launcher, CeleryRunLauncher):
            raise UsageError(
                f"dagster.yaml in DAGSTER_HOME starts runs with {type(launcher).__name__}", "use deploy/dagster.yaml"
            )
        app = launcher.celery
    create_execute_job_task(app)
    create_resume_job_task(app)
    return app


app = build_app()
