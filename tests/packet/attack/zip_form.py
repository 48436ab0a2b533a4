"""Writing packet files by hand, with any field of the container wrong."""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from newsstudio_ditto.packet.plain_pickle import TensorRef, encode
from newsstudio_ditto.packet.spec import PARTS, TENSOR_PARTS

ALIGN_BYTES = 64


@dataclass
class Form:
    """One entry of an archive and what its headers claim.

    Args:
        name: with the archive's folder.
        content: its bytes as they lie in the file.
        method: 0 stored, 8 deflated.
        flags: general purpose bits.
        crc: claimed; None for the right one.
        size: claimed unpacked size; None for the right one.
        packed: claimed packed size; None for the right one.
        offset: claimed place of the local header; None for the right one.
        local: fields of this form as the local header has them, where they differ.
        extra: extra field of the central directory.
        before: bytes in front of the local header that belong to nobody.
        behind: bytes behind the content, such as a data descriptor.
    """

    name: str
    content: bytes
    method: int = 0
    flags: int = 0
    crc: int | None = None
    size: int | None = None
    packed: int | None = None
    offset: int | None = None
    local: dict[str, int | str] = field(default_factory=dict)
    extra: bytes = b""
    before: bytes = b""
    behind: bytes = b""

    def fixed(self) -> tuple[int, int, int, int, int]:
        """Flags, method, CRC, packed and unpacked size as claimed."""
        crc = zlib.crc32(self.content) if self.crc is None else self.crc
        packed = len(self.content) if self.packed is None else self.packed
        return self.flags, self.method, crc, packed, len(self.content) if self.size is None else self.size


@dataclass
class End:
    """What the end record claims; None for the right value."""

    count: int | None = None
    size: int | None = None
    start: int | None = None
    comment: bytes = b""
    wide: bool = False
    between: bytes = b""


def pack(forms: list[Form], end: End | None = None) -> bytes:
    """An archive of these entries, data aligned to 64 bytes."""
    content, directory = bytearray(), bytearray()
    for form in forms:
        content += form.before
        place = len(content) if form.offset is None else form.offset
        content += _local_header(form, len(content)) + form.content + form.behind
        flags, method, crc, packed, size = form.fixed()
        name = form.name.encode("utf-8", "surrogatepass")
        lengths = (len(name), len(form.extra), 0, 0, 0, 0)
        directory += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 20, 20, flags, method, 0, 33, crc, packed, size, *lengths, place
        )
        directory += name + form.extra
    return bytes(content) + _ending(len(content), bytes(directory), len(forms), end or End())


def _local_header(form: Form, place: int) -> bytes:
    changed = replace(form, **form.local)  # type: ignore[arg-type]
    flags, method, crc, packed, size = changed.fixed()
    name = changed.name.encode("utf-8", "surrogatepass")
    padding = -(place + 30 + len(name)) % ALIGN_BYTES if "/data/" in form.name else 0
    padding += ALIGN_BYTES if 0 < padding < 4 else 0
    extra = struct.pack("<2H", 0xD935, padding - 4) + bytes(padding - 4) if padding else b""
    lengths = (len(name), len(extra))
    return struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 33, crc, packed, size, *lengths) + name + extra


def _ending(start: int, directory: bytes, count: int, end: End) -> bytes:
    count = count if end.count is None else end.count
    size = len(directory) if end.size is None else end.size
    claimed = start if end.start is None else end.start
    records = end.between
    if end.wide:
        records += struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, claimed)
        records += struct.pack("<4sLQL", b"PK\6\7", 0, start + len(directory) + len(end.between), 1)
        count, size, claimed = min(count, 0xFFFF), min(size, 0xFFFFFFFF), min(claimed, 0xFFFFFFFF)
    tail = (0, 0, count & 0xFFFF, count & 0xFFFF, size & 0xFFFFFFFF, claimed & 0xFFFFFFFF, len(end.comment))
    return directory + records + struct.pack("<4s4H2LH", b"PK\5\6", *tail) + end.comment


def load(path: Path) -> dict[str, object]:
    """Content of a good packet file."""
    content: dict[str, object] = torch.load(path, weights_only=True)
    return content


def raw(tensor: torch.Tensor) -> bytes:
    """Bytes of a tensor."""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def refs_of(part: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, TensorRef]:
    """How a good file refers to its tensors."""
    return {
        spec.name: TensorRef(str(index), tensors[spec.name].dtype, tuple(tensors[spec.name].shape))
        for index, spec in enumerate(PARTS[part])
    }


def forms_of(part: str, pickled: bytes, tensors: Mapping[str, torch.Tensor]) -> list[Form]:
    """The entries of a file with this pickle."""
    data = [Form(f"{part}/data/{index}", raw(tensors[spec.name])) for index, spec in enumerate(PARTS[part])]
    small = {"data.pkl": pickled, "byteorder": b"little", "version": b"3\n"}
    return data + [Form(f"{part}/{name}", content) for name, content in small.items()]


def reseal(meta: Path, part: str, size: int) -> None:
    """Let the seal agree with the size of a spoiled file, so that something else has to notice."""
    if part not in TENSOR_PARTS:
        return
    content = load(meta)
    header, tensors = content["header"], content["tensors"]
    assert isinstance(header, dict)
    assert isinstance(tensors, dict)
    header["extra"]["parts"][part]["bytes"] = size
    pickled = encode({"header": header, "tensors": refs_of("meta", tensors)})
    meta.write_bytes(pack(forms_of("meta", pickled, tensors)))
