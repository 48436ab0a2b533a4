"""Sensors, off until switched on: files in the storage folder become partitions, observations and runs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import dagster as dg

from assets.gate import is_renderable
from assets.jobs import listen, preprocess, render
from assets.packet import step_key
from assets.sources import hash_text, observation, plan_or_error, recipe_version
from newsstudio_ditto.backfill import listening_config
from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.lost_runs import end_lost_runs
from newsstudio_ditto.preparation import VERSIONS, PacketPlan, model_fingerprint, stale_steps, wanted_version
from newsstudio_ditto.rundown import WantedVideo, is_encoded, listening_model, wanted_videos
from newsstudio_ditto.stages.speech import VERSION as FEATURES_VERSION
from newsstudio_ditto.storage import DEFAULT_MODEL
from newsstudio_ditto.watching import Decision, WatchState, decide, look_at, short
from resources import StorageResource
from resources.partitions import AVATARS, SPEECHES

PartitionRequest = dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest
MOST_RENDERS_A_TICK = 50


@dataclass(frozen=True)
class Watched:
    """One look at a folder.

    Args:
        decision: what to do.
        hashes: sha256 by slug.
        requests: partitions to add and to retire.
    """

    decision: Decision
    hashes: dict[str, str]
    requests: list[PartitionRequest]

    def to_result(self, events: list[dg.AssetObservation], runs: Iterable[dg.RunRequest]) -> dg.SensorResult:
        """What the sensor says."""
        return dg.SensorResult(
            asset_events=events,
            dynamic_partitions_requests=self.requests,
            run_requests=list(runs),
            cursor=self.decision.state.to_cursor(),
        )


def watch(
    context: dg.SensorEvaluationContext,
    storage: StorageResource,
    folder: Path,
    partitions: dg.DynamicPartitionsDefinition,
    version_of: Callable[[str, str], str],
    is_stale: Callable[[str, str], bool],
) -> Watched:
    """One tick: look, compare, and say what follows for the partitions."""
    state = WatchState.from_cursor(context.cursor)
    look = look_at(folder, storage.layout.hash_memory(folder.name), state.waiting)
    decision = decide(state, look, version_of, is_stale)
    present = {*context.instance.get_dynamic_partitions(str(partitions.name))}
    return Watched(decision, look.hashes, partition_requests(partitions, decision, present))


def partition_requests(
    partitions: dg.DynamicPartitionsDefinition, decision: Decision, present: set[str]
) -> list[PartitionRequest]:
    """Partitions to add and to retire. One that somebody deleted comes back when its file changes."""
    requests: list[PartitionRequest] = []
    if new := [slug for slug in decision.due if slug not in present]:
        requests.append(partitions.build_add_request(new))
    if gone := [slug for slug in decision.gone if slug in present]:
        requests.append(partitions.build_delete_request(gone))
    return requests


@dg.sensor(
    job_name=preprocess.name,
    minimum_interval_seconds=10,
    description="Clips and stills that appear or change in anchors/ are prepared once they are complete. So is an "
    "avatar whose recipe, model or stage code changes; what is still fresh of it is kept. Each version is tried once: "
    "look for failures among the runs. What goes loses its partition.",
)
def anchors_folder(context: dg.SensorEvaluationContext, storage: StorageResource) -> dg.SensorResult | dg.SkipReason:
    """Watch the anchors, and all that their packets rest on."""
    folder = storage.layout.anchors
    if not folder.is_dir():
        return dg.SkipReason(f"there is no folder {folder}")
    plans: dict[str, PacketPlan | DittoError] = {}

    def version_of(avatar_id: str, source_hash: str) -> str:
        plans[avatar_id] = plan = plan_or_error(storage, avatar_id, source_hash)
        return recipe_version(plan) if isinstance(plan, DittoError) else wanted_version(plan)

    def is_stale(avatar_id: str, _source_hash: str) -> bool:
        return bool(_stale(storage, plans[avatar_id]))

    watched = watch(context, storage, folder, AVATARS, version_of, is_stale)
    decision = watched.decision
    events = [observation("anchor_video", key, watched.hashes[key]) for key in decision.observed]
    events += [observation("avatar_recipe", key, recipe_version(plans[key])) for key in decision.due]
    runs = (
        dg.RunRequest(
            run_key=run_key,
            partition_key=avatar_id,
            asset_selection=[step_key(step) for step in _stale(storage, plans[avatar_id])],
        )
        for avatar_id, run_key in decision.runs.items()
    )
    return watched.to_result(events, runs)


def _stale(storage: StorageResource, plan: PacketPlan | DittoError) -> list[str]:
    # What cannot be planned is asked for all the same: the run fails with the reason.
    return list(VERSIONS) if isinstance(plan, DittoError) else stale_steps(storage.avatars, plan)


@dg.sensor(
    job_name=listen.name,
    minimum_interval_seconds=10,
    description="Sound files that appear or change in speeches/ are encoded once they are complete, by the model of "
    "their presenter; again when that changes. Each version once; what goes loses its partition.",
)
def speeches_folder(context: dg.SensorEvaluationContext, storage: StorageResource) -> dg.SensorResult | dg.SkipReason:
    """Watch the speeches."""
    folder = storage.layout.speeches
    if not folder.is_dir():
        return dg.SkipReason(f"there is no folder {folder}")
    layout, avatars = storage.layout, storage.avatars.list()
    models: dict[str, str] = {}

    def version_of(speech_id: str, content: str) -> str:
        try:
            models[speech_id] = model = listening_model(layout, speech_id, avatars)
            return hash_text(f"{content} {FEATURES_VERSION} {model_fingerprint(model)}")
        except DittoError as error:
            return hash_text(f"{content} {error}")  # the run says why

    def is_stale(speech_id: str, content: str) -> bool:
        try:
            return speech_id not in models or not is_encoded(layout, speech_id, content, models[speech_id])
        except DittoError:
            return True

    watched = watch(context, storage, folder, SPEECHES, version_of, is_stale)
    events = [observation("speech_audio", key, watched.hashes[key]) for key in watched.decision.observed]
    runs = (
        dg.RunRequest(run_key=run_key, partition_key=key, run_config=listening_config(models.get(key, DEFAULT_MODEL)))
        for key, run_key in watched.decision.runs.items()
    )
    return watched.to_result(events, runs)


@dg.sensor(
    job_name=render.name,
    minimum_interval_seconds=10,
    description="A speech that has been encoded is rendered with its presenters: the one that its name begins with "
    "(anna--headlines), those that presenters.json lists, or the only avatar. Each content once.",
)
def new_speeches(context: dg.SensorEvaluationContext, storage: StorageResource) -> dg.SensorResult | dg.SkipReason:
    """Request videos of new speeches, with avatars whose packets have passed their checks."""
    state = WatchState.from_cursor(context.cursor)
    look = look_at(storage.layout.speeches, storage.layout.hash_memory("speeches"), {}, budget_s=0)
    avatars = storage.avatars.list()
    try:
        wanted = list(islice(_unasked(state, wanted_videos(storage.layout, look.hashes, avatars)), MOST_RENDERS_A_TICK))
    except DittoError as error:
        return dg.SkipReason(str(error))
    ready = {
        avatar_id: is_renderable(context.instance, storage, avatar_id)
        for avatar_id in {video.avatar_id for video in wanted}
    }
    asked = [video for video in wanted if ready[video.avatar_id]]
    kept = {pair: entry for pair, entry in state.seen.items() if pair.split("|")[-1] in look.hashes}
    now = {_pair(video): (short(video.speech_hash), "") for video in asked}
    return dg.SensorResult(
        run_requests=list(_render_requests(asked, state)),
        cursor=replace(state, round=state.round + bool(asked), seen=kept | now).to_cursor(),
    )


def _pair(video: WantedVideo) -> str:
    return f"{video.avatar_id}|{video.speech_id}"


def _unasked(state: WatchState, videos: Iterator[WantedVideo]) -> Iterator[WantedVideo]:
    return (video for video in videos if state.seen.get(_pair(video), ("", ""))[0] != short(video.speech_hash))


def _render_requests(videos: list[WantedVideo], state: WatchState) -> Iterator[dg.RunRequest]:
    for video in videos:
        keys = dg.MultiPartitionKey({"avatar_id": video.avatar_id, "speech_id": video.speech_id})
        run_key = f"{_pair(video)} {short(video.speech_hash)} {state.epoch}.{state.round}"
        yield dg.RunRequest(run_key=run_key, partition_key=keys)


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="A run whose process has died without a word is ended as failed, and its place in the pool is free "
    "again: a preprocess at a terminal that was killed, or what a power cut left behind.",
)
def lost_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """End runs whose process has died on this machine."""
    lost = end_lost_runs(context.instance)
    return dg.SkipReason(f"ended {', '.join(lost)}" if lost else "every run that goes on has its process")


SENSORS = [anchors_folder, speeches_folder, new_speeches, lost_runs]
