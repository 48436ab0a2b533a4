"""Packets on this machine's own disk: copied once from shared storage, checked, dropped when others need the room."""

import logging
import os
import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from newsstudio_ditto.errors import PacketError, PacketFormatError, PacketMissingError
from newsstudio_ditto.packet.files import locked, require_space
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.packet.store import AvatarStore, tree_bytes
from newsstudio_ditto.packet.verify import check_bytes

log = logging.getLogger(__name__)

_MOST_TRIES = 3
_ABANDONED_S = 3600.0


@dataclass(frozen=True)
class LocalPackets:
    """A folder of copies, one per sealed set. Any number of processes of one machine may use it.

    A sealed set never changes, and every seal makes a new one, so a copy is right for ever; its name says which it is.

    Args:
        folder: on a local disk.
        max_bytes: all copies together; the one in use stays even if it is larger.
    """

    folder: Path
    max_bytes: int

    def open(self, store: AvatarStore, avatar_id: str) -> Packet:
        """Open the published packet of an avatar through its copy here, which is made if need be.

        Raises:
            PacketError: there is no packet, it is damaged, or this disk is full.
        """
        for _ in range(_MOST_TRIES):
            published = store.open(avatar_id)
            target = self.folder / avatar_id / published.folder.name
            try:
                with locked(self.folder / f".{avatar_id}.lock"):
                    if not target.is_dir():
                        self._copy(published, target)
                    os.utime(target)
            except FileNotFoundError:
                continue  # a newer packet was published meanwhile, and the older set removed
            self._evict(keep=target)
            return open_packet(target)
        raise PacketMissingError(f"the packet of {avatar_id!r} is replaced faster than it can be copied", "try again")

    def _copy(self, published: Packet, target: Path) -> None:
        self._make_room(published.num_bytes)
        require_space(self.folder, published.num_bytes, f"the local copy of {published.avatar_id}")
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        started = time.perf_counter()
        try:
            beside.mkdir(parents=True)
            for part in published.parts.values():
                shutil.copyfile(part.path, beside / part.path.name)
            copy = open_packet(beside)
            faults = [str(fault) for part in copy.parts.values() for fault in check_bytes(part)]
            if faults:
                raise PacketFormatError(f"the copy of {published.folder} is damaged: {faults[0]}", "copy it again")
            beside.rename(target)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        seconds = round(time.perf_counter() - started, 3)
        log.info("copied a packet", extra={"avatar_id": published.avatar_id, "seconds": seconds})

    def _make_room(self, num_bytes: int) -> None:
        self._shrink_to(self.max_bytes - num_bytes, keep=None)

    def _evict(self, keep: Path) -> None:
        self._shrink_to(self.max_bytes, keep=keep)

    def _shrink_to(self, max_bytes: int, keep: Path | None) -> None:
        """Drop what was used least recently. Whoever has a copy mapped keeps it until the maps are closed."""
        with locked(self.folder / ".evict.lock"):
            copies = sorted(self._copies(), key=lambda path: path.stat().st_mtime)
            sizes = {path: tree_bytes([path]) for path in copies}
            total = sum(sizes.values())
            for path in copies:
                if total <= max_bytes:
                    break
                if path != keep:
                    shutil.rmtree(path, ignore_errors=True)
                    total -= sizes[path]
                    log.info("dropped a local copy", extra={"path": str(path), "num_bytes": sizes[path]})

    def _copies(self) -> list[Path]:
        found = []
        for path in self.folder.glob("*/*") if self.folder.is_dir() else ():
            if not path.name.startswith("."):
                found.append(path)
            elif time.time() - path.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(path, ignore_errors=True)
        return found


def open_nearest(store: AvatarStore, avatar_id: str, copies: LocalPackets | None) -> Packet:
    """Open a packet through the local copies if there are any, else where it lies.

    Raises:
        PacketError: there is no packet, or it cannot be opened. A full local disk is no reason to fail.
    """
    if copies is None:
        return store.open(avatar_id)
    try:
        return copies.open(store, avatar_id)
    except PacketFormatError:
        raise
    except PacketError as error:
        log.warning("no local copy", extra={"avatar_id": avatar_id, "reason": str(error)})
        return store.open(avatar_id)
