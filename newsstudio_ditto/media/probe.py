"""Facts of a media file, read with PyAV."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
from av.container import InputContainer
from av.video.stream import VideoStream as AvVideoStream

from newsstudio_ditto.errors import MediaError, UnsupportedMediaError
from newsstudio_ditto.media.colour import has_alpha
from newsstudio_ditto.media.container import (
    describe_error,
    is_cover,
    is_still,
    open_container,
    picture_stream,
    read_tags,
)
from newsstudio_ditto.media.exif import read_exif_orientation
from newsstudio_ditto.media.facts import AudioFacts, ColourTags, MediaFacts, VideoFacts
from newsstudio_ditto.media.orientation import UPRIGHT, Orientation, orientation_of_turn, parse_display_matrix

MAX_PIXELS = 2**27
_MAX_PIXEL_ASPECT = 4


def probe(path: Path) -> MediaFacts:
    """Read what a media file says about itself; one frame is decoded, since the turn is known only then.

    Args:
        path: any local media file.

    Raises:
        MediaError: when it is missing, empty, broken, or shows no frame.
        UnsupportedMediaError: for formats that are refused on purpose.
    """
    with open_container(path) as container:
        covers = [stream for stream in container.streams.video if is_cover(stream)]
        stream = picture_stream(container)
        return MediaFacts(
            path=path,
            container=container.format.name,
            duration_s=container.duration / av.time_base if container.duration else None,
            video=_video_facts(path, container, stream) if stream else None,
            audio=_audio_facts(container),
            num_video_streams=len(container.streams.video) - len(covers),
            num_audio_streams=len(container.streams.audio),
            has_cover=bool(covers),
            tags=read_tags(container),
        )


def probe_sound(path: Path) -> AudioFacts | None:
    """Facts of the first audio stream without decoding anything, or ``None`` when there is no sound.

    Raises:
        MediaError: when the file is missing, empty or broken.
    """
    with open_container(path) as container:
        return _audio_facts(container)


def require_picture(facts: MediaFacts) -> VideoFacts:
    """The picture stream of a file.

    Raises:
        MediaError: when there is none, naming what there is.
    """
    if facts.video is None:
        what = "only sound" if facts.audio else "neither picture nor sound"
        what += " and a cover picture" if facts.has_cover else ""
        raise MediaError(f"{facts.path} holds {what}", "give a video clip or a picture as the anchor")
    return facts.video


def _audio_facts(container: InputContainer) -> AudioFacts | None:
    for stream in container.streams.audio:
        context = stream.codec_context
        duration = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else None
        return AudioFacts(context.name, context.sample_rate, context.channels, duration)
    return None


def _video_facts(path: Path, container: InputContainer, stream: AvVideoStream) -> VideoFacts:
    context = stream.codec_context
    _require_sane_size(path, context.width, context.height)
    if stream.metadata.get("alpha_mode") == "1":
        raise UnsupportedMediaError(
            f"{path} is a WebM clip with transparency, which the {context.name} decoder drops",
            "convert it to ProRes 4444, or lay it over a background",
        )
    frame = _first_frame(path, container, stream)
    _require_sane_size(path, frame.width, frame.height)
    orientation = _orientation(path, container, frame)
    aspect = _pixel_aspect(path, stream)
    width, height = orientation.size(*square_pixels(frame.width, frame.height, aspect))
    return VideoFacts(
        stream_index=stream.index,
        codec=context.name,
        pixel_format=frame.format.name,
        coded_width_px=frame.width,
        coded_height_px=frame.height,
        width_px=width,
        height_px=height,
        orientation=orientation,
        sample_aspect=aspect,
        fps=Fraction(stream.average_rate) if stream.average_rate else None,
        header_frames=stream.frames or None,
        colour=_colour_tags(frame, stream),
        has_alpha=has_alpha(frame),
        interlaced=frame.interlaced_frame,
    )


def square_pixels(width_px: int, height_px: int, aspect: Fraction) -> tuple[int, int]:
    """The size with square pixels: the side that is too short is stretched, so that no detail is lost."""
    if aspect >= 1:
        return max(round(width_px * aspect), 1), height_px
    return width_px, max(round(height_px / aspect), 1)


def _first_frame(path: Path, container: InputContainer, stream: AvVideoStream) -> av.VideoFrame:
    try:
        for packet in container.demux(stream):
            try:
                frames = stream.decode(packet)
            except av.InvalidDataError:
                continue  # clips cut out of a stream begin with packets that cannot be decoded
            for frame in frames:
                return frame
    except av.FFmpegError as error:
        raise MediaError(f"{path} cannot be decoded: {describe_error(error)}", "re-encode or copy it again") from error
    raise MediaError(f"{path} holds no picture that can be decoded", "re-encode or copy it again")


def _orientation(path: Path, container: InputContainer, frame: av.VideoFrame) -> Orientation:
    if is_still(container.format.name):
        return read_exif_orientation(path)
    try:
        sides = cast(Mapping[str, bytes], frame.side_data)
    except ValueError:  # PyAV refuses to list what is newer than itself
        return orientation_of_turn(frame.rotation)
    return parse_display_matrix(bytes(sides["DISPLAYMATRIX"])) if "DISPLAYMATRIX" in sides else UPRIGHT


def _pixel_aspect(path: Path, stream: AvVideoStream) -> Fraction:
    aspect = Fraction(stream.sample_aspect_ratio or stream.codec_context.sample_aspect_ratio or 1)
    if not Fraction(1, _MAX_PIXEL_ASPECT) <= aspect <= _MAX_PIXEL_ASPECT:
        raise UnsupportedMediaError(f"{path} is tagged with pixels of shape {aspect}", "re-encode with square pixels")
    return aspect


def _colour_tags(frame: av.VideoFrame, stream: AvVideoStream) -> ColourTags:
    context = stream.codec_context
    ranges = {1: False, 2: True}
    return ColourTags(
        matrix=int(frame.colorspace),
        primaries=int(context.color_primaries),
        transfer=int(context.color_trc),
        full_range=ranges.get(int(frame.color_range)),
    )


def _require_sane_size(path: Path, width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise UnsupportedMediaError(f"{path} is {width}x{height} pixels large", "shrink it to 8192 a side or less")
