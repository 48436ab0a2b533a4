"""A render that is killed, or whose FFmpeg misbehaves, leaves the older video, no process and nothing half-made."""

import os
import signal
import time
from pathlib import Path

import pytest

from newsstudio_ditto.api import build_packet, render_video
from newsstudio_ditto.config import PacketOptions, RenderOptions
from newsstudio_ditto.errors import FfmpegError, MediaError, SinkError
from newsstudio_ditto.media.child import PipedChild
from newsstudio_ditto.output_truth import check_video
from newsstudio_ditto.packet.reader import open_packet
from newsstudio_ditto.storage import StorageLayout
from tests.faults.child import Stop
from tests.faults.conftest import (
    AVATAR,
    NEVER,
    NEW_FRAMES,
    NUM_FRAMES,
    Render,
    expect_whole,
    processes_naming,
)
from tests.media import clips

FRAMES = ["frame 1", "frame 12", f"frame {NUM_FRAMES}"]
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize(
    ("event", "send"),
    [
        (event, send)
        if (event, send) == ("frame 12", signal.SIGKILL)
        else pytest.param(event, send, marks=pytest.mark.faults)
        for event in FRAMES
        for send in SIGNALS
    ],
    ids=str,
)
def test_a_signal_between_frames_leaves_the_older_video(event: str, send: signal.Signals, rendering: Render) -> None:
    ended = rendering.start(Stop(event=event), send)
    assert ended.told == event, "it never came there"
    assert ended.code not in (0, None)
    rendering.expect_old()
    rendering.expect_mended()


@pytest.mark.faults
def test_a_kill_before_any_change_of_the_disk_leaves_a_whole_video(rendering: Render) -> None:
    """Before FFmpeg starts, before the video gets its name, and before everything else that Python does."""
    changes = rendering.start(NEVER).told
    assert any("os.rename" in change for change in changes)
    for point in range(1, len(changes) + 1):
        rendering.output.write_bytes(rendering.before)
        assert rendering.start(Stop(change=point)).code == -signal.SIGKILL, point
        assert check_video(rendering.output, rendering.speech, lips="off").is_true
        assert not processes_naming(rendering.folder)
        rendering.expect_mended()


def test_a_kill_before_the_video_gets_its_name_leaves_the_older_one(rendering: Render) -> None:
    changes = rendering.start(NEVER).told
    rename = next(index for index, change in enumerate(changes, 1) if change.startswith("os.rename"))
    rendering.output.write_bytes(rendering.before)
    assert rendering.start(Stop(change=rename)).code == -signal.SIGKILL
    rendering.expect_old()
    assert len(list(rendering.folder.iterdir())) == 2, "the half-made one is still there"
    rendering.expect_mended()


@pytest.mark.faults
@pytest.mark.parametrize("send", SIGNALS, ids=lambda number: number.name)
def test_a_signal_while_ffmpeg_finishes_leaves_the_older_video(send: signal.Signals, rendering: Render) -> None:
    """An FFmpeg that takes its time to finish, once it has every frame."""
    mark = rendering.folder.parent / "finishing"
    rendering.use_ffmpeg(f'"$REAL" "$@"; status=$?; case "$*" in *partial*) touch {mark}; sleep 4;; esac; exit $status')

    def when_finishing() -> None:
        deadline = time.monotonic() + 60
        while not mark.exists():
            assert time.monotonic() < deadline, "it never finishes"
            time.sleep(0.02)

    ended = rendering.start(NEVER, send, when_finishing)
    assert ended.code not in (0, None)
    rendering.expect_old()
    rendering.expect_mended()


FAKES = {
    "dies at once": ('echo "no such thing" >&2; exit 1', "no such thing"),
    "dies in the middle": (
        'case "$*" in *partial*) head -c 60000 > /dev/null; echo "no idea" >&2; exit 3;; *) exec "$REAL" "$@";; esac',
        "exited with 3: no idea",
    ),
    "is killed": ('case "$*" in *partial*) kill -9 $$;; *) exec "$REAL" "$@";; esac', "killed by signal 9"),
    "writes nothing": ('case "$*" in *partial*) cat > /dev/null;; *) exec "$REAL" "$@";; esac', "does not open"),
    "cannot read the speech": (
        'case "$*" in *f32le*) echo "bad ears" >&2; exit 1;; *) exec "$REAL" "$@";; esac',
        "bad ears",
    ),
    "cannot encode": ('case "$*" in *null*) echo "no x264" >&2; exit 1;; *) exec "$REAL" "$@";; esac', "no x264"),
}


