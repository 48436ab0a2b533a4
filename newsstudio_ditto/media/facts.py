"""What a media file says about itself."""

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from newsstudio_ditto.media.orientation import Orientation


@dataclass(frozen=True)
class ColourTags:
    """Colour tags as FFmpeg's numbers (ITU-T H.273); 2 means unspecified.

    Args:
        matrix: from YUV to RGB.
        primaries: chromaticities.
        transfer: the curve; 16 is PQ, 18 is HLG.
        full_range: whether luma fills 0..255; ``None`` when untagged.
    """

    matrix: int
    primaries: int
    transfer: int
    full_range: bool | None


@dataclass(frozen=True)
class VideoFacts:
    """The first picture stream that is not a cover.

    Args:
        stream_index: its index in the container.
        codec: decoder name.
        pixel_format: FFmpeg's name.
        coded_width_px: as stored.
        coded_height_px: as stored.
        width_px: upright and with square pixels.
        height_px: upright and with square pixels.
        orientation: how the stored picture must be turned.
        sample_aspect: width over height of a stored pixel.
        fps: average rate; ``None`` for stills or when unknown.
        header_frames: frames that the header promises; ``None`` when it says nothing.
        colour: colour tags.
        has_alpha: whether pixels carry transparency.
        interlaced: whether the first frame consists of two fields.
    """

    stream_index: int
    codec: str
    pixel_format: str
    coded_width_px: int
    coded_height_px: int
    width_px: int
    height_px: int
    orientation: Orientation
    sample_aspect: Fraction
    fps: Fraction | None
    header_frames: int | None
    colour: ColourTags
    has_alpha: bool
    interlaced: bool


@dataclass(frozen=True)
class AudioFacts:
    """The first audio stream.

    Args:
        codec: decoder name.
        sample_rate_hz: as stored.
        num_channels: as stored.
        duration_s: from the header, so it can be wrong; ``None`` when it says nothing.
    """

    codec: str
    sample_rate_hz: int
    num_channels: int
    duration_s: float | None


@dataclass(frozen=True)
class MediaFacts:
    """One media file.

    Args:
        path: the file.
        container: FFmpeg's name of the container format.
        duration_s: from the header, so it can be wrong; ``None`` when it says nothing.
        video: the picture stream; ``None`` for sound only, covers included.
        audio: the sound stream, if any.
        num_video_streams: without covers.
        num_audio_streams: all.
        has_cover: whether a cover picture is attached.
        tags: metadata of the container.
    """

    path: Path
    container: str
    duration_s: float | None
    video: VideoFacts | None
    audio: AudioFacts | None
    num_video_streams: int
    num_audio_streams: int
    has_cover: bool
    tags: dict[str, str] = field(default_factory=dict)
