"""One packet file on the disk: opened with suspicion, mapped, and watched for being changed in place."""

import errno
import mmap
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from newsstudio_ditto.errors import PacketFormatError, PacketMissingError
from newsstudio_ditto.packet.spec import rebuild_hint
from newsstudio_ditto.packet.zip_read import damaged

# A private map of a file larger than memory must not be refused for the copies that nobody will make. Python names this
# flag from 3.12 on; the value is Linux's.
_MAP_FLAGS = mmap.MAP_PRIVATE | (0x4000 if sys.platform == "linux" else 0)


class Stamp(NamedTuple):
    """What tells a file from another, and from itself at another time.

    Args:
        device: of the file system.
        inode: of the file.
        size: bytes.
        modified_ns: time of the last change.
    """

    device: int
    inode: int
    size: int
    modified_ns: int


@dataclass(frozen=True)
class MappedFile:
    """The map of a whole file.

    Args:
        path: where it was when it was opened.
        content: private map; it keeps the file alive when its name goes.
        stamp: what it was when it was opened, before its headers were read.
    """

    path: Path
    content: mmap.mmap
    stamp: Stamp

    def expect_unchanged(self) -> None:
        """Make sure that nobody cut or rewrote the file in place since it was opened.

        Reading a map behind the end of its file kills the process (SIGBUS), and a file that is rewritten in place shows
        through the map. Two system calls; a file that was removed, renamed or replaced by another is no matter.

        Raises:
            PacketFormatError: it was.
        """
        if self.content.size() != self.stamp.size:
            raise damaged(str(self.path), "it was cut or extended while it was in use")
        try:
            now = _stamp(self.path.stat())
        except OSError:
            return
        if now != self.stamp and (now.device, now.inode) == (self.stamp.device, self.stamp.inode):
            raise damaged(str(self.path), "it was written to while it was in use")


def open_regular(path: Path, where: str) -> tuple[int, Stamp]:
    """Descriptor and stamp of a file that is there, no link, no pipe or folder, and not empty.

    Args:
        path: of the file.
        where: the same as text, which opens a little faster.

    Raises:
        PacketMissingError: no such file.
        PacketFormatError: anything else than a file with content, or one that may not be read.
    """
    # O_NOFOLLOW: a link could lead out of the packet. O_NONBLOCK: a named pipe must not make the open wait.
    try:
        descriptor = os.open(where, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise PacketMissingError(f"{where} does not exist", rebuild_hint()) from None
    except OSError as error:
        raise unreadable(path, error) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        os.close(descriptor)
        problem = "empty" if stat.S_ISREG(status.st_mode) else "not a regular file"
        raise PacketFormatError(f"{where} is {problem}", rebuild_hint())
    return descriptor, _stamp(status)


def map_file(path: Path, where: str, descriptor: int, stamp: Stamp) -> MappedFile:
    """Map a file whose headers have been read.

    Raises:
        PacketFormatError: it was cut since, or the system cannot map so much.
    """
    try:
        content = mmap.mmap(descriptor, stamp.size, flags=_MAP_FLAGS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except ValueError as error:
        raise damaged(where, "it was cut short while it was read") from error
    except OSError as error:
        raise PacketFormatError(
            f"{where}: its {stamp.size} bytes cannot be mapped: {error.strerror}",
            f"raise the limit of address space (ulimit -v), or {rebuild_hint()}",
        ) from error
    return MappedFile(path, content, stamp)


def unreadable(path: Path, error: OSError) -> PacketFormatError:
    """The error for a file or folder that the system does not let us read."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return PacketFormatError(f"{path} cannot be opened: {error.strerror}", f"let it be read: chmod -R u+rX {path}")
    reason = "it is a symbolic link" if path.is_symlink() else str(error.strerror)
    return PacketFormatError(f"{path} cannot be opened: {reason}", rebuild_hint())


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
