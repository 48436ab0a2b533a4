import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.errors import SinkError, UsageError
from newsstudio_ditto.media.decode import read_speech
from newsstudio_ditto.media.finished import check_finished
from newsstudio_ditto.media.partial import partial_path, remove_stale
from newsstudio_ditto.media.probe import probe
from newsstudio_ditto.media.sink import FfmpegSink
from newsstudio_ditto.media.tags import read_provenance
from tests.media import clips
from tests.media.fakes import fake_ffmpeg

WIDTH, HEIGHT = 64, 48
SIZE = WIDTH * HEIGHT * 3 // 2
METADATA = {"avatar": "anna", "note": 'quotes " and = and ü', "synthetic": "true"}

Opener = Callable[..., FfmpegSink]


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    return clips.write_wav(tmp_path / "speech.wav", clips.gated_tone(1.0))


@pytest.fixture
def open_sink(tmp_path: Path, speech: Path) -> Opener:
    def build(output: Path = tmp_path / "out" / "a.mp4", *, script: str | None = None, **more: float) -> FfmpegSink:
        return FfmpegSink(
            output,
            width=WIDTH,
            height=HEIGHT,
            speech=speech,
            options=EncodeOptions(crf=1),
            metadata=METADATA,
            ffmpeg=fake_ffmpeg(tmp_path, script) if script else None,
            **more,
        )

    return build


def grey_frame(level: int) -> np.ndarray:
    frame = np.full(SIZE, 128, np.uint8)
    frame[: WIDTH * HEIGHT] = level
    return frame


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_the_video_holds_every_frame_and_all_sound(tmp_path: Path, speech: Path, open_sink: Opener) -> None:
    with open_sink(speech_seconds=1.0) as sink:
        for index in range(25):
            sink.write(grey_frame(40 + 6 * index))
    assert sink.num_frames == 25
    assert leftovers(tmp_path / "out") == ["a.mp4"]
    facts = probe(sink.output)
    assert facts.video is not None
    assert facts.audio is not None
    assert (facts.video.width_px, facts.video.height_px, facts.video.header_frames) == (WIDTH, HEIGHT, 25)
    assert (facts.video.codec, facts.video.pixel_format, facts.video.fps) == ("h264", "yuv420p", 25)
    colour = facts.video.colour
    assert (colour.matrix, colour.primaries, colour.transfer, colour.full_range) == (1, 1, 1, False)
    assert facts.audio.codec == "aac"
    with av.open(str(sink.output)) as container:
        lumas = [frame.to_ndarray()[:HEIGHT].mean() for frame in container.decode(video=0)]
    np.testing.assert_allclose(lumas, [40 + 6 * index for index in range(25)], atol=1.5)
    sound, original = read_speech(sink.output), read_speech(speech)
    assert len(sound) >= len(original)
    assert np.corrcoef(sound[: len(original)], original)[0, 1] > 0.95


def test_the_index_stands_in_front(open_sink: Opener) -> None:
    with open_sink() as sink:
        sink.write(grey_frame(90))
    content = sink.output.read_bytes()
    assert 0 < content.index(b"moov") < content.index(b"mdat")


def test_provenance_comes_back(tmp_path: Path, open_sink: Opener) -> None:
    with open_sink() as sink:
        sink.write(grey_frame(90))
    assert read_provenance(sink.output) == METADATA
    assert read_provenance(clips.ANCHOR) == {}
    clips.run_ffmpeg(tmp_path, "-i", str(clips.ANCHOR), "-c", "copy", "-metadata", 'comment={"other": 1}', "b.mp4")
    assert read_provenance(tmp_path / "b.mp4") == {}


def test_late_sound_starts_with_the_first_frame(tmp_path: Path, speech: Path) -> None:
    delayed = ("-itsoffset", "0.4", "-i", "speech.wav", "-i", str(clips.ANCHOR), "-c:a", "flac", "-t", "1.4")
    clips.run_ffmpeg(tmp_path, *delayed, "late.mkv")
    output = tmp_path / "late.mp4"
    options = EncodeOptions()
    with FfmpegSink(
        output, width=WIDTH, height=HEIGHT, speech=tmp_path / "late.mkv", options=options, metadata={}
    ) as sink:
        for _ in range(25):
            sink.write(grey_frame(90))
    heard, spoken = read_speech(output), read_speech(tmp_path / "late.mkv")
    assert np.corrcoef(heard[: len(spoken)], spoken[: len(heard)])[0, 1] > 0.95
    with av.open(str(output)) as container:
        first = next(container.decode(audio=0))
        assert first.time is not None
        assert first.time < 0.03


