"""Many runs in one process: models are loaded and graphs captured once, for the first of them."""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from newsstudio_ditto.graph_run import PARTITION_TAG, QUIET
from newsstudio_ditto.orchestration import find_job, observe
from newsstudio_ditto.packet.files import try_locked
from newsstudio_ditto.preparation import content_hash
from newsstudio_ditto.rundown import is_encoded, made_of
from newsstudio_ditto.storage import StorageLayout, files_by_slug

if TYPE_CHECKING:
    from dagster import DagsterEvent, DagsterInstance, ExecuteInProcessResult, JobDefinition

log = logging.getLogger(__name__)

BATCH_TAG = "newsstudio/batch"


@dataclass(frozen=True)
class VideoOutcome:
    """One video of a batch.

    Args:
        speech_id: what is said.
        run_id: Dagster's run that made it, or failed at it.
        seconds: wall time of encoding the speech and rendering.
        process_id: where it ran.
        fault: why there is no video; empty if there is one.
    """

    speech_id: str
    run_id: str
    seconds: float
    process_id: int
    fault: str = ""


def unmade_speeches(layout: StorageLayout, avatar_id: str) -> list[str]:
    """Speeches of which this avatar has no video in their present content."""
    files = files_by_slug(layout.speeches)
    return [name for name, path in files.items() if made_of(layout, avatar_id, name) != content_hash(path)]


def make_videos(
    layout: StorageLayout,
    instance: "DagsterInstance",
    avatar_id: str,
    speech_ids: Sequence[str],
    *,
    device: str = "auto",
    batch: str = "",
    config: dict[str, Any] | None = None,
) -> list[VideoOutcome]:
    """Make videos one after the other through the asset graph, each in a Dagster run of its own, all in this process.

    A speech that fails is reported and the rest goes on.

    Args:
        layout: where everything lives.
        instance: where the runs are recorded.
        avatar_id: who.
        speech_ids: what; their files lie in the speeches folder.
        device: for all networks.
        batch: kept as a tag of every run.
        config: run configuration of the job ``render``.

    Raises:
        MediaError: there is no such speech, or several; nothing is made then.
    """
    speeches = {speech_id: layout.speech(speech_id) for speech_id in speech_ids}
    listen, render = (find_job(layout, name, device) for name in ("listen", "render"))
    outcomes, tags, model = [], _batch_tag(batch), layout.recipe(avatar_id).model
    for speech_id, path in speeches.items():
        started = time.perf_counter()
        content = content_hash(path)
        instance.add_dynamic_partitions("speech_id", [speech_id])
        observe(instance, "speech_audio", speech_id, content)
        result = None
        if not is_encoded(layout, speech_id, content, model):
            result = _run(listen, instance, speech_id, tags, listening_config(model))
        if result is None or result.success:
            result = _run(render, instance, f"{avatar_id}|{speech_id}", tags, config)
        fault = "" if result.success else f"{speech_id}: {_reason(result.all_events)}"
        seconds = round(time.perf_counter() - started, 3)
        outcomes.append(VideoOutcome(speech_id, result.run_id, seconds, os.getpid(), fault))
        log.info("video of a batch", extra={"speech_id": speech_id, "seconds": seconds, "fault": fault})
    return outcomes


def verify_packets(
    layout: StorageLayout, instance: "DagsterInstance", avatar_ids: Sequence[str], *, batch: str = ""
) -> list[str]:
    """Run every check of every packet again, each avatar in a Dagster run of its own, all in this process.

    Args:
        layout: where everything lives.
        instance: where the runs are recorded.
        avatar_ids: whose packets; one that is being made is left out.
        batch: kept as a tag of every run.

    Returns:
        One sentence for each packet with a fault.
    """
    job, faults = find_job(layout, "verify", "cpu"), []
    for avatar_id in avatar_ids:
        with try_locked(layout.bench_lock(avatar_id), "a verification") as holder:
            if holder is None:
                faults += _verify(job, instance, avatar_id, batch)
            else:
                log.info("not verified: its packet is being made", extra={"avatar_id": avatar_id, "holder": holder})
    return faults


def _verify(job: "JobDefinition", instance: "DagsterInstance", avatar_id: str, batch: str) -> list[str]:
    # A job of checks alone has no partitions of its own, so the partition is given as the tag that the checks read.
    result = _run(job, instance, None, {PARTITION_TAG: avatar_id, **_batch_tag(batch)})
    failed = [check for check in result.get_asset_check_evaluations() if not check.passed and check.blocking]
    faults = [
        f"{avatar_id}: {check.check_name} of {check.asset_key.to_user_string()}: {_text(check.metadata.get('faults'))}"
        for check in failed
    ]
    if not result.success and not failed:
        faults.append(f"{avatar_id}: {_reason(result.all_events)}")
    return faults


def _text(value: object) -> str:
    return str(getattr(value, "value", value))


def _batch_tag(batch: str) -> dict[str, str]:
    return {BATCH_TAG: batch} if batch else {}


def listening_config(model: str) -> dict[str, Any]:
    """Run configuration of the job ``listen`` for a model bundle."""
    return {"ops": {"speech_features": {"config": {"model": model}}}}


def _run(
    job: "JobDefinition",
    instance: "DagsterInstance",
    partition: str | None,
    tags: dict[str, str],
    config: dict[str, Any] | None = None,
) -> "ExecuteInProcessResult":
    # What was interrupted together with this process is not for the daemon to start again one by one.
    tags = {"dagster/max_retries": "0", **tags}
    result = job.execute_in_process(
        run_config=QUIET | (config or {}),
        instance=instance,
        partition_key=partition,
        tags=tags,
        raise_on_error=False,
    )
    _end_batch_if_interrupted(result, instance)
    return result


def _end_batch_if_interrupted(result: "ExecuteInProcessResult", instance: "DagsterInstance") -> None:
    """Hand an interrupt on: Dagster takes it as the failure of one run, though the whole batch was to end.

    Raises:
        DagsterExecutionInterruptedError: the run was interrupted.
    """
    from dagster._core.errors import DagsterExecutionInterruptedError
    from dagster._core.events import RunFailureReason

    for event in result.all_events:
        if event.is_job_failure and event.job_failure_data.failure_reason == RunFailureReason.UNEXPECTED_TERMINATION:
            run = instance.get_run_by_id(result.run_id)
            if run is not None:
                instance.report_run_canceled(run, "the batch that this run belongs to was interrupted")
            raise DagsterExecutionInterruptedError


def _reason(events: Sequence["DagsterEvent"]) -> str:
    for event in events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            cause = error.cause or error if error else None
            return cause.message.strip().splitlines()[0] if cause else "no reason was recorded"
    return "no step failed; see the run"
