"""Nothing but ``models fetch`` uses a network: everything else works without one, and does not even try."""

import json
import os
import subprocess
import sys
import wave
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "newsstudio_ditto" / "bundled" / "demo"
COMMANDS = """
import json, sys
from click.testing import CliRunner
from newsstudio_ditto.cli import main

for arguments in json.loads(sys.argv[1]):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, (arguments, result.output, result.exception)
from newsstudio_ditto.definitions import defs
assert len(list(defs.resolve_all_asset_specs())) > 6
"""


# What makes libraries quieter than they are for a user.
_LEFT_OUT = ("HF_", "DAGSTER_", "ORT_", "CI", "GITHUB_", "GITLAB_", "TF_BUILD", "JENKINS_", "BUILD_", "XDG_")


class Offline:
    """Runs programs on a machine without a network, with the home of somebody who has never used it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "tries.log"
        self.log.touch()

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        paths = os.pathsep.join([str(ROOT / "tests" / "offline_guard"), str(ROOT)])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
        own = {"PYTHONPATH": paths, "HOME": str(self.folder), "DITTO_NETWORK_LOG": str(self.log)}
        command = [sys.executable, "-c", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env={**kept, **own}, capture_output=True, text=True, check=False, timeout=300
        )

    @property
    def tries(self) -> list[str]:
        return self.log.read_text().splitlines()


def test_the_guard_sees_and_refuses(tmp_path: Path) -> None:
    """So that the test below can fail."""
    guarded = Offline(tmp_path)
    code = "import urllib.request; urllib.request.urlopen('http://192.0.2.1/', timeout=1)"
    assert guarded.run(code).returncode != 0
    assert guarded.run("import socket; socket.create_connection(('example.org', 80), 1)").returncode != 0
    assert len(guarded.tries) == 2
    assert "192.0.2.1" in guarded.tries[0]
    assert guarded.run("import socket; socket.getaddrinfo('localhost', 80)").returncode == 0
    assert len(guarded.tries) == 2


def test_a_clip_becomes_a_talking_video_without_a_network(tmp_path: Path) -> None:
    """Preparing runs the asset graph, so this covers what Dagster reports about itself as well."""
    offline, speech, video = Offline(tmp_path), tmp_path / "short.wav", tmp_path / "out.mp4"
    with wave.open(str(DEMO / "speech.wav"), "rb") as source, wave.open(str(speech), "wb") as target:
        target.setparams(source.getparams())
        source.setpos(16_000)
        target.writeframes(source.readframes(2 * 640))
    storage = ("--storage", tmp_path / "storage")
    commands: list[tuple[object, ...]] = [
        ("preprocess", DEMO / "anchor.mp4", "--avatar-id", "anna", "--max-frames", 2, *storage),
        ("render", "--avatar-id", "anna", "--speech", speech, "--output", video, *storage),
        ("inspect", video),
        ("verify", "anna", *storage),
        ("list", *storage),
        ("models", "list"),
        ("models", "check"),
    ]
    ended = offline.run(COMMANDS, json.dumps([[str(part) for part in command] for command in commands]))
    assert ended.returncode == 0, ended.stderr
    assert video.stat().st_size > 1000
    assert offline.tries == []


def test_the_runtime_of_the_face_nets_reports_to_nobody(tmp_path: Path) -> None:
    """Its reports are sent by compiled code, which the guard cannot see; the id that they carry is a file."""
    nets = "from newsstudio_ditto.faces.sessions import FaceNetworks; FaceNetworks(num_threads=1)"
    ended = Offline(tmp_path).run(nets)
    assert ended.returncode == 0, ended.stderr
    assert not list(tmp_path.rglob("deviceid*"))
