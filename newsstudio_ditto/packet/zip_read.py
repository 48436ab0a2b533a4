"""Finding the entries of a mapped zip file, strictly: stored, unencrypted, one after the other, nothing in between."""

import os
import struct
import zlib
from typing import NamedTuple

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.packet.spec import rebuild_hint

MAX_ENTRIES = 64
MAX_HEADER_BYTES = 2**20
"""Real headers have some kilobytes; each byte of a hostile one can cost 80 bytes of memory to read."""

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_LIMIT32 = 0xFFFFFFFF
_TAIL_BYTES = 16 * 2**10
_HEAD_BYTES = 128
"""The first local header, with a name as long as ours, and what a foreign file is told by."""
_DESCRIPTOR_FLAG = 0x0008
_UTF8_FLAG = 0x0800
_DESCRIPTOR_BYTES = 24


class FileBytes:
    """A file read by pieces. Its first bytes and last pages, where the headers are, are read once.

    Reading headers through a fresh memory map would cost a page fault each, more than all else that opening does.

    Args:
        descriptor: the open file; it must stay open while this is used.
        size: its length.
        where: its path, for messages.
    """

    def __init__(self, descriptor: int, size: int, where: str) -> None:
        """Read both ends of the file."""
        self.size = size
        self.where = where
        self._descriptor = descriptor
        self._tail_start = max(0, size - _TAIL_BYTES)
        self._tail = os.pread(descriptor, _TAIL_BYTES, self._tail_start)
        self._head = os.pread(descriptor, _HEAD_BYTES, 0) if self._tail_start else self._tail

    def read(self, offset: int, count: int) -> bytes:
        """``count`` bytes from ``offset`` on.

        Raises:
            PacketFormatError: they are not all in the file.
        """
        end = offset + count
        if offset < 0 or count < 0 or end > self.size:
            raise damaged(self.where, "a record lies outside the file")
        if offset >= self._tail_start:
            content = self._tail[offset - self._tail_start : end - self._tail_start]
        elif end <= _HEAD_BYTES:
            content = self._head[offset:end]
        else:
            content = os.pread(self._descriptor, count, offset)
        if len(content) != count:
            raise damaged(self.where, "it was cut short while it was read")
        return content

    def read_entry(self, entry: "Entry") -> bytes:
        """Content of a small entry, checked.

        Raises:
            PacketFormatError: larger than any header, or its CRC-32 is wrong.
        """
        if entry.size > MAX_HEADER_BYTES:
            raise damaged(self.where, f"entry {entry.name} is {entry.size} bytes long")
        content = self.read(entry.offset, entry.size)
        if zlib.crc32(content) != entry.crc:
            raise damaged(self.where, f"the CRC-32 of entry {entry.name} is wrong")
        return content


class Entry(NamedTuple):
    """One stored entry.

    Args:
        name: without the archive's folder.
        header_offset: where its local header starts.
        offset: where its content starts.
        size: length of its content.
        crc: CRC-32 of its content.
    """

    name: str
    header_offset: int
    offset: int
    size: int
    crc: int


def damaged(where: str, problem: str) -> PacketFormatError:
    """The error for a file whose container is broken."""
    return PacketFormatError(f"{where} is damaged: {problem}", rebuild_hint())


def read_entries(file: FileBytes) -> dict[str, Entry]:
    """Every entry of a zip file, by name without the archive's folder.

    Raises:
        PacketFormatError: not a zip file, cut short, or not laid out as packets are.
    """
    head = file.read(0, min(16, file.size))
    if not head.startswith(b"PK\x03\x04"):
        raise PacketFormatError(f"{file.where} is {_describe(head)}, not a packet file", rebuild_hint())
    try:
        count, start, end = _find_directory(file)
        entries = _read_directory(file, count, start, end)
    except struct.error as error:
        raise damaged(file.where, "a record is cut short") from error
    _expect_adjacent(list(entries.values()), start, file.where)
    return entries


def _describe(head: bytes) -> str:
    if head[:2] == b"\x80\x02":
        return "in torch's old format or a bare pickle, which cannot be mapped"
    if head[:1] == b"\x80":
        return "a bare pickle"
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32:
        return "a safetensors file"
    if head[:2] in (b"PK", b"\x1f\x8b", b"BZ"):
        return "some other archive"
    return "text" if head.isascii() and head.decode("ascii").isprintable() else "of an unknown format"


