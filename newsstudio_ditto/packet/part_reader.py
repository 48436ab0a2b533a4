"""Opening one packet file: a memory map, checked in every respect but the bytes of the tensors.

No name in a file is imported or called, and nothing is read but headers, so opening takes the same time for any number
of frames. Tensors are private maps: writing to one changes memory, never the file.
"""

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.packet.mapped import MappedFile, map_file, open_regular, unreadable
from newsstudio_ditto.packet.meta import PartSeal
from newsstudio_ditto.packet.part_header import PartHeader, read_header
from newsstudio_ditto.packet.plain_pickle import TensorRef
from newsstudio_ditto.packet.plain_unpickle import decode
from newsstudio_ditto.packet.spec import (
    FRAME_AXIS,
    Bindings,
    PartSpec,
    Shape,
    dtype_name,
    expect_names,
    part_spec,
    printable,
    rebuild_hint,
)
from newsstudio_ditto.packet.writer import PartRecord
from newsstudio_ditto.packet.zip_read import Entry, FileBytes, damaged, read_entries

_ALIGN_BYTES = 64
_OWN_ENTRIES = ("data.pkl", "byteorder", "version")
# ``torch.save`` writes the last three; no other entry has a meaning here.
_PLAIN_ENTRIES = {*_OWN_ENTRIES, ".format_version", ".storage_alignment", ".data/serialization_id"}


@dataclass(frozen=True)
class Part:
    """One open packet file.

    Args:
        path: the file.
        bytes: its size.
        header: what it says about itself.
        tensors: mapped tensors by name.
        shapes: shape by tensor name.
        entries: where each tensor lies in the file.
        lengths: what its shapes say about the named axes of the spec.
        mapped: the map behind the tensors.
    """

    path: Path
    bytes: int
    header: PartHeader
    tensors: dict[str, Tensor]
    shapes: dict[str, Shape]
    entries: dict[str, Entry]
    lengths: Bindings
    mapped: MappedFile

    def expect_unchanged(self) -> None:
        """Raise :class:`PacketFormatError` if the file was cut or rewritten in place since it was opened."""
        self.mapped.expect_unchanged()

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
    descriptor, stamp = open_regular(path, where)
    try:
        file = FileBytes(descriptor, stamp.size, where)
        entries = read_entries(file)
        content = _read_content(file, entries)
        mapped = map_file(path, where, descriptor, stamp)
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(descriptor)
    header = read_header(content["header"], spec, where)
    refs = _read_refs(content["tensors"], spec, where)
    shapes = {name: ref.shape for name, ref in refs.items()}
    lengths = spec.bind(shapes, where, {FRAME_AXIS: header.num_frames})
    _expect_entries(entries, spec, where)
    places: dict[str, Entry] = {}
    tensors: dict[str, Tensor] = {}
    for index, name in enumerate(spec.tensor_names):
        ref = refs[name]
        place = places[name] = _entry_of(ref, index, name, entries, where)
        tensors[name] = _map_tensor(mapped.content, ref, place.offset)
    return Part(path, stamp.size, header, tensors, shapes, places, lengths, mapped)


def _read_content(file: FileBytes, entries: Mapping[str, Entry]) -> dict[str, object]:
    """The pickled dict of ``header`` and ``tensors``."""
    for name in ("byteorder", "data.pkl"):
        if name not in entries:
            raise damaged(file.where, f"it has no entry {name}")
    if file.read_entry(entries["byteorder"]) != b"little":
        raise PacketFormatError(f"{file.where}: byte order: expected little, got another", rebuild_hint())
    content = decode(file.read_entry(entries["data.pkl"]), file.where)
    if not isinstance(content, dict) or content.keys() != {"header", "tensors"}:
        raise PacketFormatError(
            f"{file.where}: expected a dict of header and tensors, got something else", rebuild_hint()
        )
    return content


def _read_refs(plain: object, spec: PartSpec, where: str) -> dict[str, TensorRef]:
    refs = plain if isinstance(plain, dict) else {}
    expect_names(refs, spec.tensor_names, f"{where}: tensors")
    for tensor in spec.tensors:
        ref = refs[tensor.name]
        if not isinstance(ref, TensorRef):
            raise PacketFormatError(
                f"{where}: tensor {tensor.name}: expected {tensor}, got a plain value", rebuild_hint()
            )
        tensor.expect_dtype(ref.dtype, where)
    return refs


def _expect_entries(entries: Mapping[str, Entry], spec: PartSpec, where: str) -> None:
    """Refuse an archive that lacks the bytes of a tensor or holds what nobody reads."""
    if (*entries,) == (*spec.entry_names, *_OWN_ENTRIES):
        return
    wanted = set(spec.entry_names)
    for name in sorted((entries.keys() ^ wanted) - _PLAIN_ENTRIES):
        state = "missing" if name in wanted else "unknown"
        raise damaged(where, f"its entry {printable(name)} is {state}")


def _entry_of(ref: TensorRef, index: int, name: str, entries: Mapping[str, Entry], where: str) -> Entry:
    # Tensors of one shape could otherwise change places, or share their bytes, without any other check noticing.
    if ref.key != str(index):
        raise damaged(where, f"tensor {name} is not the one at place {index}")
    entry = entries[f"data/{ref.key}"]
    if entry.size != ref.num_bytes:
        raise damaged(where, f"tensor {name}: expected {ref.num_bytes} bytes, got {entry.size}")
    if entry.offset % _ALIGN_BYTES:
        raise damaged(where, f"tensor {name} starts at byte {entry.offset}, not a multiple of {_ALIGN_BYTES}")
    return entry


def _map_tensor(mapped: mmap.mmap, ref: TensorRef, offset: int) -> Tensor:
    return torch.frombuffer(mapped, dtype=ref.dtype, count=prod(ref.shape), offset=offset).view(ref.shape)
