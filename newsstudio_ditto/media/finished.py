"""The check of a finished video, before it gets its name."""

import logging
from pathlib import Path

import av

from newsstudio_ditto.errors import MediaError, SinkError
from newsstudio_ditto.media.container import open_container
from newsstudio_ditto.units import FRAME_RATE_HZ

log = logging.getLogger(__name__)

_AGAIN = "render again; if it stays, report the FFmpeg version"
AUDIO_SLACK_S = 0.15
"""By how much picture and sound may differ: the longest AAC packet is 1024 samples at 8 kHz; and rounding."""


def check_finished(path: Path, *, num_frames: int, size: tuple[int, int], speech_seconds: float | None = None) -> None:
    """Open a finished mp4 and compare it with what was written.

    Args:
        path: the file.
        num_frames: frames that it must hold.
        size: width and height that it must have.
        speech_seconds: how long its sound must be at least; ``None`` only asks that there is some.

    Raises:
        SinkError: when it does not open or differs.
    """
    try:
        with open_container(path, header_only=True) as container:
            counts = len(container.streams.video), len(container.streams.audio)
            if counts != (1, 1):
                raise SinkError(f"the video has {counts[0]} picture and {counts[1]} sound streams, not 1 and 1", _AGAIN)
            stream, sound = container.streams.video[0], container.streams.audio[0]
            got = stream.frames, stream.codec_context.width, stream.codec_context.height
            seconds = _seconds(sound)
    except MediaError as error:
        if isinstance(error, SinkError):
            raise
        raise SinkError(f"the finished video does not open: {error.what}", _AGAIN) from error
    if got != (num_frames, *size):
        raise SinkError(f"the video holds (frames, width, height) {got}, not {(num_frames, *size)}", _AGAIN)
    if seconds <= 0 or (speech_seconds is not None and seconds < speech_seconds - AUDIO_SLACK_S):
        raise SinkError(f"the video holds {seconds:.3f} s of sound, not {speech_seconds or 'any'}", _AGAIN)
    if abs(seconds - num_frames / FRAME_RATE_HZ) > AUDIO_SLACK_S:
        log.warning(
            "picture and sound differ in length",
            extra={"picture_s": num_frames / FRAME_RATE_HZ, "sound_s": seconds},
        )


def _seconds(sound: av.AudioStream) -> float:
    return float(sound.duration * sound.time_base) if sound.duration and sound.time_base else 0.0
