"""Everything that lives as long as the daemon, and how a request gets at it."""

import fcntl
import hashlib
import hmac
import os
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from newsstudio_ditto.daemon.artifacts import link_anchor
from newsstudio_ditto.daemon.devices import DevicePool
from newsstudio_ditto.daemon.jobs import JobBoard
from newsstudio_ditto.daemon.metrics import Metrics
from newsstudio_ditto.daemon.problems import without_paths
from newsstudio_ditto.daemon.runner import Runner
from newsstudio_ditto.daemon.settings import DaemonSettings
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.packet.store import AvatarStore

COOKIE = "ditto_session"
_DECODERS = 2


class Daemon:
    """One daemon.

    Args:
        settings: of the daemon.
        pool: devices, warm or not yet.
    """

    def __init__(self, settings: DaemonSettings, pool: DevicePool) -> None:
        """Open the records; nothing runs before :meth:`started`."""
        self.settings, self.pool = settings, pool
        self.metrics = Metrics()
        self.board = JobBoard(settings.folder / "jobs.sqlite", jobs_kept=settings.jobs_kept)
        self.runner = Runner(self.board, pool, settings, self.metrics)
        self.decoders = threading.Semaphore(_DECODERS)
        """Held while an upload is decoded."""

    @contextmanager
    def started(self) -> Iterator[None]:
        """Run the workers while the block runs.

        Raises:
            UsageError: another daemon works on the same storage folder.
        """
        with _alone(self.settings.folder):
            store = AvatarStore(self.settings.storage.root)
            for avatar_id in store.list():
                link_anchor(self.settings.storage, avatar_id)
            self.runner.start()
            try:
                yield
            finally:
                self.runner.stop()
                self.board.close()

    def public(self, text: str) -> str:
        """``text`` without the paths of this machine."""
        return without_paths(text, str(self.settings.storage.root), str(self.settings.speeches))

    def cookie(self) -> str:
        """What the cookie of a browser that knows the token holds."""
        return hmac.new((self.settings.token or "").encode(), b"session", hashlib.sha256).hexdigest()

    @contextmanager
    def inbox(self) -> Iterator[tuple[str, Path]]:
        """A new job id and its folder, which is removed if the block fails."""
        job_id = secrets.token_hex(8)
        folder = self.settings.folder / "jobs" / job_id
        folder.mkdir(parents=True)
        try:
            yield job_id, folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another daemon works on {folder.parent}", "stop it, or give another --storage folder"
            ) from error
        yield
    finally:
        os.close(descriptor)


def daemon_of(connection: HTTPConnection) -> Daemon:
    """The daemon behind a request."""
    return cast(Daemon, connection.app.state.daemon)


DaemonOf = Annotated[Daemon, Depends(daemon_of)]
