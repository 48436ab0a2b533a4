"""Preparing through the asset graph, which runs in a child process."""

import time
from pathlib import Path

import cv2
import numpy as np
import psutil
import pytest

from tests.daemon.running import ROOT, RunningDaemon, running_daemon

CLIP = ROOT / "newsstudio_ditto" / "bundled" / "demo" / "anchor.mp4"


def send_anchor(daemon: RunningDaemon, **query: str) -> str:
    with CLIP.open("rb") as clip:
        answer = daemon.client.post(
            "/api/presenter/preprocess-avatar", params=query, files={"anchor": ("clip.mp4", clip)}
        )
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def children(daemon: RunningDaemon) -> list[psutil.Process]:
    return list(psutil.Process(daemon.process.pid).children(recursive=True))


@pytest.mark.slow
def test_the_graph_makes_the_packet_and_a_cancelled_run_is_ended(storage: Path, tiny_model: Path) -> None:
    with running_daemon(storage, tiny_model, preprocess="graph") as daemon:
        assert daemon.client.get("/api/presenter/capabilities").json()["preprocess"] == "graph"
        job = daemon.wait(send_anchor(daemon, avatarId="graphed", maxFrames="2"), timeout_s=200)
        assert job["state"] == "done", job
        assert job["result"]["num_frames"] == 2
        assert job["result"]["made"][-1] == "meta"
        assert (storage / "dagster" / "dagster.yaml").is_file()
        assert (storage / "cache" / "anchors" / "graphed" / "ditto" / "meta.pt").is_file()
        cancelled = send_anchor(daemon, avatarId="second")
        daemon.wait_for(cancelled, ("running",))
        deadline = time.monotonic() + 30
        while not children(daemon):
            assert time.monotonic() < deadline, "the child never started"
        daemon.client.post(f"/api/jobs/{cancelled}/cancel")
        assert daemon.wait(cancelled)["state"] == "cancelled"
        assert children(daemon) == []
        failed = daemon.client.post(
            "/api/presenter/preprocess-avatar",
            params={"avatarId": "noise"},
            files={"anchor": ("noise.png", noise_picture())},
        )
        job = daemon.wait(failed.json()["id"], timeout_s=200)
        assert job["state"] == "failed"
        assert "face" in job["what"]
        assert str(storage) not in str(job)


def noise_picture() -> bytes:
    """A picture that shows nobody."""
    pixels = np.random.default_rng(1).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    return bytes(cv2.imencode(".png", pixels)[1])
