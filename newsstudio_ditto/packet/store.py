"""Where packets live: benches on which parts are made one by one, sealed sets, and one published link for each avatar.

Below the storage root::

    cache/benches/ditto/{avatar_id}/             parts as they are made, and whatever else the stages keep there
    cache/sets/ditto/{avatar_id}/{set}/          six files that belong together; never changed once published
    cache/avatars/ditto/{avatar_id}              a symbolic link to the current set: the published packet
    cache/locks/ditto/{avatar_id}.lock           held while a set is sealed or removed

A link is switched by one rename, so there is a whole packet at every moment. A set that is replaced is removed; whoever
has it mapped keeps it until the maps are closed.
"""

import logging
import os
import secrets
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from newsstudio_ditto.config import SLUG, validate_slug
from newsstudio_ditto.errors import PacketFormatError, PacketMissingError, PacketMixedError
from newsstudio_ditto.packet.files import link_or_copy, locked, real_path, stale_files, sync_folder
from newsstudio_ditto.packet.meta import MetaFields, PacketMeta, seal_fields, to_plain
from newsstudio_ditto.packet.reader import Packet, expect_consistent, expect_same_generation, open_packet, open_part
from newsstudio_ditto.packet.spec import META, PARTS, TENSOR_PARTS, part_spec, rebuild_hint
from newsstudio_ditto.packet.writer import PartRecord, PartStream, write_part

log = logging.getLogger(__name__)

_FAMILY = "ditto"

# The class below has a method called list.
Paths = list[Path]
Names = list[str]


