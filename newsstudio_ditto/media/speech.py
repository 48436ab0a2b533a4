"""Speech as samples: any sound file becomes 16 kHz mono."""

import logging
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.errors import EmptyAudioError, FfmpegError, MediaError, UnsupportedMediaError
from newsstudio_ditto.media.encode_args import speech_args
from newsstudio_ditto.media.ffmpeg import find_ffmpeg, last_line, read_end
from newsstudio_ditto.media.probe import probe_sound
from newsstudio_ditto.units import SAMPLE_RATE_HZ

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 1800.0
_CHECKED_SAMPLES = 1 << 20


def read_speech(path: Path, *, ffmpeg: Path | None = None, timeout_s: float = READ_TIMEOUT_S) -> NDArray[np.float32]:
    """Decode the first audio stream of a file; its length is what was decoded, not what a header says.

    Args:
        path: a sound file, or a video with sound.
        ffmpeg: the program; ``None`` looks for it.
        timeout_s: FFmpeg is killed after this long.

    Returns:
        (samples,) float32, 16 kHz, mono, nominally -1..1; pages of a temporary file that vanishes with the array, so
        that a long speech takes no private memory.

    Raises:
        EmptyAudioError: when there is not one sample.
        UnsupportedMediaError: when samples are NaN or infinite.
        MediaError: when the file is missing, broken, or has no sound.
        FfmpegError: when FFmpeg is missing or hangs.
    """
    if path.is_file() and path.stat().st_size == 0:
        raise EmptyAudioError(f"{path} is empty (0 bytes)", "record or export the speech again")
    if probe_sound(path) is None:
        raise MediaError(f"{path} holds no sound", "give a sound file, or a video with sound")
    samples = _decode(path, ffmpeg or find_ffmpeg(), timeout_s)
    if not samples.size:
        raise EmptyAudioError(f"{path} holds not a single audio sample", "record or export the speech again")
    for start in range(0, samples.size, _CHECKED_SAMPLES):
        finite = np.isfinite(samples[start : start + _CHECKED_SAMPLES])
        if not finite.all():
            second = (start + int(np.argmin(finite))) / SAMPLE_RATE_HZ
            raise UnsupportedMediaError(
                f"{path} holds samples that are no numbers (NaN or infinite), first at {second:.3f} s",
                "export the speech again, as 16-bit WAV",
            )
    return samples


def _decode(path: Path, ffmpeg: Path, timeout_s: float) -> NDArray[np.float32]:
    argv = [str(ffmpeg), *speech_args(path)]
    # Files in place of pipes: an hour of speech is then in memory once, and FFmpeg never waits for a reader.
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise FfmpegError(f"FFmpeg takes more than {timeout_s:.0f} s to read {path}", "re-encode it") from error
        except OSError as error:
            raise FfmpegError(f"{ffmpeg} cannot be started: {error.strerror}", "install ffmpeg") from error
        complaints = read_end(stderr)
        num_samples = stdout.seek(0, os.SEEK_END) // np.dtype(np.float32).itemsize
        samples = (
            # copy-on-write: nobody writes, but torch takes no array that cannot be written to
            np.memmap(stdout, np.float32, mode="c", shape=(num_samples,)) if num_samples else np.zeros(0, np.float32)
        )
    if done.returncode:
        raise MediaError(f"{path} cannot be decoded: {last_line(complaints)}", "re-encode or copy it again")
    if complaints.strip():
        log.warning("speech has flaws", extra={"file_name": path.name, "complaint": last_line(complaints)})
    return samples
