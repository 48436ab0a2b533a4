"""Running a job of the asset graph in this process; what goes wrong there comes out as one of our own errors."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from newsstudio_ditto.errors import CheckFailedError, DittoError, StageError
from newsstudio_ditto.lost_runs import end_lost_runs

if TYPE_CHECKING:
    from dagster import AssetCheckEvaluation, AssetKey, DagsterInstance, ExecuteInProcessResult, JobDefinition

log = logging.getLogger(__name__)

PARTITION_TAG = "dagster/partition"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def run_here(
    job: "JobDefinition",
    instance: "DagsterInstance",
    partition: str,
    *,
    assets: Sequence["AssetKey"] | None = None,
    config: dict[str, Any] | None = None,
) -> "ExecuteInProcessResult":
    """Run a job for one partition in this process, and see it succeed.

    Runs whose process has died are ended first, so that nobody waits for what they held.

    Args:
        job: of the asset graph.
        instance: where the run is recorded.
        partition: key.
        assets: that are made; None makes all of the job.
        config: run configuration.

    Raises:
        DittoError: as a stage raised it; :class:`CheckFailedError` if a check stopped the run; :class:`StageError` for
            whatever else stops it, whose traceback is kept with the run.
    """
    end_lost_runs(instance)
    run_id = str(uuid4())
    try:
        return job.execute_in_process(
            run_config=QUIET | (config or {}),
            instance=instance,
            partition_key=partition,
            asset_selection=assets,
            run_id=run_id,
        )
    except DittoError:
        raise
    except Exception as error:
        ours = in_our_words(error, instance, run_id)
        if ours.__cause__ is not None:  # of a stage, which knew better than Dagster why
            raise ours from ours.__cause__
        raise ours from error


def in_our_words(error: Exception, instance: "DagsterInstance", run_id: str) -> DittoError:
    """What stopped a run, as an error that says what to do."""
    failed = list(failed_checks(instance, run_id))
    if failed:
        is_video = any(evaluation.asset_key.path[0] == "talking_video" for evaluation in failed)
        advice = "look at the video before you use it" if is_video else "nothing was published; look at the source"
        measured = f"run {run_id[:8]} in the UI shows what was measured: newsstudio-ditto dev"
        return CheckFailedError("; ".join(map(describe_check, failed)), f"{advice} ({measured})")
    own = next((cause for cause in _causes(error) if isinstance(cause, DittoError)), None)
    if own is not None:
        return own
    return StageError(
        f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason given'}",
        f"the traceback is kept with run {run_id[:8]}: newsstudio-ditto dev, then Runs",
    )


def failed_checks(instance: "DagsterInstance", run_id: str) -> Iterator["AssetCheckEvaluation"]:
    """Blocking checks that did not pass in a run."""
    from dagster import AssetCheckSeverity, DagsterEventType

    for entry in instance.all_logs(run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION):
        evaluation = entry.get_dagster_event().asset_check_evaluation_data
        if evaluation.blocking and not evaluation.passed and evaluation.severity == AssetCheckSeverity.ERROR:
            yield evaluation


def describe_check(evaluation: "AssetCheckEvaluation") -> str:
    """A failed check in one sentence."""
    faults = evaluation.metadata.get("faults")
    reason = str(getattr(faults, "value", faults))
    return f"check {evaluation.check_name} of {evaluation.asset_key.to_user_string()}: {reason}"


def _causes(error: BaseException) -> Iterable[BaseException]:
    """An error, what Dagster wraps in it, and what it came from."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = getattr(found, "user_exception", None) or found.__cause__
