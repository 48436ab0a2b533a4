"""What is written comes back: any small shapes, any way of cutting them into chunks."""

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.packet.meta import MetaFields
from newsstudio_ditto.packet.reader import open_packet, open_part
from newsstudio_ditto.packet.spec import META, TENSOR_PARTS
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import verify_packet
from newsstudio_ditto.packet.writer import write_part
from tests.packet.samples import (
    AVATAR,
    GENERATION,
    LENGTHS,
    MODEL,
    fill_bench,
    make_packet,
    meta_fields,
    random_part,
    stream_of,
)

small = st.integers(1, 4)
even = st.integers(1, 4).map(lambda half: 2 * half)
lengths = st.fixed_dictionaries(
    {"N": st.integers(1, 5), "C": small, "D": small, "Hf": small, "Wf": small, "h": even, "w": even}
).map(lambda known: {**known, "H": known["h"] + 4, "W": known["w"] + 2})


@settings(max_examples=40, deadline=None)
@given(lengths, st.sampled_from(TENSOR_PARTS), st.integers(1, 6), st.integers(0, 2**31))
def test_any_part_comes_back(known: dict[str, int], part: str, rows: int, seed: int) -> None:
    tensors = random_part(part, known, seed)
    with tempfile.TemporaryDirectory() as folder:
        stream = stream_of(part, tensors, rows)
        record = write_part(Path(folder), stream, generation=GENERATION, avatar_id=AVATAR)
        opened = open_part(record.path, part)
        loaded = torch.load(record.path, mmap=True, weights_only=True)["tensors"]
        for name, tensor in tensors.items():
            assert torch.equal(opened.tensors[name], tensor)
            assert torch.equal(loaded[name], tensor)
        assert opened.record().sha256 == record.sha256
        assert opened.header.num_frames == known["N"]
        assert record.bytes == record.path.stat().st_size == opened.bytes
        assert sorted(path.name for path in Path(folder).iterdir()) == [f"{part}.pt"]


@settings(max_examples=12, deadline=None)
@given(lengths, st.integers(0, 2**31))
def test_any_packet_comes_back_and_verifies(known: dict[str, int], seed: int) -> None:
    window = PasteWindow(top=2, left=2, height=known["h"], width=known["w"])
    fields = meta_fields(known, window=window, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        store = AvatarStore(Path(folder))
        fill_bench(store, lengths=known, seed=seed)
        store.seal(AVATAR, fields)
        packet = store.open(AVATAR)
        assert packet.num_frames == known["N"]
        assert packet.paste_window == window
        assert_same_fields(packet.meta, fields)
        assert verify_packet(packet.folder).ok


def assert_same_fields(got: MetaFields, wanted: MetaFields) -> None:
    for name, tensor in wanted.tensors().items():
        assert torch.equal(got.tensors()[name], tensor), name
    for name in ("paste_window", "frame_size", "window", "fps_rule", "colour", "crop", "source_hash", "options"):
        assert getattr(got, name) == getattr(wanted, name), name
    assert (got.generation, got.model_fingerprint) == (wanted.generation, wanted.model_fingerprint)


def test_packet_shows_its_tensors_by_name(tmp_path: Path) -> None:
    make_packet(tmp_path)
    packet = AvatarStore(tmp_path).open(AVATAR)
    assert packet.appearance_volumes.shape == (3, 2, 2, 4, 4)
    assert packet.appearance_volumes.dtype == torch.float16
    assert packet.keypoints["x_s"].shape == (3, 21, 3)
    assert packet.grids.shape == (3, 8, 6, 2)
    assert packet.masks.shape == (3, 1, 8, 6)
    assert packet.frames.shape == (3, 3, 16, 12)
    assert (packet.frame_size.height, packet.frame_size.width) == (16, 12)
    assert packet.meta.stage_versions == {name: f"{name}.1" for name in (*TENSOR_PARTS, META.name)}
    assert packet.meta.parts["f_s"].bytes == (packet.folder / "f_s.pt").stat().st_size
    assert packet.model_fingerprint == MODEL
    assert packet.avatar_id == AVATAR
    assert packet.num_bytes == sum(path.stat().st_size for path in packet.folder.iterdir())


def test_a_still_is_a_packet_of_one_frame(tmp_path: Path) -> None:
    packet = make_packet(tmp_path, lengths={**LENGTHS, "N": 1})
    assert packet.num_frames == 1
    assert verify_packet(packet.folder).ok


def test_writing_to_a_mapped_tensor_leaves_the_file_alone(tmp_path: Path) -> None:
    packet = make_packet(tmp_path)
    before = packet.frames.clone()
    packet.frames.add_(1)
    assert torch.equal(open_packet(packet.folder).frames, before)


def test_a_folder_copied_elsewhere_is_a_packet(tmp_path: Path) -> None:
    packet = make_packet(tmp_path / "root")
    copy = tmp_path / "a copy"
    copy.mkdir()
    for path in packet.folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert torch.equal(open_packet(copy).frames, packet.frames)


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_checksum_is_of_the_content_not_of_the_chunks(tmp_path: Path, rows: int) -> None:
    tensors = random_part("grids")
    record = write_part(tmp_path, stream_of("grids", tensors, rows), generation="other", avatar_id="bob")
    whole = write_part(tmp_path, stream_of("grids", tensors, 99), generation=GENERATION, avatar_id=AVATAR)
    assert record.sha256 == whole.sha256
    changed = {"grids": tensors["grids"] + 1}
    assert write_part(tmp_path, stream_of("grids", changed), generation="g", avatar_id="a").sha256 != record.sha256
