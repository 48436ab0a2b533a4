"""Files that appear whole or not at all, locks, and room on the disk."""

import errno
import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from newsstudio_ditto.errors import PacketError, StorageError

log = logging.getLogger(__name__)

_TEMPORARY_SUFFIX = ".tmp"
_SPARE_BYTES = 16 * 2**20
_REMEDIES = {
    errno.ENOSPC: "free some space and run it again",
    errno.EDQUOT: "free some space of your quota and run it again",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f) and run it again",
    errno.EROFS: "make the file system writable, or choose another folder",
    errno.EACCES: "let this user read and write there, or choose another folder",
    errno.EPERM: "let this user read and write there, or choose another folder",
    errno.ENOTDIR: "move the file that stands where a folder should be",
    errno.EMFILE: "raise the limit on open files (ulimit -n) and run it again",
    errno.ENFILE: "close programs that hold many files open and run it again",
    errno.EIO: "look at the health of this disk",
    errno.ESTALE: "look at the network share",
}
"""What to do about what a system refuses, by its error number."""


@contextmanager
def atomic_file(target: Path) -> Iterator[int]:
    """Give a descriptor, open for reading and writing, of a temporary file that becomes ``target`` on success.

    The content and the rename are on the disk when the context ends. On any failure the temporary file is removed and
    ``target`` is as before. What a killed writer left behind is removed by the next writer of the same file.

    Raises:
        StorageError: the folder is full, read-only or forbidden.
    """
    remove_stale(target.parent, target.name)
    descriptor, beside = _create_locked(target)
    try:
        with reporting_refusals(target):
            yield descriptor
            os.fchmod(descriptor, 0o644)
            os.fsync(descriptor)
            beside.replace(target)
            sync_folder(target.parent)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


@contextmanager
def reporting_refusals(path: Path | None = None) -> Iterator[None]:
    """Turn what the machine refuses into a :class:`StorageError` with a remedy; other faults pass as they are.

    Args:
        path: what is being written, where the system does not say.
    """
    try:
        yield
    except OSError as error:
        refusal = storage_error(error, path)
        if refusal is None:
            raise
        raise refusal from error


def storage_error(error: OSError, path: Path | None = None) -> StorageError | None:
    """What the machine refused, with a remedy; None for faults of another kind.

    Args:
        error: from the system.
        path: what was being written, where the system does not say.
    """
    remedy = _REMEDIES.get(error.errno or 0)
    where = error.filename or path
    what = f"{where}: {error.strerror}" if where else str(error.strerror)
    return None if remedy is None else StorageError(what, remedy)


def _create_locked(target: Path) -> tuple[int, Path]:
    """A new temporary file, locked for as long as its writer lives, which tells it from a stale one."""
    while True:
        beside = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_TEMPORARY_SUFFIX}")
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Between creation and lock another writer may have taken it for a stale one.
            if os.fstat(descriptor).st_nlink:
                return descriptor, beside
        except BaseException:
            beside.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        os.close(descriptor)


def stale_files(folder: Path, name: str = "*") -> list[Path]:
    """Temporary files for ``name`` whose writers no longer live."""
    found = []
    for path in _temporary_files(folder, name):
        with _abandoned(path) as is_abandoned:
            if is_abandoned:
                found.append(path)
    return found


def remove_stale(folder: Path, name: str = "*") -> None:
    """Remove what killed writers left behind."""
    for path in _temporary_files(folder, name):
        with _abandoned(path) as is_abandoned:
            if is_abandoned:
                path.unlink(missing_ok=True)
                log.info("removed a half-written file", extra={"path": str(path)})


def _temporary_files(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f".{name}.*{_TEMPORARY_SUFFIX}"))


@contextmanager
def _abandoned(path: Path) -> Iterator[bool]:
    """Whether nobody writes the file. While the context lasts, nobody can begin to."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, across processes and threads; it ends with its holder, however that dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def try_locked(path: Path, holder: str) -> Iterator[str | None]:
    """Hold an exclusive lock if nobody does, and give None; else give what its holder calls itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if _try_lock(descriptor):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.encode(), 0)
            yield None
        else:
            yield os.pread(descriptor, 1000, 0).decode(errors="replace")
    finally:
        os.close(descriptor)


def real_path(path: Path) -> Path:
    """Absolute path without links; of a ring of links, the path itself."""
    # Path.resolve raises RuntimeError of a ring.
    return _kernel_path(path) or Path(os.path.realpath(path))


def _kernel_path(path: Path) -> Path | None:
    """What Linux calls an existing file or folder: asking for each folder on the way would take four times as long."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None
    try:
        found = Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return found if found.is_absolute() else None


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system cannot."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        with (
            atomic_file(target) as descriptor,
            source.open("rb") as origin,
            os.fdopen(descriptor, "wb", closefd=False) as copy,
        ):
            shutil.copyfileobj(origin, copy, 1 << 20)
            copy.flush()


def require_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Refuse before writing what the disk cannot hold.

    Args:
        folder: where the files will lie; it need not exist yet.
        needed_bytes: what they will take together.
        purpose: what needs the room, for the message.

    Raises:
        PacketError: too little room.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    free_bytes = shutil.disk_usage(existing).free
    if needed_bytes + _SPARE_BYTES > free_bytes:
        raise PacketError(
            f"{purpose} needs {needed_bytes / 2**20:,.0f} MiB, "
            f"the disk of {existing} has {free_bytes / 2**20:,.0f} MiB left",
            "free some space, or take fewer frames (--max-frames) or a smaller picture (--max-side)",
        )
