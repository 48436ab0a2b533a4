"""The command line, asked to end: it ends with FFmpeg and without leftovers, and the next command works."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from newsstudio_ditto.packet.store import AvatarStore
from tests.faults.conftest import AVATAR, NEW_FRAMES, OLD_FRAMES, expect_swept, expect_whole, processes_naming
from tests.media import clips

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240.0
SIGNALS = pytest.mark.parametrize("send", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda each: each.name)


def start(*arguments: object) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "newsstudio_ditto.cli", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def interrupt(process: subprocess.Popen[bytes], when: Callable[[], bool], send: signal.Signals) -> tuple[int, str]:
    """Send a signal at the right moment; exit code and last words."""
    deadline = time.monotonic() + PATIENCE_S
    while not when():
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline, "it never comes there"
        time.sleep(0.005)
    process.send_signal(send)
    words = process.communicate(timeout=PATIENCE_S)[1].decode(errors="replace")
    return process.returncode, words


@SIGNALS
def test_a_render_ends_with_its_ffmpeg(filled: Path, old_video: Path, tmp_path: Path, send: signal.Signals) -> None:
    speech = clips.write_wav(tmp_path / "speech.wav", clips.gated_tone(60.0))
    folder = tmp_path / "out"
    folder.mkdir()
    output = folder / "video.mp4"
    shutil.copyfile(old_video, output)
    arguments = ("render", "--avatar-id", AVATAR, "--speech", speech, "-o", output, "--storage", filled)
    code, words = interrupt(start(*arguments), lambda: len(list(folder.iterdir())) > 1, send)
    assert code in (128 + send, 1, -send), words
    assert "Traceback" not in words
    assert processes_naming(tmp_path) == []
    assert output.read_bytes() == old_video.read_bytes()
    assert len(list(folder.iterdir())) == (2 if send is signal.SIGKILL else 1)


@SIGNALS
def test_a_preparation_ends_without_leftovers(root: Path, model: Path, send: signal.Signals) -> None:
    arguments = ("preprocess", clips.ANCHOR, "--avatar-id", AVATAR, "--max-frames", NEW_FRAMES, "--model", model)
    frames = AvatarStore(root).bench(AVATAR) / "frames.pt"
    before = frames.stat().st_ino
    process = start(*arguments, "--storage", root)
    code, words = interrupt(process, lambda: frames.stat().st_ino != before, send)
    assert code in (128 + send, 1, -send), words
    assert expect_whole(root) == OLD_FRAMES
    again = start(*arguments, "--storage", root)
    words = again.communicate(timeout=PATIENCE_S)[1].decode()
    assert again.returncode == 0, words
    assert expect_whole(root) == NEW_FRAMES
    expect_swept(root)
