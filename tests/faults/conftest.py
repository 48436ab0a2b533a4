import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newsstudio_ditto.api import build_packet, render_video
from newsstudio_ditto.config import PacketOptions, RenderOptions
from newsstudio_ditto.media.ffmpeg import find_ffmpeg
from newsstudio_ditto.output_truth import check_video
from newsstudio_ditto.packet.reader import open_packet
from newsstudio_ditto.packet.spec import PARTS, TENSOR_PARTS
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import verify_packet
from newsstudio_ditto.preparation import open_bench_part, open_track
from newsstudio_ditto.storage import StorageLayout
from tests.daemon.running import write_tiny
from tests.faults import child
from tests.faults.child import Stop
from tests.media import clips

AVATAR = "anna"
OLD_FRAMES, NEW_FRAMES = 1, 2
NUM_FRAMES = 26
PATIENCE_S = 120.0
NEVER = Stop()

# A shell without job control starts background programs with interrupts ignored, and children would keep it so.
signal.signal(signal.SIGINT, signal.default_int_handler)

_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload(["tests.faults.child"])


@dataclass
class Run:
    """How a process ended.

    Args:
        code: exit code; minus the signal that killed it.
        told: what it said: the event where it stopped, or its changes of the file system.
    """

    code: int
    told: Any


