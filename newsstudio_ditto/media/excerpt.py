"""A finished video's timing, and a few of its frames, without decoding the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.errors import MediaError
from newsstudio_ditto.media.colour import Pixels, RgbConverter
from newsstudio_ditto.media.container import describe_error, open_container, picture_stream
from newsstudio_ditto.media.facts import ColourTags
from newsstudio_ditto.units import FRAME_RATE_HZ

_AGAIN = "render it again"


@dataclass(frozen=True, eq=False)
class Timing:
    """When the pictures of a video are shown, from its packets, which need not be decoded for that.

    Args:
        times_s: (T,) seconds, in order of showing.
        sound_s: end of the last packet of sound, seconds; 0 without sound.
    """

    times_s: NDArray[np.float64]
    sound_s: float

    def first_late(self) -> int | None:
        """Index of the first frame that is not shown at its multiple of 1/25 s; None if all are."""
        late = np.abs(self.times_s - np.arange(len(self.times_s)) / FRAME_RATE_HZ) > 0.25 / FRAME_RATE_HZ
        return int(np.argmax(late)) if late.any() else None


def read_timing(path: Path) -> Timing:
    """Read every packet of a video; nothing is decoded.

    Raises:
        MediaError: the file cannot be opened, or breaks off.
    """
    times, sound_s = [], 0.0
    with open_container(path, header_only=True) as container:
        streams = [*container.streams.video[:1], *container.streams.audio[:1]]
        try:
            for packet in container.demux(streams):
                if packet.pts is None:
                    continue  # the mark of the end
                time_s = float(packet.pts * packet.time_base)
                if packet.stream.type == "video":
                    times.append(time_s)
                else:
                    sound_s = max(sound_s, time_s + float((packet.duration or 0) * packet.time_base))
        except av.FFmpegError as error:
            raise MediaError(f"{path} breaks off: {describe_error(error)}", _AGAIN) from error
    return Timing(np.sort(np.array(times)), sound_s)


def decode_excerpt(path: Path, frames: range, colour: ColourTags) -> Iterator[tuple[int, Pixels]]:
    """Decode some frames of a video of 25 frames a second.

    Args:
        path: the video.
        frames: which.
        colour: its tags.

    Yields:
        (index, (H, W, 3) uint8 RGB), in order, of the frames that are there.

    Raises:
        MediaError: the file cannot be opened, or breaks off.
    """
    converter = RgbConverter(colour)
    with open_container(path) as container:
        stream = picture_stream(container)
        if stream is None:
            raise MediaError(f"{path} holds no picture", _AGAIN)
        stream.thread_type = "AUTO"
        begin = int(frames.start / FRAME_RATE_HZ / float(stream.time_base or 1))
        try:
            container.seek(begin, stream=stream)
            for frame in container.decode(stream):
                index = round((frame.time or 0.0) * FRAME_RATE_HZ)
                if index >= frames.stop:
                    return
                if index >= frames.start:
                    yield index, converter.convert(frame)
        except av.FFmpegError as error:
            raise MediaError(f"{path} breaks off: {describe_error(error)}", _AGAIN) from error
