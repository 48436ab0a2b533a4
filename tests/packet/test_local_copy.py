"""Local copies of packets: made once, checked, and dropped in the order of their use."""

import os
from pathlib import Path

import pytest

from newsstudio_ditto.errors import PacketFormatError, PacketMissingError
from newsstudio_ditto.packet.local_copy import LocalPackets, open_nearest
from newsstudio_ditto.packet.store import AvatarStore, tree_bytes
from tests.packet.samples import make_packet


@pytest.fixture
def store(tmp_path: Path) -> AvatarStore:
    return AvatarStore(tmp_path / "shared")


@pytest.fixture
def copies(tmp_path: Path) -> LocalPackets:
    return LocalPackets(tmp_path / "local", 10**9)


def names(copies: LocalPackets) -> list[str]:
    return sorted(path.parent.name for path in copies.folder.glob("*/*"))


def test_a_packet_is_copied_once(store: AvatarStore, copies: LocalPackets, monkeypatch: pytest.MonkeyPatch) -> None:
    published = make_packet(store.root, "anna")
    first = copies.open(store, "anna")
    assert first.folder.is_relative_to(copies.folder)
    assert (first.generation, first.num_bytes) == (published.generation, published.num_bytes)
    monkeypatch.setattr("shutil.copyfile", None)
    assert copies.open(store, "anna").folder == first.folder


def test_a_new_seal_is_copied_anew(store: AvatarStore, copies: LocalPackets) -> None:
    make_packet(store.root, "anna")
    first = copies.open(store, "anna")
    make_packet(store.root, "anna", seed=1)
    second = copies.open(store, "anna")
    assert second.folder != first.folder
    assert not (second.frames == first.frames).all()


def test_a_damaged_source_is_not_kept(store: AvatarStore, copies: LocalPackets) -> None:
    packet = make_packet(store.root, "anna")
    path = packet.folder / "frames.pt"
    content = bytearray(path.read_bytes())
    content[content.index(packet.frames.numpy().tobytes())] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(PacketFormatError, match="damaged"):
        open_nearest(store, "anna", copies)
    assert names(copies) == []


def test_the_least_recently_used_copy_goes_first(store: AvatarStore, copies: LocalPackets) -> None:
    for avatar_id in ("anna", "ben", "cleo"):
        make_packet(store.root, avatar_id)
    size = tree_bytes([copies.open(store, "anna").folder])
    two = LocalPackets(copies.folder, 2 * size + size // 2)
    two.open(store, "ben")
    for path in copies.folder.glob("*/*"):
        os.utime(path, (1, 1 if path.parent.name == "ben" else 2))
    held = two.open(store, "ben")
    two.open(store, "cleo")
    assert names(copies) == ["ben", "cleo"]
    tiny = LocalPackets(copies.folder, 1)
    assert tiny.open(store, "anna").num_frames
    assert names(copies) == ["anna"]
    assert held.frames.sum() > 0, "an open map outlives its copy"


def test_an_unknown_avatar_is_unknown(store: AvatarStore, copies: LocalPackets) -> None:
    with pytest.raises(PacketMissingError):
        open_nearest(store, "nobody", copies)
    make_packet(store.root, "anna")
    assert open_nearest(store, "anna", None).folder.is_relative_to(store.root)
