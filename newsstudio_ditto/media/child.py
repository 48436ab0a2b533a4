"""A child process that is fed through a pipe and can neither block us for ever, nor outlive us, nor fill the disk."""

import fcntl
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from newsstudio_ditto.errors import SinkError
from newsstudio_ditto.media.ffmpeg import last_line, read_end

_PIPE_BYTES = 1 << 20
_FLOOD_BYTES = 1 << 24
_LOOK_S = 0.25


class PipedChild:
    """FFmpeg with a pipe to its stdin; stderr goes to a file of bounded size, since an unread pipe can stall it.

    Args:
        argv: program and arguments.

    Raises:
        SinkError: when the program cannot be started.
    """

    def __init__(self, argv: list[str]) -> None:
        """Start the child."""
        self._name = Path(argv[0]).name
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill()
        _append_only(self._stderr.fileno())
        try:
            # A session of its own: Ctrl-C reaches us alone, and kill() reaches all that the child started.
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._stderr.close()
            raise SinkError(f"{argv[0]} cannot be started: {error.strerror}", "install ffmpeg") from error
        assert self._process.stdin is not None, "asked for a pipe"
        self._stdin = self._process.stdin
        os.set_blocking(self._stdin.fileno(), False)
        _enlarge_pipe(self._stdin.fileno())
        self._exit = _open_exit(self._process.pid)

    def write(self, chunk: memoryview, *, stall_timeout_s: float) -> None:
        """Send bytes; returns when all are in the pipe.

        Raises:
            SinkError: when the child has ended, or takes no byte for ``stall_timeout_s``.
        """
        poll = select.poll()
        poll.register(self._stdin.fileno(), select.POLLOUT)
        while chunk:
            if not takes_bytes(poll, stall_timeout_s, self._cut_flood):
                self.kill_group()
                raise SinkError(
                    f"{self._name} took no frame for {stall_timeout_s:.0f} s: {self._complaint()}",
                    "look at the load and the disk of this machine, then render again",
                )
            try:
                sent = os.write(self._stdin.fileno(), chunk)
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise self._ended(self._wait(stall_timeout_s)) from error
            chunk = chunk[sent:]

    def finish(self, *, close_timeout_s: float) -> None:
        """Close the pipe and wait for a good end.

        Raises:
            SinkError: when the child ends with another status than 0, or not within ``close_timeout_s``.
        """
        self._close_stdin()
        status = self._wait(close_timeout_s)
        if status:
            raise self._ended(status)

    def kill(self) -> None:
        """Kill the child if it still runs, and let go of everything. Can be called again."""
        self.kill_group()
        self._close_stdin()
        self._process.wait()
        self._stderr.close()
        if self._exit is not None:
            os.close(self._exit)
            self._exit = None

    def kill_group(self) -> None:
        """Kill the child and all that it started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _wait(self, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while not self._ends_within(max(min(deadline - time.monotonic(), _LOOK_S), 0)):
            self._cut_flood()
            if time.monotonic() >= deadline:
                self.kill_group()
                raise SinkError(
                    f"{self._name} did not end within {timeout_s:.0f} s: {self._complaint()}",
                    "look at the load and the disk of this machine, then render again",
                )
        return self._process.wait()

    def _ends_within(self, seconds: float) -> bool:
        if self._exit is None:
            try:
                self._process.wait(seconds)  # looks only every 50 ms
            except subprocess.TimeoutExpired:
                return False
            return True
        poll = select.poll()
        poll.register(self._exit, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _ended(self, status: int) -> SinkError:
        how = f"was killed by signal {-status}" if status < 0 else f"exited with {status}"
        return SinkError(
            f"{self._name} {how}: {self._complaint()}", "check the encoder options and the free space of the disk"
        )

    def _cut_flood(self) -> None:
        """Keep no more than the end of the complaints once they are many; nothing else of them is ever read."""
        if os.fstat(self._stderr.fileno()).st_size > _FLOOD_BYTES:
            end = read_end(self._stderr)
            os.ftruncate(self._stderr.fileno(), 0)
            os.write(self._stderr.fileno(), end)

    def _complaint(self) -> str:
        return last_line(read_end(self._stderr))

    def _close_stdin(self) -> None:
        if not self._stdin.closed:
            self._stdin.close()


def takes_bytes(poll: select.poll, timeout_s: float, look: Callable[[], None]) -> bool:
    """Wait until a pipe takes bytes, and say whether it does in time; ``look`` is called meanwhile, and may raise."""
    deadline = time.monotonic() + timeout_s
    while True:
        left_s = deadline - time.monotonic()
        is_ready = bool(poll.poll(max(min(left_s, _LOOK_S), 0) * 1000))
        look()
        if is_ready or left_s <= _LOOK_S:
            return is_ready


def _open_exit(pid: int) -> int | None:
    """A descriptor that becomes readable when a process ends; None where the system has no such thing."""
    open_process = getattr(os, "pidfd_open", None)
    if open_process is None:
        return None
    try:
        descriptor: int = open_process(pid)
    except OSError:
        return None  # an old kernel, or one that forbids it
    return descriptor


def _append_only(descriptor: int) -> None:
    """Let every write go to the end, wherever that is after the file was cut."""
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)


def _enlarge_pipe(descriptor: int) -> None:
    """Fewer switches between the processes for each frame, where the system allows it."""
    resize = getattr(fcntl, "F_SETPIPE_SZ", None)
    if resize is None:
        return
    try:
        fcntl.fcntl(descriptor, resize, _PIPE_BYTES)
    except PermissionError:
        return  # the user's pipe quota is used up; the default size works too
