"""What happens to an open packet when somebody meddles with its files."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.packet.spec import PART_NAMES
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import check_bytes, verify_packet
from tests.packet.samples import AVATAR, make_packet


@pytest.fixture
def packet(tmp_path: Path) -> Packet:
    return make_packet(tmp_path)


def test_an_untouched_packet_is_unchanged(packet: Packet) -> None:
    packet.expect_unchanged()


@pytest.mark.parametrize("part", PART_NAMES)
def test_a_file_that_was_cut_is_named_instead_of_killing_the_reader(packet: Packet, part: str) -> None:
    os.truncate(packet.parts[part].path, 100)
    with pytest.raises(PacketFormatError, match=rf"{part}\.pt is damaged: it was cut or extended"):
        packet.expect_unchanged()
    with pytest.raises(PacketFormatError, match="cut or extended"):
        list(check_bytes(packet.parts[part]))


def test_reading_past_the_cut_would_kill_the_process(packet: Packet) -> None:
    """Why the check above is made: there is no error to catch."""
    code = (
        "import os, sys; from pathlib import Path; from newsstudio_ditto.packet.reader import open_packet;"
        "packet = open_packet(Path(sys.argv[1])); os.truncate(packet.folder / 'frames.pt', 10); packet.frames.sum()"
    )
    command = [sys.executable, "-c", code, str(packet.folder)]
    ended = subprocess.run(command, cwd=packet.folder.parent, check=False)
    assert ended.returncode == -signal.SIGBUS


def test_a_file_rewritten_in_place_with_the_same_length_is_named(packet: Packet) -> None:
    path = packet.folder / "masks.pt"
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(PacketFormatError, match=r"masks\.pt is damaged: it was written to while it was in use"):
        packet.expect_unchanged()


def test_removing_replacing_and_linking_are_no_matter(packet: Packet, tmp_path: Path) -> None:
    frames = packet.frames.clone()
    os.link(packet.folder / "frames.pt", tmp_path / "second name")
    packet.expect_unchanged()
    (packet.folder / "frames.pt").chmod(0)
    packet.expect_unchanged()
    make_packet(tmp_path, seed=3)
    assert not packet.folder.exists()
    packet.expect_unchanged()
    AvatarStore(tmp_path).remove(AVATAR)
    packet.folder.mkdir(parents=True)
    for part in PART_NAMES:
        (packet.folder / f"{part}.pt").write_bytes(b"something else")
    packet.expect_unchanged()
    assert torch.equal(packet.frames, frames)


def test_a_ring_of_links_is_no_packet_and_the_next_seal_replaces_it(packet: Packet, tmp_path: Path) -> None:
    store = AvatarStore(tmp_path)
    link = store.published(AVATAR)
    link.unlink()
    link.symlink_to(link.name)
    with pytest.raises(PacketFormatError, match="leads out of the store"):
        store.open(AVATAR)
    assert link in store.leftovers()
    assert store.list() == []
    new = make_packet(tmp_path, seed=2)
    assert open_packet(link).folder == new.folder


def test_a_copy_of_the_folder_that_loses_a_race_is_refused_not_mapped_short(packet: Packet, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(packet.folder, tmp_path / "copy"))
    os.truncate(folder / "grids.pt", (folder / "grids.pt").stat().st_size - 1)
    with pytest.raises(PacketFormatError, match=r"grids\.pt is damaged"):
        open_packet(folder)


def test_a_packet_that_is_cut_while_it_is_verified_is_one_finding(packet: Packet) -> None:
    def frames() -> Iterator[np.ndarray]:
        yield np.ascontiguousarray(packet.frames[0].permute(1, 2, 0).numpy())
        os.truncate(packet.folder / "frames.pt", 100)
        yield np.zeros((16, 12, 3), np.uint8)

    report = verify_packet(packet.folder, source=frames())
    assert [finding.field for finding in report.findings] == ["PacketFormatError"]
    assert "cut or extended" in str(report.findings[0])
