"""A daemon whose FFmpeg writes something else, and whose disk is full, says so and goes on."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from newsstudio_ditto.media.ffmpeg import find_ffmpeg
from tests.daemon.running import running_daemon
from tests.faults.test_disks import filled_up, needs_root

MUTE = r"""#!/bin/sh
if [ -e "{flag}" ]; then
    case "$*" in *partial*)
        n=$#
        while [ "$n" -gt 0 ]; do
            changed=$(printf %s "$1" | sed 's/asetpts=N\/SR\/TB/volume=0/'); shift; set -- "$@" "$changed"; n=$((n - 1))
        done;;
    esac
fi
exec "{real}" "$@"
"""


@pytest.mark.faults
def test_a_job_with_an_untrue_video_fails_and_the_next_one_does_not(
    filled: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(filled, tmp_path / "storage", symlinks=True))
    tools, flag = tmp_path / "tools", tmp_path / "mute"
    tools.mkdir()
    (tools / "ffmpeg").write_text(MUTE.format(flag=flag, real=find_ffmpeg()))
    (tools / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    with running_daemon(root, model) as daemon:
        flag.touch()
        job = daemon.wait(daemon.render(1.0).json()["id"])
        assert job["state"] == "failed"
        assert "not what was asked for" in job["what"]
        assert "cannot be heard" in job["what"]
        assert job["hint"]
        assert list((root / "videos").rglob("*.mp4")) == []
        flag.unlink()
        job = daemon.wait(daemon.render(1.0).json()["id"])
        assert job["state"] == "done"
        assert job["result"]["checked"]["sound_lost"] == 0
        assert daemon.client.get(job["video"]).status_code == 200


@needs_root
@pytest.mark.faults
def test_a_daemon_on_a_full_disk_refuses_and_goes_on(filled: Path, model: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(disk)], check=True)
    try:
        root = Path(shutil.copytree(filled, disk / "storage", symlinks=True))
        with running_daemon(root, model) as daemon:
            assert daemon.wait(daemon.render(0.4).json()["id"])["state"] == "done"
            with filled_up(disk):
                refused = [daemon.render(0.4) for _ in range(3)]
                assert {answer.status_code for answer in refused} == {507}, [answer.text for answer in refused]
                assert refused[0].json()["hint"]
                assert daemon.client.get("/healthz").status_code == 200
                assert daemon.client.get("/api/jobs").status_code == 200
            assert daemon.wait(daemon.render(0.4).json()["id"])["state"] == "done"
            assert daemon.client.get("/readyz").status_code == 200, "every worker lives"
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