def test_an_older_video_is_replaced_only_at_the_end(tmp_path: Path, open_sink: Opener) -> None:
    output = tmp_path / "a.mp4"
    output.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="engine"), open_sink(output) as sink:
        sink.write(grey_frame(1))
        raise RuntimeError("engine")
    assert output.read_bytes() == b"old"
    with open_sink(output) as sink:
        sink.write(grey_frame(1))
        assert output.read_bytes() == b"old"
    assert probe(output).video is not None
    assert not [name for name in leftovers(tmp_path) if "partial" in name]


@pytest.mark.parametrize(
    "name", ["a b.mp4", "it's.mp4", "ведущий.mp4", "-y.mp4", "$(touch X).mp4", "a%03d.mp4", "n" * 240 + ".mp4"]
)
def test_hostile_output_names_mean_nothing(
    tmp_path: Path, open_sink: Opener, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with open_sink(Path(name)) as sink:
        sink.write(grey_frame(3))
    assert leftovers(folder) == [name]


def test_a_flood_on_stderr_does_not_stall(open_sink: Opener) -> None:
    script = "yes 'noise noise noise' | head -n 20000 >&2; cat > /dev/null; echo 'the end' >&2; exit 3"
    with pytest.raises(SinkError, match="fake-ffmpeg exited with 3: the end"), open_sink(script=script) as sink:
        for _ in range(300):
            sink.write(grey_frame(9))


def test_a_death_in_the_middle_shows_the_reason(tmp_path: Path, open_sink: Opener) -> None:
    script = f"head -c {10 * SIZE} > /dev/null; echo 'Unknown encoder' >&2; exit 1"
    with pytest.raises(SinkError, match="exited with 1: Unknown encoder") as caught, open_sink(script=script) as sink:
        for _ in range(2000):
            sink.write(grey_frame(9))
    assert caught.value.hint
    assert leftovers(tmp_path / "out") == []


def test_a_kill_from_outside_is_named(open_sink: Opener) -> None:
    with pytest.raises(SinkError, match="killed by signal 9"), open_sink(script="kill -9 $$") as sink:
        for _ in range(2000):
            sink.write(grey_frame(9))


def test_an_ffmpeg_that_takes_nothing_is_killed(tmp_path: Path, open_sink: Opener) -> None:
    script = f"echo $$ > {tmp_path}/pid; echo waiting >&2; sleep 60"
    started = time.monotonic()
    with (
        pytest.raises(SinkError, match="took no frame for 2 s: waiting"),
        open_sink(script=script, stall_timeout_s=2) as sink,
    ):
        for _ in range(2000):
            sink.write(grey_frame(9))
    assert time.monotonic() - started < 10
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_an_ffmpeg_that_hangs_at_the_end_is_killed(tmp_path: Path, open_sink: Opener) -> None:
    script = f"echo $$ > {tmp_path}/pid; cat > /dev/null; sleep 60"
    with (
        pytest.raises(SinkError, match="did not end within 2 s"),
        open_sink(script=script, close_timeout_s=2) as sink,
    ):
        sink.write(grey_frame(9))
    assert is_gone(int((tmp_path / "pid").read_text()))
    assert leftovers(tmp_path / "out") == []


@pytest.mark.parametrize("status", [0, 3])
def test_the_end_is_noticed_without_process_descriptors(
    monkeypatch: pytest.MonkeyPatch, open_sink: Opener, status: int
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    with (
        pytest.raises(SinkError, match="exited with 3" if status else "does not open"),
        open_sink(script=f"cat > /dev/null; sleep 0.2; exit {status}") as sink,
    ):
        sink.write(grey_frame(9))


def test_no_descriptor_is_left_open(open_sink: Opener) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    for _ in range(3):
        with open_sink() as sink:
            sink.write(grey_frame(9))
    assert count() == before


def test_an_error_in_the_block_kills_at_once(tmp_path: Path, open_sink: Opener) -> None:
    script = f"echo $$ > {tmp_path}/pid; sleep 60 & cat > /dev/null; wait"
    with pytest.raises(KeyboardInterrupt), open_sink(script=script) as sink:
        sink.write(grey_frame(9))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert is_gone(int((tmp_path / "pid").read_text()))


def is_gone(pid: int, patience_s: float = 5.0) -> bool:
    """Whether every process of a group ends within a moment: a kill takes effect when the system gets round to it."""
    deadline = time.monotonic() + patience_s
    while is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_running(pid: int) -> bool:
    """Whether any process of a group runs; dead ones that nobody has collected do not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, group, *_rest = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if int(group) == pid and state != "Z":
            return True
    return False


@pytest.mark.parametrize(
    "script", ["cat > /dev/null", 'cat > /dev/null; for f; do p=$l; l=$f; done; echo junk > "${p#file:}"']
)
def test_a_good_exit_without_a_good_file_is_an_error(open_sink: Opener, script: str) -> None:
    with pytest.raises(SinkError, match="does not open"), open_sink(script=script) as sink:
        sink.write(grey_frame(9))


def test_no_frame_is_an_error(tmp_path: Path, open_sink: Opener) -> None:
    with pytest.raises(SinkError, match="not one frame"), open_sink():
        pass
    assert leftovers(tmp_path / "out") == []


def test_a_missing_program_is_named(tmp_path: Path, speech: Path) -> None:
    sink = FfmpegSink(
        tmp_path / "a.mp4",
        width=2,
        height=2,
        speech=speech,
        options=EncodeOptions(),
        metadata={},
        ffmpeg=tmp_path / "no",
    )
    with pytest.raises(SinkError, match="cannot be started"), sink:
        pass


def test_unreadable_speech_fails_in_ffmpegs_words(tmp_path: Path) -> None:
    sink = FfmpegSink(
        tmp_path / "a.mp4", width=WIDTH, height=HEIGHT, speech=tmp_path / "no.wav", options=EncodeOptions(), metadata={}
    )
    with pytest.raises(SinkError, match="exited with"), sink:
        sink.write(grey_frame(1))


@pytest.mark.parametrize(
    ("width", "height", "name"), [(63, 48, "a.mp4"), (64, 47, "a.mp4"), (0, 48, "a.mp4"), (64, 48, "a.avi")]
)
def test_bad_arguments_are_refused(tmp_path: Path, speech: Path, width: int, height: int, name: str) -> None:
    with pytest.raises(UsageError):
        FfmpegSink(tmp_path / name, width=width, height=height, speech=speech, options=EncodeOptions(), metadata={})


def test_folders_that_cannot_be_written_are_named(tmp_path: Path, open_sink: Opener) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot be written"), open_sink(tmp_path / "file" / "a.mp4"):
        pass
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(SinkError, match="is a folder"), open_sink(tmp_path / "folder.mp4"):
        pass


@pytest.mark.parametrize("frame", [np.zeros(SIZE - 1, np.uint8), np.zeros(SIZE, np.int16)])
def test_other_frames_are_refused(open_sink: Opener, frame: np.ndarray) -> None:
    with pytest.raises(ValueError, match=f"expected {SIZE} uint8 values"), open_sink() as sink:
        sink.write(frame)


def test_writing_outside_the_block_is_refused(open_sink: Opener) -> None:
    with pytest.raises(SinkError, match="not open"):
        open_sink().write(grey_frame(1))


def test_the_check_knows_what_is_wrong(tmp_path: Path, open_sink: Opener) -> None:
    with open_sink() as sink:
        for _ in range(25):
            sink.write(grey_frame(9))
    check_finished(sink.output, num_frames=25, size=(WIDTH, HEIGHT), speech_seconds=1.0)
    with pytest.raises(SinkError, match="not \\(26, 64, 48\\)"):
        check_finished(sink.output, num_frames=26, size=(WIDTH, HEIGHT))
    with pytest.raises(SinkError, match="s of sound, not 2"):
        check_finished(sink.output, num_frames=25, size=(WIDTH, HEIGHT), speech_seconds=2.0)
    with pytest.raises(SinkError, match="1 picture and 0 sound"):
        check_finished(clips.ANCHOR, num_frames=150, size=(320, 320))


def test_files_of_dead_writers_are_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    output = tmp_path / "a.mp4"
    mine, other = partial_path(output), partial_path(tmp_path / "b.mp4")
    stale = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-"))
    for path in (mine, other, stale):
        path.touch()
    remove_stale(output)
    assert sorted(tmp_path.iterdir()) == sorted([mine, other])


def test_a_killed_render_leaves_no_child_and_no_final_file(tmp_path: Path, speech: Path) -> None:
    program = f"""
import os, signal, numpy as np
from pathlib import Path
from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.media.sink import FfmpegSink
with FfmpegSink(Path({str(tmp_path / "a.mp4")!r}), width={WIDTH}, height={HEIGHT}, speech=Path({str(speech)!r}),
                options=EncodeOptions(), metadata={{}}) as sink:
    for _ in range(5):
        sink.write(np.zeros({SIZE}, np.uint8))
    print(sink._child._process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -9
    child = int(done.stdout)
    deadline = time.monotonic() + 5
    while not is_gone(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert is_gone(child)
    assert not (tmp_path / "a.mp4").exists()
    sink = FfmpegSink(
        tmp_path / "a.mp4", width=WIDTH, height=HEIGHT, speech=speech, options=EncodeOptions(), metadata={}
    )
    with sink:
        sink.write(grey_frame(1))
    assert leftovers(tmp_path) == ["a.mp4", "speech.wav"]
