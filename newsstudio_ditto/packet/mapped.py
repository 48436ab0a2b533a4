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
from newsstudio_ditto.packet.zip_read import FileBytes, damaged

# A private map of a file larger than memory must not be refused for the copies that nobody will make. Python names this
# flag from 3.12 on; the value is Linux's.
_MAP_FLAGS = mmap.MAP_PRIVATE | (0x4000 if sys.platform == "linux" else 0)
_CUT = "it was cut or extended while it was read"


class _Stamp(NamedTuple):
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
        stamp: identity, size and time of the last change when it was opened.
    """

    path: Path
    content: mmap.mmap
    stamp: _Stamp

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


def open_regular(path: Path) -> int:
    """Descriptor of a file that is there, no link, no pipe or folder, and not empty.

    Raises:
        PacketMissingError: no such file.
        PacketFormatError: anything else than a file with content, or one that may not be read.
    """
    where = str(path)
    # O_NOFOLLOW: a link could lead out of the packet. O_NONBLOCK: a named pipe must not make the open wait.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise PacketMissingError(f"{where} does not exist", rebuild_hint()) from None
    except OSError as error:
        raise unreadable(path, error) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        os.close(descriptor)
        problem = "empty" if stat.S_ISREG(status.st_mode) else "not a regular file"
        raise PacketFormatError(f"{where} is {problem}", rebuild_hint())
    return descriptor


def map_file(path: Path, file: FileBytes, descriptor: int) -> MappedFile:
    """Map a file whose headers have been read.

    Raises:
        PacketFormatError: it was changed since, or the system cannot map so much.
    """
    try:
        content = mmap.mmap(descriptor, file.size, flags=_MAP_FLAGS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except ValueError as error:
        raise damaged(file.where, _CUT) from error
    except OSError as error:
        raise PacketFormatError(
            f"{file.where}: its {file.size} bytes cannot be mapped: {error.strerror}",
            f"raise the limit of address space (ulimit -v), or {rebuild_hint()}",
        ) from error
    mapped = MappedFile(path, content, _stamp(os.fstat(descriptor)))
    if mapped.stamp.size != file.size:
        raise damaged(file.where, _CUT)
    return mapped


def unreadable(path: Path, error: OSError) -> PacketFormatError:
    """The error for a file or folder that the system does not let us read."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return PacketFormatError(f"{path} cannot be opened: {error.strerror}", f"let it be read: chmod -R u+rX {path}")
    reason = "it is a symbolic link" if path.is_symlink() else str(error.strerror)
    return PacketFormatError(f"{path} cannot be opened: {reason}", rebuild_hint())


def _stamp(status: os.stat_result) -> _Stamp:
    return _Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
