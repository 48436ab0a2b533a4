"""What runs in processes of their own, to be killed. They are forked from a server that has imported everything once.

A process stops where it is told to: before its n-th change of the file system, or at a step's progress or a log event.
Python announces every change of the file system to audit hooks, so production code needs no hook of ours.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from newsstudio_ditto.api import build_packet, render_video
from newsstudio_ditto.config import PacketOptions, RenderOptions
from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.storage import StorageLayout
from tests.render.tiny import tiny_bundle

torch.set_num_threads(1)
_ = tiny_bundle().audio_encoder  # imports what is imported on first use, once for all processes

CHANGES = frozenset({"os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"})
REFUSED = 3
"""Exit code of a preparation that ends with an error of ours."""

_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Stop:
    """Where to stop.

    Args:
        change: before the n-th change of the file system, from 1; 0 never. The process kills itself there.
        event: at ``step done`` of the preparation, ``frame n`` of a render, or a log message; the process says so and
            waits to be killed.
    """

    change: int = 0
    event: str = ""


class Watch:
    """Counts changes of the file system and waits for events."""

    def __init__(self, root: Path, stop: Stop, parent: Connection) -> None:
        self.root, self.stop, self.parent = str(root), stop, parent
        self.changes: list[str] = []
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        sys.addaudithook(self._audit)
        logging.getLogger("newsstudio_ditto").addHandler(_Listener(self.reach))
        logging.getLogger("newsstudio_ditto").setLevel(logging.INFO)

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        flags = arguments[2] if event == "open" else 0
        is_change = event in CHANGES or (isinstance(flags, int) and bool(flags & (os.O_CREAT | os.O_TRUNC)))
        if not is_change or self.root not in str(arguments[:2]):
            return
        if event == "os.mkdir" and Path(str(arguments[0])).is_dir():
            return
        self.changes.append(f"{event} {arguments[:2]}")
        if len(self.changes) == self.stop.change:
            os.kill(os.getpid(), signal.SIGKILL)

    def reach(self, event: str) -> None:
        """Say where we are, if that is where to stop, and wait for a signal; SIGUSR1 lets it go on."""
        if event == self.stop.event:
            self.parent.send(event)
            signal.sigtimedwait([signal.SIGUSR1], _PATIENCE_S)

    def finish(self) -> None:
        """Tell what was changed."""
        self.parent.send(self.changes)


class _Listener(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        part = Path(str(getattr(record, "path", ""))).stem
        self._tell(f"{record.getMessage()} {part}".strip())


def prepare(parent: Connection, root: Path, clip: Path, model: Path, max_frames: int, stop: Stop) -> None:
    """Prepare avatar anna in this process."""
    watch = Watch(root, stop, parent)
    try:
        build_packet(
            StorageLayout(root),
            clip,
            "anna",
            options=PacketOptions(max_frames=max_frames),
            model=str(model),
            on_stage=lambda step, done, total: watch.reach(f"{step} {done}"),
        )
    except DittoError:
        sys.exit(REFUSED)
    watch.finish()


def render(parent: Connection, root: Path, speech: Path, output: Path, path: str, stop: Stop) -> None:
    """Render anna's packet; ``path`` is put before PATH, for another FFmpeg."""
    os.environ["PATH"] = f"{path}{os.pathsep}{os.environ['PATH']}" if path else os.environ["PATH"]
    watch = Watch(output.parent, stop, parent)
    render_video(
        StorageLayout(root).packet("anna"),
        speech,
        output,
        options=RenderOptions(device="cpu"),
        on_progress=lambda done, total: watch.reach(f"frame {done}"),
    )
    watch.finish()
