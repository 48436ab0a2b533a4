"""The zip container: what other tools make of it, alignment, files over 4 GiB, and plain torch.save files."""

import os
import struct
import zipfile
import zlib
from math import prod
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.packet.plain_pickle import TensorRef, encode
from newsstudio_ditto.packet.reader import open_part
from newsstudio_ditto.packet.spec import FORMAT_NAME, PACKET_VERSION, PART_NAMES
from newsstudio_ditto.packet.writer import write_part
from newsstudio_ditto.packet.zip_read import FileBytes, read_entries
from newsstudio_ditto.packet.zip_write import PAGE_BYTES, end_records, place_entries, place_entry
from tests.packet.samples import AVATAR, GENERATION, make_packet, random_part, stream_of

GIB = 2**30


@pytest.fixture(scope="module")
def packet_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_packet(tmp_path_factory.mktemp("root")).folder


@pytest.mark.parametrize("part", PART_NAMES)
def test_torch_maps_every_file_safely(packet_folder: Path, part: str) -> None:
    path = packet_folder / f"{part}.pt"
    content = torch.load(path, mmap=True, weights_only=True)
    opened = open_part(path, part)
    assert content["header"]["part"] == part
    assert content["header"]["extra"] == opened.header.extra
    for name, tensor in opened.tensors.items():
        assert torch.equal(content["tensors"][name], tensor)
        assert content["tensors"][name].dtype == tensor.dtype
    unmapped = torch.load(path, weights_only=True)
    assert all(torch.equal(unmapped["tensors"][name], tensor) for name, tensor in opened.tensors.items())


@pytest.mark.parametrize("part", PART_NAMES)
def test_zip_tools_find_no_fault_and_tensors_start_on_pages(packet_folder: Path, part: str) -> None:
    path = packet_folder / f"{part}.pt"
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    opened = open_part(path, part)
    assert all(entry.offset % PAGE_BYTES == 0 for entry in opened.entries.values())
    raw = path.read_bytes()
    for name, entry in opened.entries.items():
        content = raw[entry.offset : entry.offset + entry.size]
        assert content == opened.tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        assert zlib.crc32(content) == entry.crc


def test_equal_content_gives_equal_files_whatever_the_chunks(tmp_path: Path) -> None:
    tensors = random_part("keypoints")
    for folder, rows in (("a", 1), ("b", 3)):
        write_part(tmp_path / folder, stream_of("keypoints", tensors, rows), generation=GENERATION, avatar_id=AVATAR)
    assert (tmp_path / "a/keypoints.pt").read_bytes() == (tmp_path / "b/keypoints.pt").read_bytes()


@given(
    st.dictionaries(st.text("abcdef/", min_size=1, max_size=40), st.integers(0, 20 * GIB), min_size=1, max_size=6),
    st.sampled_from(["f_s", "a" * 30]),
)
def test_slots_are_aligned_adjacent_and_their_headers_fit(sizes: dict[str, int], root: str) -> None:
    slots = place_entries(root, sizes)
    offset = 0
    for key, slot in slots.items():
        assert slot.header_offset == offset
        assert slot.offset % PAGE_BYTES == 0
        assert slot.size == sizes[key]
        assert len(slot.local_header(0x1234)) == slot.header_bytes
        offset = slot.end


def write_sparse(path: Path, sizes: dict[str, int], pickled: bytes) -> dict[str, int]:
    """A packet-like file whose tensors are holes; returns the offsets of the tensors."""
    slots = place_entries("big", {f"data/{key}": size for key, size in sizes.items()})
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    entries = []
    for slot in slots.values():
        os.pwrite(descriptor, slot.local_header(0), slot.header_offset)
        entries.append((slot, 0))
    offset = max(slot.end for slot in slots.values())
    for name, content in {"data.pkl": pickled, "byteorder": b"little", "version": b"3\n"}.items():
        slot, crc = place_entry(f"big/{name}", len(content), offset), zlib.crc32(content)
        os.pwrite(descriptor, slot.local_header(crc) + content, offset)
        entries.append((slot, crc))
        offset = slot.end
    os.pwrite(descriptor, end_records(entries, offset), offset)
    os.close(descriptor)
    return {key: slots[f"data/{key}"].offset for key in sizes}


@pytest.mark.parametrize("large", [2**32 - 2, 2**32 - 1, 2**32, 5 * GIB])
def test_files_over_4_gib_are_read_by_all(tmp_path: Path, large: int) -> None:
    path = tmp_path / "big.pt"
    shapes = {"0": (large,), "1": (4,)}
    refs = {f"t{key}": TensorRef(key, torch.uint8, shape) for key, shape in shapes.items()}
    offsets = write_sparse(path, {key: shape[0] for key, shape in shapes.items()}, encode({"tensors": refs}))
    descriptor = os.open(path, os.O_RDWR)
    os.pwrite(descriptor, b"\x07", offsets["0"] + large - 1)
    os.pwrite(descriptor, b"\x01\x02\x03\x04", offsets["1"])
    entries = read_entries(FileBytes(descriptor, os.fstat(descriptor).st_size, "big.pt"))
    os.close(descriptor)
    assert {key: entries[f"data/{key}"].offset for key in offsets} == offsets
    assert entries["data/0"].size == large
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo("big/data/0").file_size == large
        assert archive.read("big/version") == b"3\n"
    tensors = torch.load(path, mmap=True, weights_only=True)["tensors"]
    assert tensors["t0"][-1] == 7
    assert tensors["t1"].tolist() == [1, 2, 3, 4]


def test_a_file_larger_than_memory_is_mapped_and_opens_at_once(tmp_path: Path) -> None:
    # A private map counts against memory unless the reader says that nobody will copy it.
    shape = (100_000, 3, 1080, 1920)
    header = {
        "format": FORMAT_NAME,
        "version": PACKET_VERSION,
        "part": "frames",
        "avatar_id": AVATAR,
        "generation": GENERATION,
        "stage_version": "1",
        "num_frames": shape[0],
        "checksums": {"frames": "0" * 64},
        "extra": {},
    }
    pickled = encode({"header": header, "tensors": {"frames": TensorRef("0", torch.uint8, shape)}})
    write_sparse(tmp_path / "frames.pt", {"0": prod(shape)}, pickled)
    assert open_part(tmp_path / "frames.pt", "frames").tensors["frames"][-1, 0, 0, 0] == 0


def test_a_plain_torch_save_of_the_same_content_is_read(packet_folder: Path, tmp_path: Path) -> None:
    content = torch.load(packet_folder / "keypoints.pt", weights_only=True)
    torch.save(content, tmp_path / "keypoints.pt")
    again = open_part(tmp_path / "keypoints.pt", "keypoints")
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in content["tensors"].items())
    assert again.header == open_part(packet_folder / "keypoints.pt", "keypoints").header


def test_the_date_in_the_file_is_fixed(packet_folder: Path) -> None:
    with zipfile.ZipFile(packet_folder / "masks.pt") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_file_begins_with_a_local_header(packet_folder: Path) -> None:
    head = (packet_folder / "frames.pt").read_bytes()[:30]
    signature, *_, name_length, _extra = struct.unpack("<4s5H3L2H", head)
    assert signature == b"PK\x03\x04"
    assert name_length == len("frames/data/0")
