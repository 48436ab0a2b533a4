"""What happens at night: every packet is read from end to end, and every source is looked at again."""

import dagster as dg

from assets.jobs import CPU_QUEUE
from assets.sources import observation, plan_or_error, recipe_version
from newsstudio_ditto.backfill import verify_packets as verify_all
from newsstudio_ditto.packet.fingerprint import hash_file
from newsstudio_ditto.pruning import unnoticed
from newsstudio_ditto.storage import files_by_slug
from resources import StorageResource

NIGHTLY_CRON = "30 3 * * *"


@dg.op(description="Hash every anchor and every speech again, and record what has changed.", tags={"kind": "file"})
def observe_sources(context: dg.OpExecutionContext, storage: StorageResource) -> None:
    """Read the files themselves: a change that kept size and time is found here, and only here."""
    layout, num_changed = storage.layout, 0
    for folder, asset, partitions in (
        (layout.anchors, "anchor_video", "avatar_id"),
        (layout.speeches, "speech_audio", "speech_id"),
    ):
        known = {*context.instance.get_dynamic_partitions(partitions)}
        for key, path in files_by_slug(folder).items():
            if key not in known:
                continue
            content = hash_file(path)
            versions = {asset: content}
            if asset == "anchor_video":
                versions["avatar_recipe"] = recipe_version(plan_or_error(storage, key, content))
            for name, version in versions.items():
                if latest_version(context.instance, name, key) != version:
                    context.instance.report_runless_asset_event(observation(name, key, version))
                    num_changed += 1
    context.log.info(f"{num_changed} sources have changed since they were last observed")


def latest_version(instance: dg.DagsterInstance, asset: str, partition: str) -> str | None:
    """Version of a source partition that was observed last."""
    record = instance.get_latest_data_version_record(dg.AssetKey(asset), partition_key=partition)
    event = record.event_log_entry.asset_observation if record else None
    return (event.tags or {}).get("dagster/data_version") if event else None


@dg.op(
    ins={"after": dg.In(dg.Nothing)},
    description="Run every check of every packet again; what fails is refused by renders until it is made again.",
)
def verify_packets(context: dg.OpExecutionContext, storage: StorageResource) -> None:
    """Look at all avatars, one after the other, and fail at the end if anything was wrong."""
    known = {name: context.instance.get_dynamic_partitions(name) for name in ("avatar_id", "speech_id")}
    avatars = [avatar_id for avatar_id in storage.avatars.list() if avatar_id in known["avatar_id"]]
    faults = verify_all(storage.layout, context.instance, avatars, batch=context.run_id)
    strays = unnoticed(storage.layout, known["avatar_id"], known["speech_id"])
    for stray in strays:
        context.log.warning(stray)
    context.add_output_metadata({"packets": len(avatars), "faults": len(faults), "without_partition": strays})
    if faults:
        raise dg.Failure("; ".join(faults[:20]), metadata={"faults": len(faults)}, allow_retries=False)


@dg.job(
    executor_def=dg.in_process_executor,
    tags=CPU_QUEUE,
    description="Observe all sources, then verify all packets, in one process.",
)
def nightly() -> None:
    """The order matters: packets are compared with sources whose state is recorded."""
    verify_packets(after=observe_sources())


nightly_schedule = dg.ScheduleDefinition(
    name="nightly_verification",
    job=nightly,
    cron_schedule=NIGHTLY_CRON,
    description="Every night at half past three.",
)

UPKEEP_JOBS = [nightly]
SCHEDULES = [nightly_schedule]
