"""The only writer of videos: one FFmpeg child takes frames through a pipe and muxes them with the speech."""

import logging
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.errors import SinkError, UsageError
from newsstudio_ditto.media.child import PipedChild
from newsstudio_ditto.media.encode_args import encode_args
from newsstudio_ditto.media.ffmpeg import find_ffmpeg
from newsstudio_ditto.media.finished import check_finished
from newsstudio_ditto.media.partial import partial_path, remove_stale
from newsstudio_ditto.media.tags import provenance_comment

log = logging.getLogger(__name__)

STALL_TIMEOUT_S = 120.0
CLOSE_TIMEOUT_S = 600.0


class FfmpegSink:
    """Writes one mp4; use it as a context manager.

    The file appears under its name only when it is complete and has passed a check: leaving the block
    normally finishes it, leaving it by an exception kills FFmpeg and removes what there is.

    Args:
        output: the mp4 to write; its folder is made if need be, an older file is replaced at the end.
        width: of the frames, even.
        height: of the frames, even.
        speech: the sound file to mux; all of it is taken.
        options: encoder settings; see :func:`~newsstudio_ditto.media.ffmpeg.choose_encoder`.
        metadata: provenance, read back by :func:`~newsstudio_ditto.media.tags.read_provenance`.
        speech_seconds: how long the sound must be in the end; ``None`` only asks that there is some.
        ffmpeg: the program; ``None`` looks for it.
        stall_timeout_s: FFmpeg is killed when it takes no byte for this long.
        close_timeout_s: FFmpeg is killed when it does not end this long after the last frame.
        check: called with the complete file before it gets its name; what it raises throws the file away.

    Raises:
        UsageError: for odd sizes or an output that is not an ``.mp4``.
    """

    def __init__(
        self,
        output: Path,
        *,
        width: int,
        height: int,
        speech: Path,
        options: EncodeOptions,
        metadata: dict[str, str],
        speech_seconds: float | None = None,
        ffmpeg: Path | None = None,
        stall_timeout_s: float = STALL_TIMEOUT_S,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
        check: Callable[[Path], None] | None = None,
    ) -> None:
        """Check the arguments; FFmpeg starts on entering the block."""
        if width < 2 or height < 2 or width % 2 or height % 2:
            raise UsageError(f"the frames are {width}x{height}", "give an even width and height")
        if output.suffix.lower() != ".mp4":
            raise UsageError(f"{output} is not an mp4 file name", "give an output that ends with .mp4")
        self.output = output
        self.num_frames = 0
        self._width, self._height = width, height
        self._speech_seconds = speech_seconds
        self._timeouts = stall_timeout_s, close_timeout_s
        self._check = check
        self._partial = partial_path(output)
        self._argv = [
            str(ffmpeg or find_ffmpeg()),
            *encode_args(
                width=width,
                height=height,
                speech=speech,
                output=self._partial,
                options=options,
                comment=provenance_comment(metadata),
            ),
        ]
        self._child: PipedChild | None = None

    def __enter__(self) -> Self:
        """Start FFmpeg.

        Raises:
            SinkError: when the folder cannot be written, or FFmpeg not started.
        """
        if self.output.is_dir():
            raise SinkError(f"{self.output} is a folder", "give the name of a file")
        try:
            self.output.parent.mkdir(parents=True, exist_ok=True)
            remove_stale(self.output)
            with tempfile.TemporaryFile(dir=self.output.parent):
                pass  # proves that the folder can be written, before FFmpeg says so in its own words
        except OSError as error:
            raise SinkError(
                f"{self.output.parent} cannot be written: {error.strerror}", "choose another folder"
            ) from error
        self._child = PipedChild(self._argv)
        return self

    def write(self, frame: NDArray[np.uint8]) -> None:
        """Write one frame; returns when FFmpeg has taken it, so the array may be reused at once.

        Args:
            frame: (height * width * 3 // 2,) uint8, planar YUV 4:2:0, bt709, limited range.

        Raises:
            SinkError: when FFmpeg has ended or takes nothing more.
            ValueError: for a frame of another size or type.
        """
        expected = self._width * self._height * 3 // 2
        if frame.dtype != np.uint8 or frame.size != expected:
            raise ValueError(f"frame: expected {expected} uint8 values, got {frame.size} of {frame.dtype}")
        if self._child is None:
            raise SinkError(f"{self.output} is not open for writing", "write inside the with block")
        self._child.write(np.ascontiguousarray(frame).reshape(-1).data, stall_timeout_s=self._timeouts[0])
        self.num_frames += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the video, or throw it away when the block failed.

        Raises:
            SinkError: when FFmpeg fails, hangs, or the finished file is not what was written.
        """
        child, self._child = self._child, None
        if child is None:
            return
        try:
            if error is None:
                self._finish(child)
        finally:
            child.kill()
            self._partial.unlink(missing_ok=True)

    def _finish(self, child: PipedChild) -> None:
        if not self.num_frames:
            raise SinkError(f"not one frame was written to {self.output}", "check the speech and the packet")
        child.finish(close_timeout_s=self._timeouts[1])
        with ThreadPoolExecutor(1, thread_name_prefix="video-sync") as pool:
            # The disk takes the file while it is looked at.
            synced = pool.submit(_sync, self._partial)
            self._look()
            try:
                synced.result()
                self._partial.replace(self.output)
            except OSError as error:
                raise SinkError(
                    f"{self.output} cannot be given its name: {error.strerror}",
                    "look at the folder, then render again",
                ) from error
        log.info("wrote video", extra={"num_frames": self.num_frames, "num_bytes": self.output.stat().st_size})

    def _look(self) -> None:
        check_finished(
            self._partial,
            num_frames=self.num_frames,
            size=(self._width, self._height),
            speech_seconds=self._speech_seconds,
        )
        if self._check is not None:
            self._check(self._partial)


def _sync(path: Path) -> None:
    with path.open("rb+") as written:
        os.fsync(written.fileno())
