"""Which avatar and which speech a partition key stands for."""

import dagster as dg

from newsstudio_ditto.config import validate_slug

AVATARS = dg.DynamicPartitionsDefinition(name="avatar_id")
SPEECHES = dg.DynamicPartitionsDefinition(name="speech_id")
RENDERS = dg.MultiPartitionsDefinition({"avatar_id": AVATARS, "speech_id": SPEECHES})


def avatar_of(partition_key: str) -> str:
    """The avatar id that a partition key of :data:`AVATARS` is; refused unless it is a slug."""
    return validate_slug(partition_key)


def speech_of(partition_key: str) -> str:
    """The speech id that a partition key of :data:`SPEECHES` is; refused unless it is a slug."""
    return validate_slug(partition_key, "speech id")


def render_of(partition_key: str) -> tuple[str, str]:
    """Avatar id and speech id of a partition key of :data:`RENDERS`.

    A run that was started over GraphQL may bring the key as plain text, so it is always parsed.
    """
    keys = RENDERS.get_partition_key_from_str(partition_key).keys_by_dimension
    return avatar_of(keys["avatar_id"]), speech_of(keys["speech_id"])
