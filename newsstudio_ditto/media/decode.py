"""Anchors as plain frames: upright, square pixels, even size, RGB, 25 a second."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
import cv2
import numpy as np

from newsstudio_ditto.config import require_range
from newsstudio_ditto.errors import MediaError, UnsupportedMediaError
from newsstudio_ditto.media.clock import resample
from newsstudio_ditto.media.colour import BACKGROUND_RGB, Pixels, RgbConverter, choose_matrix, require_sdr
from newsstudio_ditto.media.container import describe_error, is_still, open_container
from newsstudio_ditto.media.facts import MediaFacts, VideoFacts
from newsstudio_ditto.media.probe import probe, require_picture, square_pixels
from newsstudio_ditto.media.speech import read_speech
from newsstudio_ditto.units import FRAME_RATE_HZ

__all__ = ["Geometry", "VideoStream", "decode_frames", "plan_geometry", "read_speech"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Geometry:
    """How stored pictures become frames: scaled, turned upright, then cropped at the right and the bottom.

    Args:
        scaled_width_px: stored width after scaling, before the turn.
        scaled_height_px: stored height after scaling, before the turn.
        width: of the frames, even.
        height: of the frames, even.
        cropped_right_px: 0 or 1.
        cropped_bottom_px: 0 or 1.
    """

    scaled_width_px: int
    scaled_height_px: int
    width: int
    height: int
    cropped_right_px: int
    cropped_bottom_px: int


@dataclass(frozen=True)
class VideoStream:
    """A clip that is being decoded.

    Args:
        width: of each frame, even.
        height: of each frame, even.
        num_frames: exact number of frames; ``None`` for clips, whose number is known only after decoding.
        estimated_frames: the number that the header suggests, for progress and disk space; can be wrong.
        frames: (H, W, 3) uint8 RGB each, contiguous, 25 a second; can be taken once. A frame that repeats is
            the same array, so do not write into it.
        facts: what the file says about itself.
        geometry: what was scaled and cropped.
    """

    width: int
    height: int
    num_frames: int | None
    estimated_frames: int | None
    frames: Iterator[Pixels]
    facts: MediaFacts
    geometry: Geometry


def decode_frames(
    path: Path,
    *,
    max_side_px: int = 1920,
    max_frames: int | None = None,
    background_rgb: tuple[int, int, int] = BACKGROUND_RGB,
) -> VideoStream:
    """Open a video clip or a picture as frames; nothing is held but the current frame.

    Turn and mirror tags are applied, pixels made square, a longer side than ``max_side_px`` shrunk, an odd side
    cropped by one pixel at the right or bottom. Tags decide the colour matrix and range; untagged pictures
    are bt709 from 720 lines on, else bt601. :func:`~newsstudio_ditto.media.clock.resample` is the frame-rate rule.

    Args:
        path: any local file that FFmpeg decodes.
        max_side_px: limit of the longer side, 64 to 8192.
        max_frames: stop after this many frames; ``None`` takes all.
        background_rgb: what stands behind transparent pixels.

    Raises:
        MediaError: when the file holds no picture or is broken; during iteration also when it breaks later.
        UnsupportedMediaError: for HDR, HEIC and other refused kinds, naming them.
        UsageError: for limits out of range.
    """
    require_range("max_side_px", max_side_px, 64, 8192)
    if max_frames is not None:
        require_range("max_frames", max_frames, 1, 10**9)
    facts = probe(path)
    video = require_picture(facts)
    require_sdr(video.colour, str(path))
    if not video.pixel_format.startswith(("rgb", "bgr", "gbr", "gray", "pal")):
        choose_matrix(video.colour, min(video.coded_width_px, video.coded_height_px))
    geometry = plan_geometry(video, max_side_px=max_side_px)
    if geometry.width < 2 or geometry.height < 2:
        raise MediaError(f"{path} is {video.width_px}x{video.height_px} pixels small", "give a larger picture")
    if geometry.cropped_right_px or geometry.cropped_bottom_px:
        log.info("cropped to an even size", extra={"width_px": geometry.width, "height_px": geometry.height})
    if video.interlaced:
        log.warning("interlaced clip; fields are not separated", extra={"file_name": path.name})
    still = is_still(facts.container)
    return VideoStream(
        width=geometry.width,
        height=geometry.height,
        num_frames=1 if still else None,
        estimated_frames=1 if still else _estimate_frames(facts, max_frames),
        frames=islice(_frames(facts, geometry, background_rgb), 1 if still else max_frames),
        facts=facts,
        geometry=geometry,
    )


def plan_geometry(video: VideoFacts, *, max_side_px: int) -> Geometry:
    """Work out every size from the stored picture to the frames."""
    width, height = square_pixels(video.coded_width_px, video.coded_height_px, video.sample_aspect)
    longest = max(width, height)
    if longest > max_side_px:
        width, height = (max(round(side * max_side_px / longest), 1) for side in (width, height))
    shown_width, shown_height = video.orientation.size(width, height)
    right, bottom = shown_width % 2, shown_height % 2
    return Geometry(width, height, shown_width - right, shown_height - bottom, right, bottom)


def _estimate_frames(facts: MediaFacts, max_frames: int | None) -> int | None:
    if facts.duration_s is None:
        return None
    return min(max(round(facts.duration_s * FRAME_RATE_HZ), 1), max_frames or 10**9)


def _frames(facts: MediaFacts, geometry: Geometry, background_rgb: tuple[int, int, int]) -> Iterator[Pixels]:
    video = require_picture(facts)
    converter = RgbConverter(video.colour, background_rgb=background_rgb)
    stored: av.VideoFrame | None = None
    pixels: Pixels | None = None
    for frame in resample(_timed_frames(facts, video)):
        if pixels is None or frame is not stored:
            stored, pixels = frame, _shape(converter.convert(frame), video, geometry)
        yield pixels


def _shape(rgb: Pixels, video: VideoFacts, geometry: Geometry) -> Pixels:
    """Scale, turn and crop a stored picture (h, w, 3)."""
    size = (geometry.scaled_width_px, geometry.scaled_height_px)
    if rgb.shape[1::-1] != size:
        shrinks = size[0] * size[1] < rgb.shape[0] * rgb.shape[1]
        rgb = np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC))
    upright = video.orientation.apply(rgb)
    return np.ascontiguousarray(upright[: geometry.height, : geometry.width])


def _timed_frames(facts: MediaFacts, video: VideoFacts) -> Iterator[tuple[Fraction, Fraction, av.VideoFrame]]:
    """(time, duration, frame) in seconds of every frame that can be decoded."""
    usual = 1 / video.fps if video.fps else Fraction(1, FRAME_RATE_HZ)
    time, num_broken = Fraction(0), 0
    with open_container(facts.path) as container:
        stream = next(stream for stream in container.streams.video if stream.index == video.stream_index)
        stream.thread_type = "AUTO"
        try:
            for packet in container.demux(stream):
                try:
                    frames = stream.decode(packet)
                except av.InvalidDataError:
                    num_broken += 1
                    continue
                for frame in frames:
                    _require_same_size(facts.path, frame, video)
                    tick = frame.time_base or stream.time_base or usual
                    time = frame.pts * tick if frame.pts is not None else time
                    length = frame.duration * tick if frame.duration else usual
                    yield time, length, frame
                    time += length
        except av.FFmpegError as error:
            raise MediaError(f"{facts.path} breaks off: {describe_error(error)}", "copy or re-encode it") from error
    if num_broken:
        log.warning("packets that cannot be decoded were left out", extra={"num_packets": num_broken})


def _require_same_size(path: Path, frame: av.VideoFrame, video: VideoFacts) -> None:
    if (frame.width, frame.height) != (video.coded_width_px, video.coded_height_px):
        raise UnsupportedMediaError(
            f"{path} changes from {video.coded_width_px}x{video.coded_height_px} to {frame.width}x{frame.height}",
            "re-encode it to one size",
        )
