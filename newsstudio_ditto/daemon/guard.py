"""Files of strangers go through an FFmpeg with limits on time, memory and output, before anything else reads them."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from newsstudio_ditto.daemon.problems import RequestError
from newsstudio_ditto.daemon.settings import UploadLimits
from newsstudio_ditto.errors import EmptyAudioError, FfmpegError, MediaError
from newsstudio_ditto.media.encode_args import file_url
from newsstudio_ditto.media.ffmpeg import find_ffmpeg, last_line

log = logging.getLogger(__name__)

SPEECH_SUFFIXES = frozenset({".wav", ".mp3", ".m4a", ".aac", ".ogg", ".oga", ".opus", ".flac", ".webm", ".mp4", ".mov"})
ANCHOR_SUFFIXES = frozenset({".mp4", ".mov", ".mkv", ".webm", ".avi", ".png", ".jpg", ".jpeg", ".webp", ".bmp"})

SPEECH_RATE_HZ = 48_000
_SPEECH_BYTES_PER_S = 2 * 2 * SPEECH_RATE_HZ
_WAV_HEADER_BYTES = 4096
_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,wav,mp3,aac,ogg,flac,image2,png_pipe,jpeg_pipe,webp_pipe,bmp_pipe,mpegts"
)
_THREADS = "2"

# A child sets its own limits and then becomes FFmpeg: setting them between fork and exec is unsafe with threads.
_LIMITED = """
import os, resource, sys
memory, seconds, size = map(int, sys.argv[1:4])
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.execv(sys.argv[4], sys.argv[4:])
"""


def require_suffix(name: str | None, allowed: frozenset[str]) -> str:
    """The suffix of an uploaded file's name, in lower case.

    Raises:
        RequestError: 415, a kind that is not taken.
    """
    suffix = Path(name or "").suffix.lower()
    if suffix not in allowed:
        raise RequestError(
            415, f"files of kind {suffix[:12]!r} are not taken", f"give one of {' '.join(sorted(allowed))}"
        )
    return suffix


def read_strange_speech(source: Path, target: Path, limits: UploadLimits) -> float:
    """Decode the sound of ``source`` into the 16-bit WAV ``target``, and return its seconds.

    Raises:
        RequestError: 413, it is too long.
        MediaError: it cannot be decoded within the limits, or holds no sound.
    """
    args = ["-map", "a:0", "-vn", "-sn", "-dn", "-t", f"{limits.speech_s + 1:.3f}"]
    args += ["-ac", "2", "-ar", str(SPEECH_RATE_HZ), "-c:a", "pcm_s16le", "-map_metadata", "-1"]
    size = int((limits.speech_s + 2) * _SPEECH_BYTES_PER_S) + _WAV_HEADER_BYTES
    _decode(source, [*args, "-f", "wav", file_url(target)], limits, file_bytes=size)
    seconds = max(target.stat().st_size - _WAV_HEADER_BYTES, 0) / _SPEECH_BYTES_PER_S if target.exists() else 0.0
    if seconds > limits.speech_s:
        raise RequestError(413, f"the speech is longer than {limits.speech_s:g} s", "cut it into parts")
    if not target.exists() or target.stat().st_size <= 128:
        raise EmptyAudioError("the speech holds not a single audio sample", "record or export it again")
    return seconds


def try_strange_anchor(source: Path, limits: UploadLimits) -> None:
    """Decode every picture of ``source`` once and throw it away: what follows may then decode it without limits.

    Raises:
        RequestError: 413, it is too long.
        MediaError: it cannot be decoded within the limits, or holds no picture.
    """
    # One frame more than the limit: FFmpeg ends well, and says how many there were.
    most_frames = int(limits.anchor_s * 60) + 1
    args = ["-map", "v:0", "-an", "-sn", "-dn", "-t", f"{limits.anchor_s + 1:.3f}", "-frames:v", str(most_frames)]
    progress = _decode(source, [*args, "-progress", "pipe:1", "-f", "null", "-"], limits, file_bytes=1 << 20)
    facts = dict(line.split("=", 1) for line in progress.splitlines() if "=" in line)
    frames = int(facts.get("frame", "0") or 0)
    microseconds = facts.get("out_time_us", "0")
    seconds = int(microseconds) / 1e6 if microseconds.lstrip("-").isdigit() else 0.0
    if frames == 0:
        raise MediaError("the file holds no picture that can be decoded", "give a video clip or a picture")
    if frames >= most_frames or seconds > limits.anchor_s:
        raise RequestError(413, f"the clip is longer than {limits.anchor_s:g} s", "cut it; half a minute is plenty")


def _decode(source: Path, args: list[str], limits: UploadLimits, *, file_bytes: int) -> str:
    """Run FFmpeg on a strange file within the limits and return its stdout."""
    reading = ["-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-protocol_whitelist", "file,pipe"]
    reading += ["-format_whitelist", _FORMATS, "-max_pixels", str(limits.pixels), "-threads", _THREADS]
    argv = [sys.executable, "-I", "-S", "-c", _LIMITED, str(limits.decode_bytes), str(int(limits.decode_s) + 1)]
    argv += [str(file_bytes), str(find_ffmpeg()), *reading, "-i", file_url(source), *args]
    started = time.monotonic()
    with tempfile.TemporaryFile() as stderr, tempfile.TemporaryFile() as stdout:
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
            )
        except OSError as error:
            raise FfmpegError("FFmpeg cannot be started", "install ffmpeg") from error
        try:
            status = child.wait(limits.decode_s)
        except subprocess.TimeoutExpired as error:
            raise MediaError("the file takes too long to decode", "re-encode it, or give a shorter one") from error
        finally:
            _kill(child)
        stderr.seek(0)
        complaint = last_line(stderr.read(1 << 16))
        stdout.seek(0)
        answer = stdout.read(1 << 20).decode("utf-8", "replace")
    log.info("decoded an upload", extra={"status": status, "seconds": time.monotonic() - started})
    if status:
        log.warning("upload refused", extra={"status": status, "complaint": complaint})
        raise MediaError("the file cannot be decoded within the limits", "re-encode it, for example as MP4 or WAV")
    return answer


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
