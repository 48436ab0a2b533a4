"""Finding FFmpeg and proving that an encoder works before anything depends on it."""

import dataclasses
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO, NamedTuple

import imageio_ffmpeg

from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.errors import FfmpegError
from newsstudio_ditto.media.encode_args import preflight_args

log = logging.getLogger(__name__)

SOFTWARE_ENCODER = "libx264"
AUTO = "auto"
"""Stands for the first of :data:`AUTO_ENCODERS` that works here, else libx264."""

AUTO_ENCODERS = ("h264_nvenc", "h264_videotoolbox", "h264_amf")
"""Hardware encoders that take planar YUV 4:2:0 as it is."""

_HARDWARE_SUFFIXES = ("_nvenc", "_qsv", "_vaapi", "_amf", "_videotoolbox", "_v4l2m2m", "_vulkan", "_mf", "_omx")
_PREFLIGHT_TIMEOUT_S = 60.0
_MAX_STDERR_BYTES = 1 << 16
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
    program = ffmpeg or find_ffmpeg()
    if _Proof.of(program, encoder) in _proven:
        return
    argv = [str(program), *preflight_args(encoder, side_px=_TRIAL_SIDE_PX)]
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
        complaint = last_line(read_end(stderr))
    if done.returncode:
        raise FfmpegError(f"FFmpeg cannot encode with {encoder}: {complaint}", f"use --encoder {SOFTWARE_ENCODER}")
    _proven.add(_Proof.of(program, encoder))


def choose_encoder(options: EncodeOptions, *, ffmpeg: Path | None = None) -> EncodeOptions:
    """Options whose encoder works here: a hardware encoder that does not is replaced by libx264, with a notice.

    What worked once is not tried again in this process, until the program file changes.

    Args:
        options: what was asked for; ``auto`` takes a hardware encoder if one works.
        ffmpeg: the program; ``None`` looks for it.

    Raises:
        FfmpegError: when a software encoder does not work.
    """
    if options.encoder == AUTO:
        return dataclasses.replace(options, encoder=_best_encoder(ffmpeg or find_ffmpeg()))
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


class _Proof(NamedTuple):
    """That an encoder worked with one version of a program file."""

    program: str
    changed_ns: int
    encoder: str

    @classmethod
    def of(cls, program: Path, encoder: str) -> "_Proof":
        changed_ns = program.stat().st_mtime_ns if program.is_file() else 0
        return cls(str(program), changed_ns, encoder)


_proven: set[_Proof] = set()
_chosen: dict[_Proof, str] = {}


def _best_encoder(program: Path) -> str:
    key = _Proof.of(program, AUTO)
    if key not in _chosen:
        _chosen[key] = next((name for name in AUTO_ENCODERS if _works(name, program)), SOFTWARE_ENCODER)
        log.info("chose an encoder", extra={"encoder": _chosen[key]})
    preflight(_chosen[key], ffmpeg=program)
    return _chosen[key]


def _works(encoder: str, program: Path) -> bool:
    try:
        preflight(encoder, ffmpeg=program)
    except FfmpegError as error:
        log.debug("an encoder does not work here", extra={"encoder": encoder, "reason": error.what})
        return False
    return True


def read_end(stderr: IO[bytes]) -> bytes:
    """The last 64 KiB of what FFmpeg wrote, however much that was."""
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(size - _MAX_STDERR_BYTES, 0))
    return stderr.read()


def last_line(stderr: bytes) -> str:
    """The last line with words in what FFmpeg wrote, or a placeholder."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    return next((line for line in reversed(lines) if line), "it gave no reason")
