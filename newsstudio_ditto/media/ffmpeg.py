"""Finding FFmpeg and proving that an encoder works before anything depends on it."""

import dataclasses
import logging
import shutil
import subprocess
import tempfile
from pathlib import Path

import imageio_ffmpeg

from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.errors import FfmpegError
from newsstudio_ditto.media.encode_args import preflight_args

log = logging.getLogger(__name__)

SOFTWARE_ENCODER = "libx264"
_HARDWARE_SUFFIXES = ("_nvenc", "_qsv", "_vaapi", "_amf", "_videotoolbox", "_v4l2m2m", "_vulkan", "_mf", "_omx")
_PREFLIGHT_TIMEOUT_S = 60.0
_TRIAL_SIDE_PX = 256  # hardware encoders refuse much smaller pictures


def find_ffmpeg() -> Path:
    """The FFmpeg program: the one on ``PATH``, else the one that the package imageio-ffmpeg carries.

    Raises:
        FfmpegError: when there is neither.
    """
    found = shutil.which("ffmpeg")
    if found:
        return Path(found)
    try:
        return Path(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise FfmpegError("FFmpeg was not found", "install ffmpeg, or: pip install imageio-ffmpeg") from error


def preflight(encoder: str, *, ffmpeg: Path | None = None) -> None:
    """Encode one small frame with ``encoder`` and AAC sound; being listed by FFmpeg proves nothing.

    Args:
        encoder: FFmpeg's name of a video encoder.
        ffmpeg: the program; ``None`` looks for it.

    Raises:
        FfmpegError: when it does not work, with FFmpeg's last line.
    """
    argv = [str(ffmpeg or find_ffmpeg()), *preflight_args(encoder, side_px=_TRIAL_SIDE_PX)]
    frame = bytes(_TRIAL_SIDE_PX * _TRIAL_SIDE_PX * 3 // 2)
    with tempfile.TemporaryFile() as stderr:
        try:
            done = subprocess.run(
                argv, input=frame, stdout=subprocess.DEVNULL, stderr=stderr, timeout=_PREFLIGHT_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise FfmpegError(f"FFmpeg hangs with encoder {encoder}", "use --encoder libx264") from error
        except OSError as error:
            raise FfmpegError(f"{argv[0]} cannot be started: {error.strerror}", "install ffmpeg") from error
        stderr.seek(0)
        complaint = last_line(stderr.read())
    if done.returncode:
        raise FfmpegError(f"FFmpeg cannot encode with {encoder}: {complaint}", f"use --encoder {SOFTWARE_ENCODER}")


def choose_encoder(options: EncodeOptions, *, ffmpeg: Path | None = None) -> EncodeOptions:
    """Options whose encoder works here: a hardware encoder that does not is replaced by libx264, with a notice.

    Args:
        options: what was asked for.
        ffmpeg: the program; ``None`` looks for it.

    Raises:
        FfmpegError: when a software encoder does not work.
    """
    try:
        preflight(options.encoder, ffmpeg=ffmpeg)
    except FfmpegError as error:
        if not options.encoder.endswith(_HARDWARE_SUFFIXES):
            raise
        log.warning(
            "hardware encoder does not work here; libx264 is used",
            extra={"encoder": options.encoder, "reason": error.what},
        )
        preflight(SOFTWARE_ENCODER, ffmpeg=ffmpeg)
        return dataclasses.replace(options, encoder=SOFTWARE_ENCODER)
    return options


def last_line(stderr: bytes) -> str:
    """The last line with words in what FFmpeg wrote, or a placeholder."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    return next((line for line in reversed(lines) if line), "it gave no reason")
