"""Damage to bytes, as disks, networks and editors do it."""

import random
import zlib

from newsstudio_ditto.packet.zip_read import Entry, FileBytes, read_entries
from tests.packet.attack.case import FOUND, READ, REFUSED, Case, Registry

BYTES = Registry()
ANYTHING = (REFUSED, FOUND, READ)
BLIND_KINDS = ("flip a bit", "flip a header bit", "zero a range", "cut out", "insert", "repeat", "truncate", "swap")


def mutate(content: bytearray, kind: str, draw: random.Random) -> bytearray:
    """One change to the bytes of a file; ``kind`` says which."""
    start = draw.randrange(len(content))
    length = draw.choice([1, 4, 64, 4096])
    piece = content[start : start + length]
    match kind:
        case "flip a bit":
            content[start] ^= 1 << draw.randrange(8)
        case "flip a header bit":
            # Headers are at the end of the file, and in front of each page-aligned tensor.
            place = draw.choice([len(content) - 1 - draw.randrange(1200), draw.randrange(60)])
            content[place] ^= 1 << draw.randrange(8)
        case "zero a range":
            content[start : start + length] = bytes(len(piece))
        case "cut out":
            del content[start : start + length]
        case "insert":
            content[start:start] = draw.randbytes(length)
        case "repeat":
            content[start:start] = piece
        case "truncate":
            del content[start:]
        case "swap":
            other = draw.randrange(len(content))
            content[start], content[other] = content[other], content[start]
    return content


def _blindly(kind: str) -> None:
    @BYTES.add(f"bytes: {kind}", *ANYTHING)
    def change(case: Case) -> None:
        case.path.write_bytes(mutate(bytearray(case.path.read_bytes()), kind, case.draw))


for _kind in BLIND_KINDS:
    _blindly(_kind)


def entries_of(case: Case) -> dict[str, Entry]:
    """Where everything lies in the file to spoil."""
    with case.path.open("rb") as file:
        return read_entries(FileBytes(file.fileno(), case.path.stat().st_size, str(case.path)))


def flip(case: Case, start: int, stop: int, count: int = 1) -> None:
    """Flip some bits between two places of the file to spoil."""
    content = bytearray(case.path.read_bytes())
    for _ in range(count):
        content[case.draw.randrange(start, stop)] ^= 1 << case.draw.randrange(8)
    case.path.write_bytes(content)


@BYTES.add("bits of a tensor", FOUND)
def tensor_bits(case: Case) -> None:
    entry = case.original.parts[case.part].entries[case.tensor_name]
    flip(case, entry.offset, entry.offset + entry.size)


@BYTES.add("a tensor half zero", FOUND, READ)
def tensor_zeroed(case: Case) -> None:
    entry = case.original.parts[case.part].entries[case.tensor_name]
    content = bytearray(case.path.read_bytes())
    content[entry.offset : entry.offset + entry.size // 2] = bytes(entry.size // 2)
    case.path.write_bytes(content)


@BYTES.add("infinities in a tensor", FOUND, parts=("f_s", "keypoints", "grids"))
def tensor_not_finite(case: Case) -> None:
    entry = case.original.parts[case.part].entries[case.tensor_name]
    content = bytearray(case.path.read_bytes())
    place = entry.offset + 4 * case.draw.randrange(entry.size // 4)
    content[place : place + 4] = b"\x00\x7c\x80\x7f"
    case.path.write_bytes(content)


@BYTES.add("bits of the pickle")
def pickle_bits(case: Case) -> None:
    entry = entries_of(case)["data.pkl"]
    flip(case, entry.offset, entry.offset + entry.size)


@BYTES.add("bits of the central directory", REFUSED, READ)
def directory_bits(case: Case) -> None:
    last = max(entries_of(case).values(), key=lambda entry: entry.offset)
    flip(case, last.offset + last.size, case.path.stat().st_size, case.draw.choice([1, 1, 3]))


@BYTES.add("bits of local headers", REFUSED, READ)
def local_header_bits(case: Case) -> None:
    entry = case.draw.choice(list(entries_of(case).values()))
    flip(case, entry.header_offset, entry.header_offset + 40)


@BYTES.add("the last record cut short")
def cut_in_the_end_record(case: Case) -> None:
    content = case.path.read_bytes()
    case.path.write_bytes(content[: -case.draw.randrange(1, 23)])


@BYTES.add("bytes in front", REFUSED)
def prepended(case: Case) -> None:
    case.path.write_bytes(case.draw.randbytes(case.draw.choice([1, 64, 4096])) + case.path.read_bytes())


@BYTES.add("bytes behind", REFUSED)
def appended(case: Case) -> None:
    case.path.write_bytes(case.path.read_bytes() + case.draw.randbytes(case.draw.choice([1, 22, 4096])))


@BYTES.add("the same file twice in one", REFUSED)
def doubled(case: Case) -> None:
    case.path.write_bytes(case.path.read_bytes() * 2)


@BYTES.add("noise", REFUSED)
def noise(case: Case) -> None:
    case.path.write_bytes(b"PK\x03\x04" + case.draw.randbytes(case.draw.randrange(1, 20_000)))


@BYTES.add("wrong CRC in both places", REFUSED, READ)
def wrong_crc(case: Case) -> None:
    """Of a header it is refused; of a tensor nobody asks but verify, and the tensor is right."""
    entries = entries_of(case)
    del entries["version"]
    entry = case.draw.choice(list(entries.values()))
    content = case.path.read_bytes()
    right = zlib.crc32(content[entry.offset : entry.offset + entry.size]).to_bytes(4, "little")
    case.path.write_bytes(content.replace(right, case.draw.randbytes(4)))
