"""One preparation at a time for each avatar, whoever starts it: a terminal, the daemon, a queue, or another machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from newsstudio_ditto.errors import PacketError
from newsstudio_ditto.packet.files import try_locked
from newsstudio_ditto.storage import StorageLayout


@contextmanager
def hold_bench(layout: StorageLayout, avatar_id: str, holder: str = "") -> Iterator[None]:
    """Hold an avatar's bench: its anchor, its recipe and its half-made parts are then nobody else's to change.

    The lock is the file system's, so it ends with the process that holds it, however that dies.

    Args:
        layout: where everything lives.
        avatar_id: whose.
        holder: said to whoever comes second; empty names this process.

    Raises:
        PacketError: somebody holds it.
    """
    with try_locked(layout.bench_lock(avatar_id), holder or f"process {os.getpid()}") as other:
        if other is not None:
            raise PacketError(
                f"the packet of {avatar_id} is being made by {other or 'somebody else'}",
                "wait until that has ended, or cancel it",
            )
        yield
