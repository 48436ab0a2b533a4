"""The orientation tag of pictures, read from the file itself: decoders differ in whether they report it."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from newsstudio_ditto.media.orientation import UPRIGHT, Orientation

_TAG = 0x0112
_SHORT = 3
_MAX_ENTRIES = 1000
_MAX_BLOCK_BYTES = 1 << 20
_ORIENTATIONS = {
    1: UPRIGHT,
    2: Orientation(flip_columns=True),
    3: Orientation(flip_rows=True, flip_columns=True),
    4: Orientation(flip_rows=True),
    5: Orientation(transpose=True),
    6: Orientation(transpose=True, flip_columns=True),
    7: Orientation(transpose=True, flip_rows=True, flip_columns=True),
    8: Orientation(transpose=True, flip_rows=True),
}


def read_exif_orientation(path: Path) -> Orientation:
    """How a JPEG, PNG, WebP or TIFF picture must be turned; upright when the file does not say."""
    with path.open("rb") as file:
        start = file.read(12)
        file.seek(0)
        if start.startswith(b"\xff\xd8"):
            blocks = _jpeg_blocks(file)
        elif start.startswith(b"\x89PNG\r\n\x1a\n"):
            blocks = _png_blocks(file)
        elif start.startswith(b"RIFF") and start[8:] == b"WEBP":
            blocks = _webp_blocks(file)
        elif start[:4] in (b"II*\0", b"MM\0*"):
            blocks = iter([file.read()])
        else:
            return UPRIGHT
        for block in blocks:
            return _parse_tiff(block)
    return UPRIGHT


def _jpeg_blocks(file: BinaryIO) -> Iterator[bytes]:
    file.read(2)
    while True:
        head = file.read(4)
        if len(head) < 4 or head[0] != 0xFF or head[1] in (0xD9, 0xDA):
            return
        body = file.read(max(int.from_bytes(head[2:], "big") - 2, 0))
        if head[1] == 0xE1 and body.startswith(b"Exif\0\0"):
            yield body[6:]


def _png_blocks(file: BinaryIO) -> Iterator[bytes]:
    file.read(8)
    while len(head := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", head)
        if kind == b"eXIf":
            yield file.read(min(length, _MAX_BLOCK_BYTES))
            return
        file.seek(length + 4, 1)


def _webp_blocks(file: BinaryIO) -> Iterator[bytes]:
    file.read(12)
    while len(head := file.read(8)) == 8:
        kind, length = struct.unpack("<4sI", head)
        if kind == b"EXIF":
            yield file.read(min(length, _MAX_BLOCK_BYTES)).removeprefix(b"Exif\0\0")
            return
        file.seek(length + length % 2, 1)


def _parse_tiff(block: bytes) -> Orientation:
    """Look the tag up in the first directory of a TIFF block; anything malformed counts as upright."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None:
        return UPRIGHT
    try:
        (start,) = struct.unpack_from(f"{order}I", block, 4)
        (count,) = struct.unpack_from(f"{order}H", block, start)
        for index in range(min(count, _MAX_ENTRIES)):
            tag, kind, _number, value = struct.unpack_from(f"{order}HHIH", block, start + 2 + 12 * index)
            if tag == _TAG and kind == _SHORT:
                return _ORIENTATIONS.get(value, UPRIGHT)
    except struct.error:
        return UPRIGHT
    return UPRIGHT
