"""Opening one packet file: a memory map, checked in every respect but the bytes of the tensors.

No name in a file is imported or called, and nothing is read but headers, so opening takes the same time for any number
of frames. Tensors are private maps: writing to one changes memory, never the file.
"""

import mmap
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from newsstudio_ditto.errors import PacketFormatError, PacketMissingError
from newsstudio_ditto.packet.meta import PartSeal
from newsstudio_ditto.packet.plain_pickle import TensorRef
from newsstudio_ditto.packet.plain_unpickle import decode
from newsstudio_ditto.packet.spec import (
    FORMAT_NAME,
    FRAME_AXIS,
    PACKET_VERSION,
    Bindings,
    PartSpec,
    Shape,
    dtype_name,
    expect_names,
    part_spec,
    rebuild_hint,
)
from newsstudio_ditto.packet.writer import PartRecord
from newsstudio_ditto.packet.zip_read import Entry, FileBytes, damaged, read_entries

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
_SHA256 = re.compile("[0-9a-f]{64}")
_ALIGN_BYTES = 64
# A private map of a file larger than memory must not be refused for the copies that nobody will make. Python names this
# flag from 3.12 on; the value is Linux's.
_MAP_FLAGS = mmap.MAP_PRIVATE | (0x4000 if sys.platform == "linux" else 0)


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


@dataclass(frozen=True)
class Part:
    """One open packet file.

    Args:
        path: the file.
        bytes: its size.
        header: what it says about itself.
        tensors: mapped tensors by name.
        entries: where each tensor lies in the file.
        lengths: what its shapes say about the named axes of the spec.
    """

    path: Path
    bytes: int
    header: PartHeader
    tensors: dict[str, Tensor]
    entries: dict[str, Entry]
    lengths: Bindings

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shape by tensor name."""
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        """Dtype name by tensor name."""
        return {name: dtype_name(tensor.dtype) for name, tensor in self.tensors.items()}

    def record(self) -> PartRecord:
        """The record that its writer returned, but for the time it took."""
        header = self.header
        return PartRecord(
            self.path,
            self.bytes,
            self.shapes,
            self.dtypes,
            dict(header.checksums),
            header.generation,
            header.stage_version,
        )

    def seal(self) -> PartSeal:
        """What the seal has to say about this file."""
        header = self.header
        return PartSeal(self.bytes, self.dtypes, self.shapes, dict(header.checksums), header.stage_version)


def open_part(path: Path, part: str) -> Part:
    """Open one packet file.

    Args:
        path: the file; a link is refused.
        part: which part it should be.

    Raises:
        PacketMissingError: no such file.
        PacketFormatError: damaged, foreign, of another version, or not what the spec of ``part`` says.
    """
    spec = part_spec(part)
    where = str(path)
    descriptor = _open_file(path, where)
    try:
        file = FileBytes(descriptor, os.fstat(descriptor).st_size, where)
        entries = read_entries(file)
        content = _read_content(file, entries)
        mapped = mmap.mmap(descriptor, file.size, flags=_MAP_FLAGS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(descriptor)
    header = _read_header(content["header"], spec, where)
    refs, lengths = _read_refs(content["tensors"], spec, header, where)
    places = {name: _entry_of(ref, name, entries, where) for name, ref in refs.items()}
    tensors = {name: _map_tensor(mapped, refs[name], place.offset) for name, place in places.items()}
    return Part(path, file.size, header, tensors, places, lengths)


def _open_file(path: Path, where: str) -> int:
    # O_NOFOLLOW: a link could lead out of the packet. O_NONBLOCK: a named pipe must not make the open wait.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise PacketMissingError(f"{where} does not exist", rebuild_hint()) from None
    except OSError as error:
        reason = "it is a symbolic link" if path.is_symlink() else str(error.strerror)
        raise PacketFormatError(f"{where} cannot be opened: {reason}", rebuild_hint()) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        os.close(descriptor)
        problem = "empty" if stat.S_ISREG(status.st_mode) else "not a regular file"
        raise PacketFormatError(f"{where} is {problem}", rebuild_hint())
    return descriptor


def _read_content(file: FileBytes, entries: Mapping[str, Entry]) -> dict[str, object]:
    """The pickled dict of ``header`` and ``tensors``."""
    absent = {"data.pkl", "byteorder"} - entries.keys()
    if absent:
        raise damaged(file.where, f"it has no entry {min(absent)}")
    if file.read_entry(entries["byteorder"]) != b"little":
        raise PacketFormatError(f"{file.where}: byte order: expected little, got another", rebuild_hint())
    content = decode(file.read_entry(entries["data.pkl"]), file.where)
    if not isinstance(content, dict) or content.keys() != {"header", "tensors"}:
        raise PacketFormatError(
            f"{file.where}: expected a dict of header and tensors, got something else", rebuild_hint()
        )
    return content


def _read_header(plain: object, spec: PartSpec, where: str) -> PartHeader:
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
    expect_names(plain, list(_HEADER_TYPES), f"{where}: header")
    for name, kind in _HEADER_TYPES.items():
        if type(plain[name]) is not kind:
            raise PacketFormatError(
                f"{where}: {name}: expected {kind.__name__}, got {type(plain[name]).__name__}", rebuild_hint()
            )
    if plain["part"] != spec.name:
        raise PacketFormatError(f"{where}: part: expected {spec.name!r}, got {_brief(plain['part'])}", rebuild_hint())
    expect_names(plain["checksums"], [tensor.name for tensor in spec], f"{where}: checksums")
    if not all(isinstance(value, str) and _SHA256.fullmatch(value) for value in plain["checksums"].values()):
        raise PacketFormatError(f"{where}: checksums: expected 64 hex digits each, got something else", rebuild_hint())
    return PartHeader(**{name: plain[name] for name in _HEADER_TYPES if name not in ("format", "version")})


def _read_refs(plain: object, spec: PartSpec, header: PartHeader, where: str) -> tuple[dict[str, TensorRef], Bindings]:
    refs = plain if isinstance(plain, dict) else {}
    expect_names(refs, [tensor.name for tensor in spec], f"{where}: tensors")
    for tensor in spec:
        ref = refs[tensor.name]
        if not isinstance(ref, TensorRef):
            raise PacketFormatError(
                f"{where}: tensor {tensor.name}: expected {tensor}, got a plain value", rebuild_hint()
            )
        tensor.expect_dtype(ref.dtype, where)
    shapes = {name: ref.shape for name, ref in refs.items()}
    return refs, spec.bind(shapes, where, {FRAME_AXIS: header.num_frames})


def _entry_of(ref: TensorRef, name: str, entries: Mapping[str, Entry], where: str) -> Entry:
    entry = entries.get(f"data/{ref.key}")
    if entry is None:
        raise damaged(where, f"the bytes of tensor {name} are missing")
    if entry.size != ref.num_bytes:
        raise damaged(where, f"tensor {name}: expected {ref.num_bytes} bytes, got {entry.size}")
    if entry.offset % _ALIGN_BYTES:
        raise damaged(where, f"tensor {name} starts at byte {entry.offset}, not a multiple of {_ALIGN_BYTES}")
    return entry


def _map_tensor(mapped: mmap.mmap, ref: TensorRef, offset: int) -> Tensor:
    return torch.frombuffer(mapped, dtype=ref.dtype, count=prod(ref.shape), offset=offset).view(ref.shape)


def _brief(value: object) -> str:
    return repr(value)[:40] if isinstance(value, str | int | float | None) else type(value).__name__
