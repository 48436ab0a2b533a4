"""Opening media files with PyAV: local files only, hostile names included, failures typed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream as AvVideoStream

from newsstudio_ditto.errors import MediaError, UnsupportedMediaError

# Formats that are scripts pointing at other files, or that draw pictures of any text.
_REFUSED_FORMATS = frozenset({"hls", "dash", "concat", "sdp", "rtsp", "imf", "tty", "lavfi", "ffmetadata"})
_REFUSED_BRANDS = frozenset({"heic", "heix", "heim", "heis", "mif1", "msf1"})
_OPTIONS = {"protocol_whitelist": "file", "pattern_type": "none"}
# Otherwise FFmpeg decodes some frames to learn what the header of an mp4 says anyway: tens of milliseconds.
_HEADER_OPTIONS = {**_OPTIONS, "probesize": "32", "skip_frame": "all"}
# Tags that are not UTF-8 must not stop a file from being opened.
_LENIENT = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}


@contextmanager
def open_container(path: Path, *, header_only: bool = False) -> Iterator[InputContainer]:
    """Open a local media file for reading.

    Args:
        path: any file name; ``%03d`` or ``a:b`` in it mean nothing.
        header_only: believe the header, and decode nothing, not even later; for an mp4 that is read packet by packet.

    Raises:
        MediaError: when the file is missing, empty or not a media file.
        UnsupportedMediaError: for playlists, text and HEIC pictures.
    """
    _require_file(path)
    try:
        # A colon or a leading dash would otherwise be read as a protocol or an option.
        options = _HEADER_OPTIONS if header_only else _OPTIONS
        container = av.open(f"file:{path}", options=options, **_LENIENT)
    except (av.FFmpegError, UnicodeError) as error:
        raise MediaError(
            f"{path} cannot be opened as a media file: {describe_error(error)}",
            "give a video, a picture or a sound file that other players open",
        ) from error
    with container:
        _require_format(path, container)
        yield container


def read_tags(container: InputContainer) -> dict[str, str]:
    """What the file says of itself, as text that can be printed: bytes that are not UTF-8 become replacement marks."""
    # PyAV 19 hands such bytes on as lone surrogates.
    return {
        name: text.encode(errors="surrogateescape").decode(errors="replace")
        for name, text in container.metadata.items()
    }


def picture_stream(container: InputContainer) -> AvVideoStream | None:
    """The first video stream that is not an attached cover, or ``None``."""
    return next((stream for stream in container.streams.video if not is_cover(stream)), None)


def is_cover(stream: AvVideoStream) -> bool:
    """Whether a video stream is only the cover of a sound file."""
    return bool(stream.disposition & Disposition.attached_pic)


def is_still(container_format: str) -> bool:
    """Whether a container format holds one picture."""
    return container_format == "image2" or container_format.endswith("_pipe")


def describe_error(error: Exception) -> str:
    """FFmpeg's own words for an error, without numbers and paths."""
    return str(getattr(error, "strerror", None) or error)


def _require_file(path: Path) -> None:
    if not path.exists():
        raise MediaError(f"{path} does not exist", "check the path")
    if not path.is_file():
        raise MediaError(f"{path} is not a file", "give the path of a video, picture or sound file")
    if path.stat().st_size == 0:
        raise MediaError(f"{path} is empty (0 bytes)", "copy or download it again")


def _require_format(path: Path, container: InputContainer) -> None:
    names = set(container.format.name.split(","))
    if names & _REFUSED_FORMATS:
        raise UnsupportedMediaError(
            f"{path} is a playlist or a text, not a media file ({container.format.name})",
            "give the video, picture or sound file itself",
        )
    if container.metadata.get("major_brand", "").strip() in _REFUSED_BRANDS:
        raise UnsupportedMediaError(f"{path} is an HEIC picture", "convert it to JPEG or PNG")
