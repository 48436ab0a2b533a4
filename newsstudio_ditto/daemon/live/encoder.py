"""Frames and sound become fragmented MP4 while they are made, through one FFmpeg child."""

import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from newsstudio_ditto.errors import SinkError
from newsstudio_ditto.media.child import takes_bytes
from newsstudio_ditto.media.ffmpeg import find_ffmpeg, last_line
from newsstudio_ditto.units import FRAME_RATE_HZ, SAMPLE_RATE_HZ

OnBytes = Callable[[bytes], None]

STALL_TIMEOUT_S = 30.0
_READ_BYTES = 1 << 16
_SOUND_RATE_HZ = 48_000  # AAC packets of 21 ms; at 16 kHz they would last 64 ms
_KEY_FRAMES = FRAME_RATE_HZ


def live_args(*, width: int, height: int, sound_pipe: int) -> list[str]:
    """FFmpeg's arguments, program name excluded: frames from stdin, sound from another pipe, fragments to stdout.

    Args:
        width: of the frames, planar YUV 4:2:0, bt709, limited range, 25 a second.
        height: of the frames.
        sound_pipe: number of the descriptor that 16-bit mono sound of 16 kHz comes from.
    """
    at_once = ["-probesize", "32", "-analyzeduration", "0", "-thread_queue_size", "64"]
    frames = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{width}x{height}", "-r", str(FRAME_RATE_HZ)]
    sound = ["-f", "s16le", "-ar", str(SAMPLE_RATE_HZ), "-ac", "1"]
    tags = "setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709"
    picture = ["-vf", tags, "-c:v", "libx264", "-profile:v", "baseline", "-preset", "veryfast", "-tune", "zerolatency"]
    picture += ["-crf", "21", "-g", str(_KEY_FRAMES), "-bf", "0", "-pix_fmt", "yuv420p"]
    return [
        *("-hide_banner", "-loglevel", "error", "-nostdin"),
        *(*at_once, *frames, "-i", "pipe:0"),
        *(*at_once, *sound, "-i", f"pipe:{sound_pipe}"),
        *("-map", "0:v", "-map", "1:a", *picture),
        *("-c:a", "aac", "-b:a", "96k", "-ar", str(_SOUND_RATE_HZ), "-flags:a", "+low_delay"),
        *("-fps_mode", "passthrough", "-flush_packets", "1", "-max_interleave_delta", "100000"),
        # Without delay_moov the lead-in of AAC would move the picture against the sound.
        *("-movflags", "+empty_moov+default_base_moof+delay_moov", "-frag_duration", str(1_000_000 // FRAME_RATE_HZ)),
        *("-f", "mp4", "pipe:1"),
    ]


class FragmentEncoder:
    """Writes fragmented MP4 to a function; use it as a context manager.

    Args:
        width: of the frames, even.
        height: of the frames, even.
        on_bytes: called in a thread of its own with each piece of the file; may block, which slows the writer down.
        stall_timeout_s: FFmpeg is given up when it takes no byte for this long.
    """

    def __init__(self, *, width: int, height: int, on_bytes: OnBytes, stall_timeout_s: float = STALL_TIMEOUT_S) -> None:
        """Remember; FFmpeg starts on entering the block."""
        self._size, self._on_bytes, self._stall_s = (width, height), on_bytes, stall_timeout_s
        self._reader = threading.Thread(target=self._read, name="fragments", daemon=True)
        self._child: subprocess.Popen[bytes] | None = None
        self._reader_error: BaseException | None = None
        self._mark: float | None = None
        self._marked_s: float | None = None
        self.num_bytes = 0
        self.num_frames = 0

    def __enter__(self) -> Self:
        """Start FFmpeg.

        Raises:
            SinkError: it cannot be started.
        """
        sound_out, self._sound = os.pipe()
        self._stderr = tempfile.TemporaryFile()
        argv = [str(find_ffmpeg()), *live_args(width=self._size[0], height=self._size[1], sound_pipe=sound_out)]
        try:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                pass_fds=(sound_out,),
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._sound)
            self._stderr.close()
            raise SinkError("FFmpeg cannot be started", "install ffmpeg") from error
        finally:
            os.close(sound_out)
        assert self._child.stdin is not None, "asked for a pipe"
        self._picture = self._child.stdin.fileno()
        for pipe in (self._picture, self._sound):
            os.set_blocking(pipe, False)
        self._reader.start()
        return self

    def write(self, frame: npt.NDArray[np.uint8], sound: bytes) -> None:
        """Write one frame (H*W*3//2,) uint8 and its 1280 bytes of sound; both may be reused at once.

        Raises:
            SinkError: FFmpeg has ended, or takes nothing more.
        """
        self._send(self._sound, memoryview(sound))
        self._send(self._picture, np.ascontiguousarray(frame).data)
        self.num_frames += 1

    def mark(self) -> None:
        """Have :meth:`marked_s` tell when the next bytes leave."""
        self._marked_s, self._mark = None, time.monotonic()

    def marked_s(self) -> float | None:
        """``time.monotonic()`` of the first bytes after :meth:`mark`; None if there were none."""
        return self._marked_s

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the file and send what is left of it; after an error FFmpeg is killed."""
        child = self._child
        assert child is not None, "entered before"
        assert child.stdin is not None, "asked for a pipe"
        try:
            child.stdin.close()
            os.close(self._sound)
            if error is None:
                self._finish(child)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            self._reader.join()
            self._stderr.close()

    def _finish(self, child: subprocess.Popen[bytes]) -> None:
        self._reader.join(self._stall_s)
        try:
            status = child.wait(self._stall_s)
        except subprocess.TimeoutExpired as error:
            raise SinkError("FFmpeg did not end", "look at the load of this machine") from error
        if status:
            raise SinkError(f"FFmpeg exited with {status}: {self._complaint()}", "see the daemon's log")
        self._require_reader()

    def _send(self, pipe: int, chunk: memoryview) -> None:
        poll = select.poll()
        poll.register(pipe, select.POLLOUT)
        chunk = chunk.cast("B")
        while chunk:
            if not takes_bytes(poll, self._stall_s, self._require_reader):
                raise SinkError(f"FFmpeg took nothing for {self._stall_s:.0f} s", "the reader is too slow")
            try:
                chunk = chunk[os.write(pipe, chunk) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                if self._reader_error is not None:
                    raise self._reader_error from error
                raise SinkError(f"FFmpeg has ended: {self._complaint()}", "see the daemon's log") from error

    def _require_reader(self) -> None:
        """Raise what ended the reader: an FFmpeg whose output nobody reads any more takes nothing."""
        if self._reader_error is not None:
            raise self._reader_error

    def _read(self) -> None:
        assert self._child is not None, "started before"
        assert self._child.stdout is not None, "asked for a pipe"
        with self._child.stdout as stdout:
            try:
                while piece := os.read(stdout.fileno(), _READ_BYTES):
                    if self._mark is not None and self._marked_s is None:
                        self._marked_s, self._mark = time.monotonic(), None
                    self.num_bytes += len(piece)
                    self._on_bytes(piece)
            except BaseException as error:  # noqa: BLE001 - carried to the writer, who raises it
                self._reader_error = error

    def _complaint(self) -> str:
        self._stderr.seek(0)
        return last_line(self._stderr.read(1 << 16))


def codecs_of(start: bytes) -> str | None:
    """The ``codecs`` parameter of a fragmented MP4, from its first bytes; None until they hold its whole head."""
    place = start.find(b"avcC")
    if start.find(b"moof") < 0 or place < 0:
        return None
    return f"avc1.{start[place + 5 : place + 8].hex()}, mp4a.40.2"