def run(
    target: Callable[..., None],
    *arguments: Any,
    send: signal.Signals | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Run:
    """Run in a process of its own. Where it stops, ``meanwhile`` runs and ``send`` is sent.

    One that stops nowhere is sent the signal when ``meanwhile``, which then runs at once, has come to its end.
    """
    ours, theirs = _fork.Pipe(duplex=False)
    process = _fork.Process(target=target, args=(theirs, *arguments))
    process.start()
    theirs.close()
    told = None
    if arguments[-1] == NEVER and meanwhile is not None:
        meanwhile()
        _signal(process, send)
    try:
        if ours.poll(PATIENCE_S):
            told = ours.recv()
    except EOFError:
        told = None  # killed before it said anything
    try:
        if meanwhile is not None and arguments[-1] != NEVER:
            meanwhile()
    finally:
        if told is not None and arguments[-1] != NEVER:
            _signal(process, send)
    process.join(PATIENCE_S)
    assert process.exitcode is not None, "it hangs"
    ours.close()
    return Run(process.exitcode, told)


def _signal(process: Any, send: signal.Signals | None) -> None:
    if send is not None:
        os.kill(process.pid, send)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def old_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another file with the same pictures, so that it is another source."""
    folder = tmp_path_factory.mktemp("clip")
    clips.run_ffmpeg(folder, "-i", str(clips.ANCHOR), "-t", "0.2", "-c", "copy", "old.mp4")
    return folder / "old.mp4"


@pytest.fixture(scope="session")
def filled(old_clip: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage folder in which an older packet is published."""
    root = tmp_path_factory.mktemp("filled") / "storage"
    options = PacketOptions(max_frames=OLD_FRAMES)
    build_packet(StorageLayout(root), old_clip, AVATAR, options=options, model=str(model))
    return root


@pytest.fixture
def root(filled: Path, tmp_path: Path) -> Path:
    """A copy of it to do harm in."""
    return Path(shutil.copytree(filled, tmp_path / "storage", symlinks=True))


@pytest.fixture(scope="session")
def wanted(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Checksums of the newer packet, made without any fault."""
    root = tmp_path_factory.mktemp("wanted")
    options = PacketOptions(max_frames=NEW_FRAMES)
    built = build_packet(StorageLayout(root), clips.ANCHOR, AVATAR, options=options, model=str(model))
    return {name: part.checksums for name, part in built.packet.meta.parts.items()}


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second of noise that rises and falls: 26 frames."""
    draw = np.random.default_rng(2)
    loudness = np.repeat(10 ** draw.uniform(-1.5, -0.3, 21), 800)[: NUM_FRAMES * 640 - 600]
    noise = 0.3 * draw.standard_normal(len(loudness)) * loudness
    return clips.write_wav(tmp_path_factory.mktemp("speech") / "speech.wav", noise)


@pytest.fixture(scope="session")
def old_video(filled: Path, speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished video of the older packet."""
    output = tmp_path_factory.mktemp("video") / "old.mp4"
    render_video(StorageLayout(filled).packet(AVATAR), speech, output, options=RenderOptions(device="cpu"))
    return output


@dataclass
class Render:
    """A render to do harm to: an older video lies under its name.

    Args:
        folder: nothing but that video is in it.
        packet: what is rendered.
        speech: what it says.
        before: content of the older video.
        tools: folder of another FFmpeg; nothing is in it at first.
    """

    root: Path
    speech: Path
    folder: Path
    before: bytes
    tools: Path

    @property
    def output(self) -> Path:
        return self.folder / "video.mp4"

    def start(self, stop: Stop, send: signal.Signals | None = None, meanwhile: Callable[[], None] | None = None) -> Run:
        arguments = (self.root, self.speech, self.output, str(self.tools), stop)
        return run(child.render, *arguments, send=send, meanwhile=meanwhile)

    def use_ffmpeg(self, script: str) -> None:
        """Put a shell script in front of the real one, which it finds as ``$REAL``."""
        fake = self.tools / "ffmpeg"
        fake.write_text(f"#!/bin/sh\nREAL='{find_ffmpeg()}'\n{script}\n")
        fake.chmod(0o755)

    def expect_old(self) -> None:
        """The older video is untouched."""
        assert self.output.read_bytes() == self.before

    def expect_mended(self) -> None:
        """The next render works without cleaning, leaves its video alone, and that is what was asked for."""
        (self.tools / "ffmpeg").unlink(missing_ok=True)
        ended = self.start(NEVER)
        assert ended.code == 0
        assert [path.name for path in self.folder.iterdir()] == ["video.mp4"]
        packet = open_packet(StorageLayout(self.root).packet(AVATAR))
        truth = check_video(self.output, self.speech, packet=packet, lips="off")
        assert truth.is_true, truth.faults


@pytest.fixture
def rendering(filled: Path, speech: Path, old_video: Path, tmp_path: Path) -> Iterator[Render]:
    """A render; when the test has ended, FFmpeg has."""
    folder, tools = tmp_path / "out", tmp_path / "tools"
    folder.mkdir()
    tools.mkdir()
    (folder / "video.mp4").write_bytes(old_video.read_bytes())
    yield Render(filled, speech, folder, old_video.read_bytes(), tools)
    left = processes_naming(tmp_path)
    assert not left, left


def processes_naming(folder: Path, patience_s: float = 5.0) -> list[int]:
    """Living processes whose command line names a folder; those that are about to end are given a moment."""
    deadline = time.monotonic() + patience_s
    while (found := _naming(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _naming(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if str(folder) in words and int(entry.parent.name) != os.getpid():
            found.append(int(entry.parent.name))
    return found


def expect_whole(root: Path) -> int:
    """Everything under a final name is whole; returns the number of frames of what is published."""
    store, layout = AvatarStore(root), StorageLayout(root)
    report = verify_packet(store.published(AVATAR))
    assert report.ok, [str(finding) for finding in report.findings]
    for part in TENSOR_PARTS:
        open_bench_part(store, AVATAR, part)
    open_track(store, AVATAR)
    layout.recipe(AVATAR)
    assert layout.anchor(AVATAR).stat().st_size > 1000
    return store.open(AVATAR).num_frames


def expect_swept(root: Path) -> None:
    """Nothing is left of what was interrupted."""
    names = {path.name for path in AvatarStore(root).bench(AVATAR).iterdir()}
    assert names == {*(PARTS[part].file_name for part in TENSOR_PARTS), "track.pt"}
    assert [path for path in root.rglob(".*") if "dagster" not in path.parts] == []
    assert len(list((root / "cache" / "sets" / "ditto" / AVATAR).iterdir())) == 1


def expect_mended(root: Path, model: Path, wanted: dict[str, dict[str, str]]) -> None:
    """The next run works without cleaning, and makes what a run without any fault makes."""
    options = PacketOptions(max_frames=NEW_FRAMES)
    built = build_packet(StorageLayout(root), clips.ANCHOR, AVATAR, options=options, model=str(model))
    assert {name: part.checksums for name, part in built.packet.meta.parts.items()} == wanted
    expect_whole(root)
    expect_swept(root)
