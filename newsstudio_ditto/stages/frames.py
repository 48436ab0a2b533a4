"""Decode the anchor: the background frames of the packet."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.errors import UnsupportedMediaError
from newsstudio_ditto.media.decode import VideoStream, decode_frames
from newsstudio_ditto.packet.writer import PartStream
from newsstudio_ditto.stages.chunks import Chunk, chunk_length, counted

VERSION = "frames.1"


def stream_frames(anchor: Path, options: PacketOptions) -> PartStream:
    """Decode a clip or still at 25 fps, upright, with even sides.

    Returns:
        ``frames`` (N, 3, H, W) uint8, planar RGB.

    Raises:
        MediaError: the file cannot be read, or holds no picture.
    """
    video = _open(anchor, options)
    num_frames = video.num_frames if video.num_frames is not None else _count(anchor, options)
    if num_frames == 0:
        raise UnsupportedMediaError(
            f"{anchor.name} holds no picture", "give a video or a still with at least one frame"
        )
    shape = (num_frames, 3, video.height, video.width)
    chunks = _stack(islice(video.frames, num_frames), chunk_length(3 * video.height * video.width))
    return PartStream(
        part="frames",
        shapes={"frames": shape},
        chunks=counted("frames", chunks, num_frames),
        stage_version=VERSION,
        extra={"is_still": num_frames == 1},
    )


def _open(anchor: Path, options: PacketOptions) -> VideoStream:
    return decode_frames(anchor, max_side_px=options.max_side_px, max_frames=options.max_frames)


def _count(anchor: Path, options: PacketOptions) -> int:
    # The file is preallocated, so the length has to be known; containers that do not tell it are decoded once more.
    return sum(1 for _ in _open(anchor, options).frames)


def _stack(frames: Iterable[NDArray[np.uint8]], length: int) -> Iterator[Chunk]:
    iterator = iter(frames)
    while group := list(islice(iterator, length)):
        yield {"frames": torch.from_numpy(np.ascontiguousarray(np.stack(group).transpose(0, 3, 1, 2)))}
