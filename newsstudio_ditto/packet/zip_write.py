"""Laying out a zip file of stored entries before their bytes are known.

Large entries come first and start on page boundaries, so that they can be written in any order, chunk by chunk; small
entries and the central directory follow at the end, when checksums are known. Zip64 records appear only where a size or
an offset needs them, so that equal content gives equal bytes.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

PAGE_BYTES = 4096

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")

_LIMIT32 = 0xFFFFFFFF
_ZIP64_TAG = 0x0001
_PADDING_TAG = 0xD935
_VERSION = 20
_VERSION64 = 45
# 1 January 1980, the first day zip can say: the clock must not make equal content different bytes.
_DATE = 0x0021


@dataclass(frozen=True)
class Slot:
    """Place of one entry.

    Args:
        name: entry name with the archive's folder.
        header_offset: where its local header starts, bytes.
        header_bytes: length of that header with name, extra fields and padding.
        size: length of its content, bytes.
    """

    name: str
    header_offset: int
    header_bytes: int
    size: int

    @property
    def offset(self) -> int:
        """Where its content starts."""
        return self.header_offset + self.header_bytes

    @property
    def end(self) -> int:
        """First byte after its content."""
        return self.offset + self.size

    def local_header(self, crc: int) -> bytes:
        """The bytes from :attr:`header_offset` to :attr:`offset`."""
        name = self.name.encode()
        extra = _zip64_extra(self.size, self.size) if self.size >= _LIMIT32 else b""
        padding = self.header_bytes - _LOCAL.size - len(name) - len(extra)
        if padding:
            extra += struct.pack("<2H", _PADDING_TAG, padding - 4) + bytes(padding - 4)
        size = min(self.size, _LIMIT32)
        version = _VERSION64 if self.size >= _LIMIT32 else _VERSION
        fixed = _LOCAL.pack(b"PK\x03\x04", version, 0, 0, 0, _DATE, crc, size, size, len(name), len(extra))
        return fixed + name + extra

    def central_header(self, crc: int) -> bytes:
        """Its record in the central directory."""
        name = self.name.encode()
        large = [value for value in (self.size, self.size, self.header_offset) if value >= _LIMIT32]
        extra = _zip64_extra(*large) if large else b""
        version = _VERSION64 if large else _VERSION
        size, offset = min(self.size, _LIMIT32), min(self.header_offset, _LIMIT32)
        lengths = (len(name), len(extra), 0)
        fixed = _CENTRAL.pack(
            b"PK\x01\x02", version, version, 0, 0, 0, _DATE, crc, size, size, *lengths, 0, 0, 0, offset
        )
        return fixed + name + extra


def place_entry(name: str, size: int, offset: int, *, align_bytes: int = 1) -> Slot:
    """Slot of an entry whose local header starts at ``offset`` and whose content is aligned to ``align_bytes``."""
    header_bytes = _LOCAL.size + len(name.encode()) + (20 if size >= _LIMIT32 else 0)
    padding = -(offset + header_bytes) % align_bytes
    while 0 < padding < 4:
        padding += align_bytes
    return Slot(name, offset, header_bytes + padding, size)


def place_entries(root: str, sizes: Mapping[str, int]) -> dict[str, Slot]:
    """Page-aligned slots of ``{root}/{key}`` entries, one after the other from the start of the file, by key."""
    slots: dict[str, Slot] = {}
    offset = 0
    for key, size in sizes.items():
        slots[key] = place_entry(f"{root}/{key}", size, offset, align_bytes=PAGE_BYTES)
        offset = slots[key].end
    return slots


def end_records(entries: list[tuple[Slot, int]], offset: int) -> bytes:
    """Central directory and end records.

    Args:
        entries: slot and CRC-32 of every entry, in file order.
        offset: where the directory starts, bytes.
    """
    directory = b"".join(slot.central_header(crc) for slot, crc in entries)
    count, size = len(entries), len(directory)
    records = b""
    if offset >= _LIMIT32:
        versions = (_VERSION64, _VERSION64)
        records = _END64.pack(b"PK\x06\x06", _END64.size - 12, *versions, 0, 0, count, count, size, offset)
        records += _LOCATOR.pack(b"PK\x06\x07", 0, offset + size, 1)
    return directory + records + _END.pack(b"PK\x05\x06", 0, 0, count, count, size, min(offset, _LIMIT32), 0)


def _zip64_extra(*values: int) -> bytes:
    return struct.pack(f"<2H{len(values)}Q", _ZIP64_TAG, 8 * len(values), *values)
