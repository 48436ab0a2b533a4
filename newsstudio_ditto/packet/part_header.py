"""What a packet file says about itself, read without trusting any of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from newsstudio_ditto.config import SLUG
from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.packet.spec import (
    FORMAT_NAME,
    PACKET_VERSION,
    PartSpec,
    expect_names,
    printable,
    rebuild_hint,
)

_HEADER_TYPES: dict[str, type] = {
    "format": str,
    "version": int,
    "part": str,
    "avatar_id": str,
    "generation": str,
    "stage_version": str,
    "num_frames": int,
    "checksums": dict,
    "extra": dict,
}
_NAMES, _KINDS = list(_HEADER_TYPES), list(_HEADER_TYPES.values())
_SHA256 = re.compile("[0-9a-f]{64}")
_SCALARS = {type(None), bool, int, float, str}
_MAX_PLAIN_VALUES = 20_000
_MAX_DEPTH = 16


@dataclass(frozen=True)
class PartHeader:
    """What a packet file says about itself.

    Args:
        part: name of the part.
        avatar_id: who the packet is of.
        generation: fingerprint of source, options and model.
        stage_version: version of the stage that made it.
        num_frames: N.
        checksums: sha256 of the bytes of each tensor.
        extra: plain values kept by the stage; of ``meta.pt``, the fields of the seal.
    """

    part: str
    avatar_id: str
    generation: str
    stage_version: str
    num_frames: int
    checksums: Mapping[str, str]
    extra: Mapping[str, object]


def read_header(plain: object, spec: PartSpec, where: str) -> PartHeader:
    """Header of a part from its plain value.

    Raises:
        PacketFormatError: another format, version or part, or a field that is missing, unknown or of another type.
    """
    if not isinstance(plain, dict):
        raise PacketFormatError(f"{where}: header: expected a dict, got {type(plain).__name__}", rebuild_hint())
    if plain.get("format") != FORMAT_NAME:
        raise PacketFormatError(
            f"{where}: format: expected {FORMAT_NAME!r}, got {_brief(plain.get('format'))}", rebuild_hint()
        )
    if plain.get("version") != PACKET_VERSION:
        raise PacketFormatError(
            f"{where}: version: expected {PACKET_VERSION}, got {_brief(plain.get('version'))}",
            f"use the release that wrote it, or {rebuild_hint()}",
        )
    expect_names(plain, _NAMES, f"{where}: header")
    if [type(plain[name]) for name in _NAMES] != _KINDS:
        name = next(name for name, kind in _HEADER_TYPES.items() if type(plain[name]) is not kind)
        expected, got = _HEADER_TYPES[name].__name__, type(plain[name]).__name__
        raise PacketFormatError(f"{where}: {name}: expected {expected}, got {got}", rebuild_hint())
    _expect_values(plain, spec, where)
    return PartHeader(
        part=plain["part"],
        avatar_id=plain["avatar_id"],
        generation=plain["generation"],
        stage_version=plain["stage_version"],
        num_frames=plain["num_frames"],
        checksums=plain["checksums"],
        extra=plain["extra"],
    )


def _expect_values(plain: Mapping[str, object], spec: PartSpec, where: str) -> None:
    if plain["part"] != spec.name:
        raise PacketFormatError(f"{where}: part: expected {spec.name!r}, got {_brief(plain['part'])}", rebuild_hint())
    # It is a folder name and part of a command line wherever it is shown.
    if not SLUG.fullmatch(str(plain["avatar_id"])):
        raise PacketFormatError(
            f"{where}: avatar_id: expected a slug, got {_brief(plain['avatar_id'])}", rebuild_hint()
        )
    checksums = plain["checksums"]
    assert isinstance(checksums, dict)
    expect_names(checksums, spec.tensor_names, f"{where}: checksums")
    if not all(isinstance(value, str) and _SHA256.fullmatch(value) for value in checksums.values()):
        raise PacketFormatError(f"{where}: checksums: expected 64 hex digits each, got something else", rebuild_hint())
    _expect_plain(plain["extra"], where)


def _expect_plain(extra: object, where: str) -> None:
    """Refuse what is no tree of plain values: tensors, tuples, and the rings and repetitions that memos can make."""
    level, seen = [extra], 0
    for _ in range(_MAX_DEPTH):
        inner: list[object] = []
        if not _SCALARS.issuperset(map(type, level)):
            for value in level:
                if isinstance(value, dict):
                    inner += value.values()
                elif isinstance(value, list):
                    inner += value
                elif type(value) not in _SCALARS:
                    kind = type(value).__name__.lstrip("_")
                    raise PacketFormatError(f"{where}: extra: expected plain values, got {kind}", rebuild_hint())
                if len(inner) > _MAX_PLAIN_VALUES:
                    break
        level, seen = inner, seen + len(inner)
        if not level or seen > _MAX_PLAIN_VALUES:
            break
    if level:
        raise PacketFormatError(
            f"{where}: extra: expected a few plain values, got too many or too deep", rebuild_hint()
        )


def _brief(value: object) -> str:
    return printable(repr(value))[:40] if isinstance(value, str | int | float | None) else type(value).__name__
