"""Provenance: what made a video, written into its comment tag and read back."""

import json
from collections.abc import Mapping
from pathlib import Path

from newsstudio_ditto.media.container import open_container

KEY = "newsstudio-ditto"


def provenance_comment(metadata: Mapping[str, str]) -> str:
    """The comment tag for a video: one ASCII line of JSON, keys sorted."""
    return json.dumps({KEY: dict(metadata)}, sort_keys=True)


def read_provenance(path: Path) -> dict[str, str]:
    """What made a video, as :class:`~newsstudio_ditto.media.sink.FfmpegSink` was told.

    Returns:
        An empty dictionary for videos that this package did not write.

    Raises:
        MediaError: when the file is missing or not a media file.
    """
    with open_container(path) as container:
        comment = container.metadata.get("comment", "")
    try:
        stored = json.loads(comment)
    except ValueError:
        return {}
    fields = stored.get(KEY) if isinstance(stored, dict) else None
    return {str(name): str(value) for name, value in fields.items()} if isinstance(fields, dict) else {}
