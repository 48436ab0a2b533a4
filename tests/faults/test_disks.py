"""Full disks, read-only folders and limits on files: a typed error, the old packet stays, and space mends it."""

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from newsstudio_ditto.api import build_packet, render_video
from newsstudio_ditto.config import PacketOptions, RenderOptions
from newsstudio_ditto.errors import DittoError, FfmpegError, PacketError, StorageError
from newsstudio_ditto.storage import StorageLayout
from tests.faults import child
from tests.faults.child import Stop
from tests.faults.conftest import AVATAR, NEW_FRAMES, OLD_FRAMES, Render, expect_mended, expect_whole, run
from tests.media import clips

Wanted = dict[str, dict[str, str]]
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")


def prepare_here(root: Path, model: Path) -> None:
    options = PacketOptions(max_frames=NEW_FRAMES)
    build_packet(StorageLayout(root), clips.ANCHOR, AVATAR, options=options, model=str(model))


@pytest.fixture
def small_disk(filled: Path, tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MiB that holds a copy of the storage folder."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(disk)], check=True)
    try:
        yield Path(shutil.copytree(filled, disk / "storage", symlinks=True))
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextmanager
def filled_up(disk: Path) -> Iterator[None]:
    """Not one byte is left on a disk while the block runs."""
    ballast = disk / "ballast"
    fill(ballast)
    try:
        yield
    finally:
        ballast.unlink()


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


@needs_root
def test_a_full_disk_is_said_and_the_old_packet_stays(small_disk: Path, model: Path, wanted: Wanted) -> None:
    with filled_up(small_disk.parent), pytest.raises(PacketError) as caught:
        prepare_here(small_disk, model)
    assert "space" in str(caught.value)
    assert expect_whole(small_disk) == OLD_FRAMES
    expect_mended(small_disk, model, wanted)


@needs_root
@pytest.mark.faults
@pytest.mark.parametrize("step", ["frames 0", "face_track 2", "f_s 0", "keypoints 0", "grids 0", "masks 0"])
def test_a_disk_that_fills_up_inside_a_step_is_said(step: str, small_disk: Path, model: Path, wanted: Wanted) -> None:
    """Every step has asked for its room before; somebody else takes it then."""
    ballast = small_disk.parent / "ballast"
    arguments = (small_disk, clips.ANCHOR, model, NEW_FRAMES, Stop(event=step))
    ended = run(child.prepare, *arguments, send=signal.SIGUSR1, meanwhile=lambda: fill(ballast))
    assert ended.code == child.REFUSED, "no typed error"
    assert expect_whole(small_disk) == OLD_FRAMES
    ballast.unlink()
    expect_mended(small_disk, model, wanted)


@needs_root
@pytest.mark.faults
def test_a_full_disk_under_a_video_is_said(small_disk: Path, rendering: Render) -> None:
    """The speech is read beside it; the video finds no room."""
    rendering.folder = small_disk.parent / "out"
    rendering.folder.mkdir()
    rendering.output.write_bytes(rendering.before)
    packet = StorageLayout(rendering.root).packet(AVATAR)
    with filled_up(small_disk.parent), pytest.raises((FfmpegError, StorageError)) as caught:
        render_video(packet, rendering.speech, rendering.output, options=RenderOptions(device="cpu"))
    assert caught.value.hint
    rendering.expect_old()
    rendering.expect_mended()


@needs_root
@pytest.mark.faults
def test_a_read_only_disk_is_said(small_disk: Path, model: Path, wanted: Wanted, rendering: Render) -> None:
    rendering.folder = small_disk.parent / "out"
    rendering.folder.mkdir()
    rendering.output.write_bytes(rendering.before)
    disk = str(small_disk.parent)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    try:
        with pytest.raises(StorageError, match="Read-only") as caught:
            prepare_here(small_disk, model)
        assert "writable" in caught.value.hint
        packet = StorageLayout(small_disk).packet(AVATAR)
        with pytest.raises(FfmpegError, match="Read-only"):
            render_video(packet, rendering.speech, rendering.output, options=RenderOptions(device="cpu"))
        elsewhere = rendering.root.parent / "elsewhere.mp4"
        render_video(packet, rendering.speech, elsewhere, options=RenderOptions(device="cpu"))
        assert elsewhere.is_file(), "what lies on a read-only disk can be rendered to another one"
    finally:
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    rendering.expect_old()
    expect_mended(small_disk, model, wanted)


@pytest.mark.skipif(os.getuid() == 0, reason="root writes anywhere")
def test_a_forbidden_folder_is_said(root: Path, model: Path, wanted: Wanted) -> None:
    folder = StorageLayout(root).anchors
    folder.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="Permission denied"):
            prepare_here(root, model)
    finally:
        folder.chmod(0o700)
    expect_mended(root, model, wanted)


@contextmanager
def largest_file(num_bytes: int) -> Iterator[None]:
    """No process may write a file larger than this while the block runs."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


LIMITS = [100, 3_000, 100_000, 400_000]


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_on_files_stops_a_preparation(limit: int, root: Path, model: Path, wanted: Wanted) -> None:
    """Stands in for a full disk where nobody may mount one: other steps fail at other sizes."""
    with largest_file(limit), pytest.raises(PacketError) as caught:
        prepare_here(root, model)
    assert caught.value.hint
    assert expect_whole(root) == OLD_FRAMES
    expect_mended(root, model, wanted)


@pytest.mark.parametrize("share", [pytest.param(0.02, marks=pytest.mark.faults), 0.9])
def test_a_limit_on_files_stops_a_render(share: float, rendering: Render) -> None:
    """Of the size of the video: one stops the reading of the speech, the other FFmpeg."""
    with largest_file(round(share * len(rendering.before))), pytest.raises(DittoError) as caught:
        render_video(
            StorageLayout(rendering.root).packet(AVATAR),
            rendering.speech,
            rendering.output,
            options=RenderOptions(device="cpu"),
        )
    assert caught.value.hint
    rendering.expect_old()
    assert [path.name for path in rendering.folder.iterdir()] == ["video.mp4"]
    rendering.expect_mended()
