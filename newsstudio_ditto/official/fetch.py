"""Fetching the official release: resumable, with progress, and with a record of what came."""

import json
import logging
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.official.release import (
    FETCH_COMMAND,
    RELEASE_FILES,
    REPOSITORY,
    by_hand,
    find_file,
    missing_files,
)
from newsstudio_ditto.packet.fingerprint import hash_file
from newsstudio_ditto.storage import replacing

log = logging.getLogger(__name__)

RECORD_NAME = "fetched.json"
FETCHED_FOLDER = "official"

OnFile = Callable[[str, int, int], None]
"""``on_file(name, files done, files in all)``."""

Download = Callable[[str, Path, str | None], Path]
"""``download(path in the repository, folder, revision) -> file``."""


@dataclass(frozen=True)
class FetchedFile:
    """One file as it lies on the disk.

    Args:
        path: in the repository.
        bytes: size.
        sha256: of the content.
        published_bytes: size that was expected.
    """

    path: str
    bytes: int
    sha256: str
    published_bytes: int

    @property
    def note(self) -> str:
        """A remark if the size is not the published one, else empty."""
        if self.bytes == self.published_bytes:
            return ""
        return f"{self.path}: {self.bytes:,} bytes, published were {self.published_bytes:,}"


@dataclass(frozen=True)
class FetchReport:
    """What :func:`fetch_release` did.

    Args:
        folder: where the release lies.
        files: every file of the release, in its order.
        downloaded: names of those that were not there before.
    """

    folder: Path
    files: tuple[FetchedFile, ...]
    downloaded: tuple[str, ...]

    @property
    def notes(self) -> list[str]:
        """Files whose size is not the published one; they may be a newer release."""
        return [file.note for file in self.files if file.note]

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "folder": str(self.folder),
            "files": [asdict(file) for file in self.files],
            "downloaded": list(self.downloaded),
            "notes": self.notes,
        }


def fetch_release(
    folder: Path, *, revision: str | None = None, download: Download | None = None, on_file: OnFile | None = None
) -> FetchReport:
    """Bring the release into ``folder``; what is there already is kept, a half-loaded file is continued.

    The hashes of all files are written to ``fetched.json`` beside them. A file that does not have the hash which the
    hub announced, or which was recorded for it on an earlier call, is an error.

    Args:
        folder: made if need be; files put there by hand, at any depth, count.
        revision: branch, tag or commit of the repository; None takes its main branch.
        download: how one file is fetched; None uses huggingface_hub.
        on_file: called after each file.

    Raises:
        BundleError: no network, or the hub refuses (the hint lists files and places), or a file has another hash.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = _read_record(folder / RECORD_NAME)
    absent = missing_files(folder)
    fetched = []
    for number, file in enumerate(RELEASE_FILES, start=1):
        path = find_file(folder, file) or _download(file.path, folder, revision, download or _from_hub)
        entry = FetchedFile(file.path, path.stat().st_size, hash_file(path), file.published_bytes)
        _expect_known(entry, path, folder, known)
        fetched.append(entry)
        if on_file is not None:
            on_file(file.name, number, len(RELEASE_FILES))
    report = FetchReport(folder, tuple(fetched), tuple(file.name for file in absent))
    with replacing(folder / RECORD_NAME) as beside:
        beside.write_text(json.dumps({entry.path: entry.sha256 for entry in fetched}, indent=2) + "\n")
    log.info("fetched the release", extra={"folder": str(folder), "num_downloaded": len(report.downloaded)})
    return report


def _expect_known(entry: FetchedFile, path: Path, folder: Path, known: dict[str, str]) -> None:
    """Compare a hash with the one recorded here, and with the one that the hub gave along with the file."""
    published = _published_sha256(folder, entry.path)
    if path == folder / entry.path and published not in (None, entry.sha256):
        raise BundleError(
            f"{path} is not what the hub announced: expected sha256 {str(published)[:12]}, got {entry.sha256[:12]}",
            f"delete it, and fetch it again: {FETCH_COMMAND}",
        )
    if known.get(entry.path, entry.sha256) != entry.sha256:
        raise BundleError(
            f"{path} has changed since it was fetched: expected sha256 {known[entry.path][:12]}, "
            f"got {entry.sha256[:12]}",
            f"delete it and fetch it again, or delete {folder / RECORD_NAME} if the change was meant",
        )


def _published_sha256(folder: Path, path: str) -> str | None:
    # The hub client keeps commit, etag and time of a download; for large files the etag is the sha256.
    note = folder / ".cache" / "huggingface" / "download" / f"{path}.metadata"
    lines = note.read_text().split() if note.is_file() else []
    return lines[1] if len(lines) > 1 and re.fullmatch("[0-9a-f]{64}", lines[1]) else None


def _read_record(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text())
    except ValueError as error:
        raise BundleError(f"{path} is no record of fetched files: {error}", "delete it and fetch again") from error
    return {str(name): str(digest) for name, digest in record.items()} if isinstance(record, dict) else {}


def _download(path: str, folder: Path, revision: str | None, download: Download) -> Path:
    try:
        return download(path, folder, revision)
    except Exception as error:  # the hub client, its HTTP library and its transfer library share no class but this
        reason = " ".join(str(error).split())[:200]
        raise BundleError(
            f"{path} could not be fetched from {REPOSITORY}: {reason}", by_hand(folder, missing_files(folder))
        ) from error


def _from_hub(path: str, folder: Path, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download  # half a second of import, for one command

    return Path(hf_hub_download(REPOSITORY, path, revision=revision, local_dir=folder))