@pytest.mark.parametrize(
    "name", [name if name == "dies in the middle" else pytest.param(name, marks=pytest.mark.faults) for name in FAKES]
)
def test_an_ffmpeg_that_fails_is_named_and_leaves_the_older_video(
    name: str, rendering: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, words = FAKES[name]
    rendering.use_ffmpeg(script)
    monkeypatch.setenv("PATH", f"{rendering.tools}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises((FfmpegError, MediaError), match=words) as caught:
        render(rendering)
    assert caught.value.hint
    rendering.expect_old()
    assert [path.name for path in rendering.folder.iterdir()] == ["video.mp4"]
    rendering.expect_mended()


def render(rendering: Render) -> None:
    packet = StorageLayout(rendering.root).packet(AVATAR)
    render_video(packet, rendering.speech, rendering.output, options=RenderOptions(device="cpu"))


def test_a_video_without_its_sound_never_gets_its_name(rendering: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames, size and length are right; only who listens finds out."""
    mute = "s/asetpts=N\\/SR\\/TB/volume=0/"
    rendering.use_ffmpeg(
        'case "$*" in *partial*) n=$#; i=0; while [ $i -lt $n ]; do a=$(printf %s "$1" | sed '
        + f"'{mute}'"
        + "); shift; "
        'set -- "$@" "$a"; i=$((i+1)); done;; esac; exec "$REAL" "$@"'
    )
    monkeypatch.setenv("PATH", f"{rendering.tools}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(SinkError, match=r"not what was asked for: .* cannot be heard"):
        render(rendering)
    rendering.expect_old()
    monkeypatch.undo()
    rendering.expect_mended()


@pytest.mark.faults
def test_an_ffmpeg_that_is_missing_is_named(rendering: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(rendering.tools))
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(rendering.tools / "nothing"))
    with pytest.raises(FfmpegError, match="cannot be started"):
        render(rendering)
    rendering.expect_old()


def test_an_ffmpeg_that_floods_its_complaints_fills_no_disk(rendering: Render) -> None:
    """It takes its frames after two hundred megabytes of complaints, of which only the end is kept."""
    rendering.use_ffmpeg('yes "on and on" | head -c 200000000 >&2; echo "the end" >&2; cat > /dev/null; exit 7')
    flooded = PipedChild([str(rendering.tools / "ffmpeg")])
    try:
        for _ in range(3):
            flooded.write(memoryview(bytes(1 << 20)), stall_timeout_s=120)
        assert os.fstat(flooded._stderr.fileno()).st_size < 150_000_000
        with pytest.raises(SinkError, match="exited with 7: the end"):
            flooded.finish(close_timeout_s=60)
    finally:
        flooded.kill()


def test_a_render_goes_on_while_its_avatar_is_prepared_anew(root: Path, model: Path, rendering: Render) -> None:
    """It shows the packet that it began with, whose files are gone by then."""
    rendering.root = root
    before = open_packet(StorageLayout(root).packet(AVATAR))
    options = PacketOptions(max_frames=NEW_FRAMES)

    def meanwhile() -> None:
        build_packet(StorageLayout(root), clips.ANCHOR, AVATAR, options=options, model=str(model))
        assert expect_whole(root) == NEW_FRAMES

    ended = rendering.start(Stop(event="frame 5"), signal.SIGUSR1, meanwhile)
    assert ended.code == 0
    assert check_video(rendering.output, rendering.speech, packet=before, lips="off").is_true
    rendering.expect_mended()


@pytest.mark.faults
def test_an_ffmpeg_killed_from_outside_is_named(rendering: Render) -> None:
    def kill_ffmpeg() -> None:
        (ffmpeg,) = processes_naming(rendering.folder, 0.0)
        os.kill(ffmpeg, signal.SIGKILL)

    ended = rendering.start(Stop(event="frame 5"), signal.SIGUSR1, kill_ffmpeg)
    assert ended.code == 1
    rendering.expect_old()
    rendering.expect_mended()
