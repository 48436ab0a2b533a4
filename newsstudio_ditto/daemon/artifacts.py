"""The files that an engine needs of an avatar, declared once from the packet's spec, and how they are doing."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from newsstudio_ditto.config import validate_slug
from newsstudio_ditto.errors import DittoError, PacketError
from newsstudio_ditto.packet.reader import Part, open_part
from newsstudio_ditto.packet.spec import PARTS
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import VerifyReport, verify_packet
from newsstudio_ditto.preparation import plan_packet, stale_steps
from newsstudio_ditto.storage import StorageLayout


@dataclass(frozen=True)
class Artifact:
    """One file of an avatar.

    Args:
        name: of the part.
        file_name: in the packet folder.
        content: tensor -> dtype, axes and meaning, in words.
    """

    name: str
    file_name: str
    content: dict[str, str]


ENGINE_ARTIFACTS: dict[str, tuple[Artifact, ...]] = {
    "ditto": tuple(
        Artifact(part.name, part.file_name, {tensor.name: f"{tensor}: {tensor.content}" for tensor in part})
        for part in PARTS.values()
    )
}
"""Files by engine. Status answers and documentation are made of this."""


@dataclass(frozen=True)
class TensorStatus:
    """One tensor of a file as it lies there."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class FileStatus:
    """One file of an avatar as it lies there.

    Args:
        name: of the part.
        file_name: in the packet folder.
        present: it is there.
        num_bytes: its size.
        generation: fingerprint that it carries; empty if it cannot be read.
        tensors: what it holds.
        checksum: ``recorded`` when it opened and the seal fits, ``good`` or ``bad`` after reading every byte,
            ``unknown`` when it is absent or does not open.
        fault: why it is not usable, in words; empty if all is well.
    """

    name: str
    file_name: str
    present: bool
    num_bytes: int = 0
    generation: str = ""
    tensors: tuple[TensorStatus, ...] = ()
    checksum: str = "unknown"
    fault: str = ""


@dataclass(frozen=True)
class AvatarStatus:
    """How an avatar is doing.

    Args:
        avatar_id: who.
        ready: it can be rendered.
        reason: why not; empty if ready.
        hint: what to do about it.
        stale: the steps that would run if its anchor were prepared again; None if there is no anchor.
        generation: of the packet; empty if there is none.
        files: all six.
    """

    avatar_id: str
    ready: bool
    reason: str
    hint: str
    stale: tuple[str, ...] | None
    generation: str
    files: tuple[FileStatus, ...]


def avatar_status(layout: StorageLayout, avatar_id: str, *, verify: bool = False) -> AvatarStatus:
    """Look at the six files of an avatar.

    Args:
        layout: where it lives.
        avatar_id: a slug.
        verify: read every byte and recompute the checksums; takes as long as reading the files does.

    Raises:
        UsageError: not a slug.
    """
    store = AvatarStore(layout.root)
    folder = store.published(validate_slug(avatar_id))
    reason, hint, generation = "", "", ""
    try:
        packet = store.open(avatar_id)
        generation = packet.generation
    except PacketError as error:
        reason, hint = error.what, error.hint
    report = verify_packet(folder) if verify and generation else None
    files = tuple(_file_status(folder, artifact, report) for artifact in ENGINE_ARTIFACTS["ditto"])
    if report is not None and not report.ok:
        reason, hint = str(report.findings[0]), "prepare the avatar again"
    return AvatarStatus(avatar_id, not reason, reason, hint, _stale(layout, store, avatar_id), generation, files)


def _stale(layout: StorageLayout, store: AvatarStore, avatar_id: str) -> tuple[str, ...] | None:
    try:
        return tuple(stale_steps(store, plan_packet(layout, avatar_id)))
    except DittoError:  # no anchor, or a recipe whose model is gone: nothing to compare with
        return None


def _file_status(folder: Path, artifact: Artifact, report: VerifyReport | None) -> FileStatus:
    path = folder / artifact.file_name
    if not path.is_file():
        return FileStatus(artifact.name, artifact.file_name, present=False, fault="the file is not there")
    try:
        part = open_part(path, artifact.name)
    except PacketError as error:
        size = path.stat().st_size
        return FileStatus(artifact.name, artifact.file_name, present=True, num_bytes=size, fault=error.what)
    fault = _fault(artifact, report)
    checksum = "recorded" if report is None else "bad" if fault else "good"
    return FileStatus(
        artifact.name,
        artifact.file_name,
        present=True,
        num_bytes=part.bytes,
        generation=part.header.generation,
        tensors=_tensors(part),
        checksum=checksum,
        fault=fault,
    )


def _fault(artifact: Artifact, report: VerifyReport | None) -> str:
    names = (artifact.name, artifact.file_name)
    found = [finding for finding in report.findings if finding.part in names] if report else []
    return str(found[0]) if found else ""


def _tensors(part: Part) -> tuple[TensorStatus, ...]:
    return tuple(TensorStatus(name, part.dtypes[name], tuple(shape)) for name, shape in part.shapes.items())


def link_anchor(layout: StorageLayout, avatar_id: str) -> Path:
    """Keep ``cache/anchors/{avatar_id}/ditto`` as a link to the published packet, and return the link.

    It is relative, so that the storage folder can be moved; it follows the packet when that is made again.
    """
    link = layout.root / "cache" / "anchors" / validate_slug(avatar_id) / "ditto"
    target = Path("..", "..", "avatars", "ditto", avatar_id)
    if link.is_symlink() and link.readlink() == target:
        return link
    link.parent.mkdir(parents=True, exist_ok=True)
    beside = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    beside.symlink_to(target)
    try:
        beside.replace(link)
    finally:
        beside.unlink(missing_ok=True)
    return link
