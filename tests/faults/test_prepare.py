"""A preparation that is killed anywhere leaves the old packet or the new one, and the next one mends the rest."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from newsstudio_ditto.api import build_packet
from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.errors import MediaError, PacketError
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.preparation import content_hash, plan_packet, stream_source
from newsstudio_ditto.storage import StorageLayout
from tests.faults import child
from tests.faults.child import Stop
from tests.faults.conftest import (
    AVATAR,
    NEVER,
    NEW_FRAMES,
    OLD_FRAMES,
    Run,
    expect_mended,
    expect_swept,
    expect_whole,
    run,
)
from tests.media import clips

Wanted = dict[str, dict[str, str]]

EVENTS = [
    *("frames 0", "frames 2", "wrote a packet file frames"),
    *("face_track 1", "face_track 2"),
    *("f_s 0", "f_s 2", "wrote a packet file f_s"),
    *("keypoints 0", "keypoints 2", "wrote a packet file keypoints"),
    *("grids 0", "grids 2", "wrote a packet file grids"),
    *("masks 0", "masks 2", "wrote a packet file masks"),
    *("wrote a packet file meta", "published a packet"),
]
"""Beginning, inside and end of every step, and the seal before and after the link is switched."""


def prepare(root: Path, model: Path, stop: Stop, send: signal.Signals | None = None) -> Run:
    return run(child.prepare, root, clips.ANCHOR, model, NEW_FRAMES, stop, send=send)


def kill_before_changes(every: int, filled: Path, model: Path, wanted: Wanted, tmp_path: Path) -> int:
    """Kill before the first change of the disk, and before every ``every``-th after it; returns how often."""
    count = len(prepare(Path(shutil.copytree(filled, tmp_path / "whole", symlinks=True)), model, NEVER).told)
    assert count > 30
    points = range(1, count + 1, every)
    for point in points:
        root = Path(shutil.copytree(filled, tmp_path / str(point), symlinks=True))
        assert prepare(root, model, Stop(change=point)).code == -signal.SIGKILL, point
        assert expect_whole(root) in (OLD_FRAMES, NEW_FRAMES), point
        expect_mended(root, model, wanted)
        shutil.rmtree(root)
    return len(points)


def test_a_kill_before_a_change_of_the_disk_does_no_harm(
    filled: Path, model: Path, wanted: Wanted, tmp_path: Path
) -> None:
    assert kill_before_changes(13, filled, model, wanted, tmp_path) >= 3


@pytest.mark.faults
def test_a_kill_before_any_change_of_the_disk_does_no_harm(
    filled: Path, model: Path, wanted: Wanted, tmp_path: Path
) -> None:
    assert kill_before_changes(1, filled, model, wanted, tmp_path) > 30


@pytest.mark.parametrize(
    "event", [event if event in EVENTS[6:8] else pytest.param(event, marks=pytest.mark.faults) for event in EVENTS]
)
@pytest.mark.parametrize(
    "send",
    [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.faults), signal.SIGINT],
    ids=lambda number: number.name,
)
def test_a_signal_inside_a_step_does_no_harm(
    event: str, send: signal.Signals, root: Path, model: Path, wanted: Wanted
) -> None:
    ended = prepare(root, model, Stop(event=event), send)
    assert ended.told == event, "it never came there"
    assert ended.code not in (0, None)
    is_published = event == "published a packet"
    assert expect_whole(root) == (NEW_FRAMES if is_published else OLD_FRAMES)
    expect_mended(root, model, wanted)


@pytest.mark.parametrize("times", [3, pytest.param(12, marks=pytest.mark.faults)])
def test_kill_after_kill_still_gets_there(times: int, root: Path, model: Path, wanted: Wanted) -> None:
    """Each run is killed a little later than the one before, on what that left."""
    for attempt in range(times):
        prepare(root, model, Stop(change=5 + 5 * attempt))
        expect_whole(root)
    expect_mended(root, model, wanted)


def test_two_processes_cannot_prepare_one_avatar(root: Path, model: Path, old_clip: Path, wanted: Wanted) -> None:
    """The second changes neither clip nor recipe, and the first one's packet is what it set out to make."""
    seen: list[str] = []

    def meanwhile() -> None:
        recipe = StorageLayout(root).recipe(AVATAR)
        with pytest.raises(PacketError, match="is being made by process"):
            build_packet(StorageLayout(root), old_clip, AVATAR, model=str(model))
        assert StorageLayout(root).recipe(AVATAR) == recipe
        assert StorageLayout(root).anchor(AVATAR).samefile(clips.ANCHOR)
        expect_whole(root)
        seen.append("refused")

    stop = Stop(event="grids 0")
    ended = run(child.prepare, root, clips.ANCHOR, model, NEW_FRAMES, stop, send=signal.SIGUSR1, meanwhile=meanwhile)
    assert (ended.code, seen) == (0, ["refused"])
    assert expect_whole(root) == NEW_FRAMES
    expect_swept(root)
    expect_mended(root, model, wanted)


def test_a_clip_that_is_replaced_while_it_is_read_is_noticed(
    root: Path, model: Path, old_clip: Path, wanted: Wanted
) -> None:
    layout = StorageLayout(root)
    plan = plan_packet(layout, AVATAR)
    chunks = stream_source(plan).chunks
    layout.place_anchor(clips.ANCHOR, AVATAR)
    with pytest.raises(MediaError, match="was replaced while it was prepared"):
        list(chunks)
    expect_mended(root, model, wanted)


@pytest.mark.parametrize("year_s", [-(10**9), 10**9], ids=["past", "future"])
def test_a_clip_is_told_by_its_content_whatever_the_clock_says(
    root: Path, model: Path, tmp_path: Path, year_s: int
) -> None:
    """A clip of equal size whose time of change is that of the one before, as after a clock was set back."""
    clip = tmp_path / "clip.mp4"
    shutil.copyfile(clips.ANCHOR, clip)
    stamp = clip.stat().st_mtime_ns + year_s * 10**9
    os.utime(clip, ns=(stamp, stamp))
    options = PacketOptions(max_frames=NEW_FRAMES)
    first = build_packet(StorageLayout(root), clip, AVATAR, options=options, model=str(model))
    other = tmp_path / "other.mp4"
    content = bytearray(clip.read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    os.utime(other, ns=(stamp, stamp))
    second = build_packet(StorageLayout(root), other, AVATAR, options=options, model=str(model))
    assert content_hash(clip) != content_hash(other)
    assert second.packet.generation != first.packet.generation
    assert second.made[0] == "frames"
    clip.write_bytes(content)
    os.utime(clip, ns=(stamp, stamp))
    assert content_hash(clip) == content_hash(other), "the same name, size and time, but another content"


def test_the_old_packet_is_there_until_the_new_one_is(root: Path, model: Path) -> None:
    before = AvatarStore(root).open(AVATAR)
    build_packet(
        StorageLayout(root), clips.ANCHOR, AVATAR, options=PacketOptions(max_frames=NEW_FRAMES), model=str(model)
    )
    assert before.frames.float().mean() > 1, "whoever has it mapped keeps it"
    assert AvatarStore(root).open(AVATAR).generation != before.generation