def _find_directory(file: FileBytes) -> tuple[int, int, int]:
    """Number of entries, and first and last byte (exclusive) of the central directory."""
    end = file.size - _END.size
    record = file.read(end, _END.size) if end > 0 else b""
    if not record.startswith(b"PK\x05\x06"):
        raise damaged(file.where, "the end record is missing: the file was cut short or something was appended")
    _, disk, first_disk, here, count, size, start, comment = _END.unpack(record)
    locator = end - _LOCATOR.size
    record = file.read(locator, _LOCATOR.size) if locator > 0 else b""
    if record.startswith(b"PK\x06\x07"):
        _, _, end, _ = _LOCATOR.unpack(record)
        record = file.read(end, _END64.size)
        if end != locator - _END64.size or not record.startswith(b"PK\x06\x06"):
            raise damaged(file.where, "the zip64 end record is not where it should be")
        _, _, _, _, disk, first_disk, here, count, size, start = _END64.unpack(record)
    if disk or first_disk or comment or here != count or not 0 < count <= MAX_ENTRIES or start + size != end:
        raise damaged(file.where, "the end record contradicts itself")
    return count, start, end


def _read_directory(file: FileBytes, count: int, start: int, end: int) -> dict[str, Entry]:
    if end - start > MAX_HEADER_BYTES:
        raise damaged(file.where, "the central directory is too long")
    directory = file.read(start, end - start)
    entries: dict[str, Entry] = {}
    position = 0
    root = b""
    for _ in range(count):
        fields = _CENTRAL.unpack_from(directory, position)
        signature, _, _, flags, method, _, _, crc, packed, size, name_len, extra_len, note_len, _, _, _, header = fields
        name_start = position + _CENTRAL.size
        name_end = name_start + name_len
        position = name_end + extra_len + note_len
        if signature != b"PK\x01\x02" or position > len(directory):
            raise damaged(file.where, "the central directory is broken")
        if method or flags & ~(_DESCRIPTOR_FLAG | _UTF8_FLAG):
            raise damaged(file.where, "an entry is compressed or encrypted; packet entries are stored")
        path = directory[name_start:name_end]
        if _LIMIT32 in (packed, size, header):
            extra = directory[name_end : name_end + extra_len]
            packed, size, header = _widen(packed, size, header, extra, file.where)
        root = root or path[: path.find(b"/") + 1]
        name = path[len(root) :].decode("utf-8", "replace")
        if len(root) < 2 or not path.startswith(root) or not name or name in entries or packed != size:
            raise damaged(file.where, "the central directory contradicts itself")
        content = _content_offset(file, header, path, (flags, crc, size))
        entries[name] = Entry(name, header, content, size, crc)
    if position != len(directory):
        raise damaged(file.where, "the central directory has something left over")
    return entries


def _widen(packed: int, size: int, header: int, extra: bytes, where: str) -> tuple[int, int, int]:
    """Sizes and offset with the 64-bit values of the zip64 extra field in place of the marked ones."""
    values = [packed, size, header]
    # The extra field lists them in the order size, packed size, offset.
    wide = [index for index in (1, 0, 2) if values[index] == _LIMIT32]
    if wide:
        tag, length = struct.unpack_from("<2H", extra)
        if tag != 1 or length < 8 * len(wide):
            raise damaged(where, "a zip64 field is missing")
        for index, value in zip(wide, struct.unpack_from(f"<{len(wide)}Q", extra, 4), strict=True):
            values[index] = value
    return values[0], values[1], values[2]


def _content_offset(file: FileBytes, header: int, name: bytes, central: tuple[int, int, int]) -> int:
    """Where the content of an entry starts, from its local header, which has to agree with the directory."""
    record = file.read(header, _LOCAL.size + len(name))
    signature, _, flags, method, _, _, crc, _, size, name_len, extra_len = _LOCAL.unpack_from(record)
    same = (signature, method, flags, name_len) == (b"PK\x03\x04", 0, central[0], len(name))
    same = same and record.endswith(name)
    if not flags & _DESCRIPTOR_FLAG:
        same = same and crc == central[1] and size == min(central[2], _LIMIT32)
    if not same:
        raise damaged(file.where, f"the local header at byte {header} disagrees with the central directory")
    return header + len(record) + int(extra_len)


def _expect_adjacent(entries: list[Entry], start: int, where: str) -> None:
    """Refuse entries that overlap or leave gaps, which a damaged length would cause."""
    previous, slack = 0, 0
    for begin, end in [*sorted((entry.header_offset, entry.offset + entry.size) for entry in entries), (start, start)]:
        if not previous <= begin <= previous + slack:
            raise damaged(where, f"its entries are not adjacent at byte {previous}")
        # Plain torch.save puts a data descriptor of up to 24 bytes behind each entry.
        previous, slack = end, _DESCRIPTOR_BYTES
