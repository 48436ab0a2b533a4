"""What comes from outside: anchor clips, recipes and speeches, watched by content."""

from hashlib import sha256

import dagster as dg

from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.preparation import PacketPlan, content_hash
from newsstudio_ditto.storage import files_by_slug
from resources import StorageResource
from resources.partitions import AVATARS, SPEECHES

DATA_VERSION = "dagster/data_version"


def observation(asset: str, partition: str, version: str) -> dg.AssetObservation:
    """An event that says which version of a source partition was seen."""
    return dg.AssetObservation(asset, partition=partition, tags={DATA_VERSION: version})


def recipe_version(plan: PacketPlan | DittoError) -> str:
    """Version of what an avatar's packet rests on besides code; an avatar that cannot be planned has one as well."""
    return hash_text(str(plan)) if isinstance(plan, DittoError) else plan.generation


def plan_or_error(storage: StorageResource, avatar_id: str, source_hash: str | None = None) -> PacketPlan | DittoError:
    """The plan of an avatar, or why there is none; its run then fails with the same words."""
    try:
        return storage.plan(avatar_id, source_hash=source_hash)
    except DittoError as error:
        return error


def hash_text(text: str) -> str:
    """The sha256 of a text."""
    return sha256(text.encode()).hexdigest()


@dg.observable_source_asset(
    partitions_def=AVATARS,
    group_name="sources",
    description="The clip or still that an avatar comes from: `anchors/{avatar_id}.*` in the storage folder. "
    "Its version is the sha256 of the file.",
    tags={"dagster/kind/video": "", "dagster/kind/file": ""},
)
def anchor_video(context: dg.AssetExecutionContext, storage: StorageResource) -> dg.DataVersionsByPartition:
    """Hash every anchor that is a partition."""
    files, known = files_by_slug(storage.layout.anchors), context.instance.get_dynamic_partitions("avatar_id")
    return dg.DataVersionsByPartition({key: content_hash(files[key]) for key in known if key in files})


@dg.observable_source_asset(
    partitions_def=AVATARS,
    group_name="sources",
    description="How an avatar is prepared: model, crop, paste window and limits, from `recipes/{avatar_id}.json`. "
    "Its version is a hash of clip, options and model, so that a change of any of them makes this avatar's seven "
    "assets stale, and nobody else's.",
    tags={"dagster/kind/json": ""},
)
def avatar_recipe(context: dg.AssetExecutionContext, storage: StorageResource) -> dg.DataVersionsByPartition:
    """Plan every avatar that is a partition."""
    files, known = files_by_slug(storage.layout.anchors), context.instance.get_dynamic_partitions("avatar_id")
    plans = {key: plan_or_error(storage, key) for key in known if key in files}
    return dg.DataVersionsByPartition({key: recipe_version(plan) for key, plan in plans.items()})


@dg.observable_source_asset(
    partitions_def=SPEECHES,
    group_name="sources",
    description="A speech: `speeches/{speech_id}.*` in the storage folder. Its version is the sha256 of the file.",
    tags={"dagster/kind/audio": "", "dagster/kind/file": ""},
)
def speech_audio(context: dg.AssetExecutionContext, storage: StorageResource) -> dg.DataVersionsByPartition:
    """Hash every speech that is a partition."""
    files, known = files_by_slug(storage.layout.speeches), context.instance.get_dynamic_partitions("speech_id")
    return dg.DataVersionsByPartition({key: content_hash(files[key]) for key in known if key in files})


SOURCES = [anchor_video, avatar_recipe, speech_audio]