class AvatarStore:
    """Packets below one storage root. It holds no state but the path; any number may work on one root.

    Args:
        root: the storage root; made when first written to.
    """

    def __init__(self, root: Path) -> None:
        """Remember the path; nothing is made or read yet."""
        cache = root.absolute() / "cache"
        self.root = root
        self._links = cache / "avatars" / _FAMILY
        self._sets = cache / "sets" / _FAMILY
        self._benches = cache / "benches" / _FAMILY
        self._locks = cache / "locks" / _FAMILY

    def bench(self, avatar_id: str) -> Path:
        """Folder where the parts of an avatar are made; it is made if need be."""
        folder = self._benches / validate_slug(avatar_id)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def published(self, avatar_id: str) -> Path:
        """Path of the published packet; it need not exist."""
        return self._links / validate_slug(avatar_id)

    def bench_record(self, avatar_id: str, part: str) -> PartRecord | None:
        """What lies on the bench as ``part``; None if nothing, or nothing that can be read."""
        path = self._benches / validate_slug(avatar_id) / part_spec(part).file_name
        try:
            return open_part(path, part).record()
        except PacketMissingError:
            return None
        except PacketFormatError as error:
            log.warning("a bench file cannot be read and will be made again", extra={"reason": error.what})
            return None

    def seal(self, avatar_id: str, known: MetaFields) -> Packet:
        """Make a packet of the five parts on the bench, and publish it.

        The parts are linked into a new set, checked there, and ``meta.pt`` is written beside them; then the link is
        switched. Until then the older packet stays published, also when sealing fails. Seals of one avatar take turns.

        Args:
            avatar_id: who it is of.
            known: what the meta stage knows.

        Raises:
            PacketMissingError: a part is not on the bench.
            PacketMixedError: parts of different generations, or of another one than ``known`` names.
            PacketFormatError: a damaged part, or parts whose shapes contradict each other or ``known``.
        """
        bench = self._benches / validate_slug(avatar_id)
        missing = [name for name in TENSOR_PARTS if not (bench / PARTS[name].file_name).exists()]
        if missing:
            raise PacketMissingError(f"bench {bench} lacks {', '.join(missing)}", rebuild_hint(avatar_id))
        with self._lock(avatar_id):
            folder = self._sets / avatar_id / f"{known.generation[:12]}-{secrets.token_hex(4)}"
            folder.mkdir(parents=True)
            try:
                self._fill_set(folder, bench, avatar_id, known)
                packet = open_packet(folder)
                self._switch(avatar_id, folder)
            finally:
                # The older set after success, the new one after failure, and what a killed run left.
                _remove_trees(self._unreferenced(avatar_id))
        log.info("published a packet", extra={"avatar_id": avatar_id, "generation": known.generation})
        return packet

    def _fill_set(self, folder: Path, bench: Path, avatar_id: str, known: MetaFields) -> None:
        for name in TENSOR_PARTS:
            link_or_copy(bench / PARTS[name].file_name, folder / PARTS[name].file_name)
        # Checked through the new links: what lies on the bench may be replaced at any time.
        parts = {name: open_part(folder / PARTS[name].file_name, name) for name in TENSOR_PARTS}
        expect_same_generation(parts)
        header = parts[TENSOR_PARTS[0]].header
        if (header.generation, header.avatar_id) != (known.generation, avatar_id):
            raise PacketMixedError(
                f"bench {bench}: expected parts of {avatar_id}, generation {known.generation[:12]}, "
                f"got {header.avatar_id}, {header.generation[:12]}",
                rebuild_hint(avatar_id),
            )
        meta = seal_fields(known, avatar_id=avatar_id, parts={name: part.seal() for name, part in parts.items()})
        meta.expect_geometry(str(folder))
        expect_consistent(meta, parts)
        write_part(folder, _meta_stream(meta), generation=meta.generation, avatar_id=avatar_id)

    def _switch(self, avatar_id: str, folder: Path) -> None:
        """Point the published link at a set, by one rename."""
        link = self.published(avatar_id)
        self._links.mkdir(parents=True, exist_ok=True)
        beside = self._links / f".{avatar_id}.link"
        beside.unlink(missing_ok=True)
        # Relative, so that the storage root can be moved.
        beside.symlink_to(os.path.relpath(folder, self._links))
        if link.is_dir() and not link.is_symlink():
            # A packet that was copied in by hand; a link cannot replace a folder by rename.
            link.rename(self._sets / avatar_id / f"copied-{secrets.token_hex(4)}")
        sync_folder(folder.parent)
        beside.replace(link)
        sync_folder(self._links)

    def open(self, avatar_id: str) -> Packet:
        """Open the published packet of an avatar.

        Raises:
            PacketMissingError: unknown avatar.
            PacketFormatError: damaged, or the link leads out of the store.
            PacketMixedError: files that do not belong together.
        """
        link = self.published(avatar_id)
        if not os.path.lexists(link):
            raise PacketMissingError(
                f"there is no packet of avatar {avatar_id!r} in {self._links}", rebuild_hint(avatar_id)
            )
        target = real_path(link)
        if link.is_symlink() and target.parent != real_path(self._sets / avatar_id):
            raise PacketFormatError(
                f"{link} leads out of the store, to {target}", f"delete it, and {rebuild_hint(avatar_id)}"
            )
        return open_packet(link)

    def list(self) -> Names:
        """Ids of the avatars that have a published packet, sorted; whether it can be opened is not looked at."""
        return sorted(path.name for path in _children(self._links) if SLUG.fullmatch(path.name) and path.exists())

    def remove(self, avatar_id: str) -> int:
        """Remove an avatar's packet and bench. Open maps stay valid.

        Returns:
            Bytes that this frees, once nobody has the files mapped.

        Raises:
            PacketMissingError: there is nothing of this avatar.
        """
        link = self.published(avatar_id)
        with self._lock(avatar_id):
            folders = [
                path for path in (link, self._sets / avatar_id, self._benches / avatar_id) if os.path.lexists(path)
            ]
            if not folders:
                raise PacketMissingError(
                    f"there is no packet of avatar {avatar_id!r} in {self._links}", "see: newsstudio-ditto list"
                )
            freed = tree_bytes(folders)
            if link.is_symlink():
                link.unlink()
                folders.remove(link)
            _remove_trees(folders)
        log.info("removed a packet", extra={"avatar_id": avatar_id, "num_bytes": freed})
        return freed

    def leftovers(self) -> Paths:
        """What interrupted runs left behind and nothing refers to: sets, temporary files, links to nowhere."""
        found: Paths = []
        for avatar_id in self._known():
            with self._lock(avatar_id):
                found += self._leftovers(avatar_id)
        return found

    def prune(self) -> Paths:
        """Remove :meth:`leftovers`; what is published or being written stays.

        Returns:
            What was removed.
        """
        removed: Paths = []
        for avatar_id in self._known():
            with self._lock(avatar_id):
                found = self._leftovers(avatar_id)
                _remove_trees(found)
                removed += found
        return removed

    def tidy(self, avatar_id: str) -> None:
        """Remove the leftovers of one avatar."""
        with self._lock(avatar_id):
            _remove_trees(self._leftovers(avatar_id))

    def _lock(self, avatar_id: str) -> AbstractContextManager[None]:
        return locked(self._locks / f"{validate_slug(avatar_id)}.lock")

    def _known(self) -> Names:
        names = {path.name for folder in (self._links, self._sets, self._benches) for path in _children(folder)}
        return sorted(name for name in names if SLUG.fullmatch(name))

    def _leftovers(self, avatar_id: str) -> Paths:
        links = (self.published(avatar_id), self._links / f".{avatar_id}.link")
        dangling = [path for path in links if path.is_symlink() and (path.name.startswith(".") or not path.exists())]
        return [*self._unreferenced(avatar_id), *stale_files(self._benches / avatar_id), *dangling]

    def _unreferenced(self, avatar_id: str) -> Paths:
        current = real_path(self.published(avatar_id))
        return [path for path in _children(self._sets / avatar_id) if real_path(path) != current]


def _meta_stream(meta: PacketMeta) -> PartStream:
    tensors = {name: tensor.detach().cpu() for name, tensor in meta.tensors().items()}
    return PartStream(
        part=META.name,
        shapes={name: tuple(tensor.shape) for name, tensor in tensors.items()},
        chunks=[tensors],
        stage_version=meta.stage_version,
        extra=to_plain(meta),
    )


def tree_bytes(folders: Iterable[Path]) -> int:
    """Size of all files below some folders; a file with several names counts once."""
    sizes: dict[tuple[int, int], int] = {}
    for folder in folders:
        for path in folder.rglob("*") if folder.is_dir() and not folder.is_symlink() else ():
            status = path.lstat()
            sizes[status.st_dev, status.st_ino] = status.st_size if path.is_file() else 0
    return sum(sizes.values())


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _remove_trees(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
