"""Where a finished video can be played in a browser: the address that the graph records with it."""

import os

from newsstudio_ditto.config import validate_slug

VIDEO_URL_VARIABLE = "DITTO_VIDEO_URL"
VIDEO_PORT = 3001


def video_link(avatar_id: str, speech_id: str) -> str:
    """Address of a video on the server that ``newsstudio-ditto dev`` starts, or that ``DITTO_VIDEO_URL`` names."""
    base = os.environ.get(VIDEO_URL_VARIABLE) or f"http://127.0.0.1:{VIDEO_PORT}"
    return f"{base.rstrip('/')}/videos/{validate_slug(avatar_id)}/{validate_slug(speech_id, 'speech id')}.mp4"
