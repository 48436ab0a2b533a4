"""The live WebSocket of a real daemon."""

import contextlib
import json
import time
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any

import av
import numpy as np
import psutil
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from newsstudio_ditto.daemon.live_routes import MOST_MESSAGE_BYTES
from tests.daemon.running import RunningDaemon, tone


def open_stream(daemon: RunningDaemon, **query: str) -> ClientConnection:
    fields = "&".join(f"{name}={value}" for name, value in {"avatarId": "anna", "numSteps": "2", **query}.items())
    return connect(f"{daemon.url.replace('http', 'ws')}/api/presenter/stream?{fields}", max_size=None, close_timeout=1)


def read_all(socket: ClientConnection) -> tuple[list[dict[str, Any]], bytes]:
    """Text messages and the joined binary ones until the daemon closes."""
    texts, video = [], b""
    try:
        while True:
            message = socket.recv(timeout=60)
            if isinstance(message, str):
                texts.append(json.loads(message))
            else:
                video += message
    except ConnectionClosed:
        return texts, video


def wait_until_free(daemon: RunningDaemon) -> None:
    deadline = time.monotonic() + 20
    while "ditto_streams 0.0" not in daemon.client.get("/metrics").text:
        assert time.monotonic() < deadline, "the stream never ended"
        time.sleep(0.1)


def test_speech_that_arrives_bit_by_bit_comes_back_as_a_playable_video(daemon: RunningDaemon, tmp_path: Path) -> None:
    said = tone(1.5)
    with open_stream(daemon) as socket:
        for start in range(0, len(said), 1600):
            socket.send(said[start : start + 1600].tobytes())
        socket.send(json.dumps({"type": "end"}))
        socket.send(said[:8000].tobytes())
        socket.send(json.dumps({"type": "end"}))
        socket.send(json.dumps({"type": "stop"}))
        texts, video = read_all(socket)
    ready, report = texts[0], texts[-1]
    assert [text["type"] for text in texts] == ["ready", "report"]
    assert ready["mime"].startswith('video/mp4; codecs="avc1.42c0')
    assert (ready["width"], ready["height"], ready["lookAheadMs"]) == (128, 96, 1000.0)
    assert ready["device"] == "cpu"
    assert bool(ready["notice"]) == ready["slowerThanRealTime"]
    assert (report["utterances"], report["speechFrames"]) == (2, 38 + 13)
    assert len(report["firstFrameLatencyMs"]) == 2
    assert report["realTimeFactor"] > 0
    path = tmp_path / "live.mp4"
    path.write_bytes(video)
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    assert len(frames) == report["speechFrames"] + report["idleFrames"]
    times = np.array([float(frame.pts * frame.time_base) for frame in frames])
    np.testing.assert_allclose(np.diff(times), 0.04, atol=1e-3)
    with av.open(str(path)) as container:
        sound = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])
    assert len(sound) / 48_000 == pytest.approx(len(frames) / 25, abs=0.15)
    assert np.abs(sound).max() > 0.1


def test_the_first_pictures_come_before_any_speech(daemon: RunningDaemon) -> None:
    with open_stream(daemon) as socket:
        ready = json.loads(socket.recv(timeout=30))
        first = socket.recv(timeout=30)
        assert ready["type"] == "ready"
        assert isinstance(first, bytes)
        assert first[4:8] == b"ftyp"
        more = sum(len(socket.recv(timeout=30)) for _ in range(20))  # idling goes on
        assert more > 0
        socket.send(json.dumps({"type": "stop"}))
        texts, _ = read_all(socket)
    assert texts[-1]["type"] == "report"
    assert texts[-1]["realTimeFactor"] is None


def test_a_device_in_use_is_busy_for_live_and_jobs_wait_for_it(daemon: RunningDaemon) -> None:
    with open_stream(daemon) as socket:
        socket.recv(timeout=30)
        with open_stream(daemon, avatarId="still") as second:
            texts, _ = read_all(second)
            assert texts[0]["type"] == "problem"
            assert texts[0]["retryAfterS"] == "5"
            assert second.close_code == 1013
        job_id = daemon.render(0.2).json()["id"]
        assert daemon.client.get(f"/api/jobs/{job_id}").json()["state"] == "queued"
        socket.send(json.dumps({"type": "stop"}))
        read_all(socket)
    assert daemon.wait(job_id)["state"] == "done"


def test_a_live_session_goes_before_jobs_that_wait(daemon: RunningDaemon) -> None:
    jobs = [daemon.render(0.2).json()["id"] for _ in range(2)]
    with open_stream(daemon) as socket:
        assert json.loads(socket.recv(timeout=30))["type"] == "ready"
        socket.send(json.dumps({"type": "stop"}))
        read_all(socket)
    assert [daemon.wait(job_id)["state"] for job_id in jobs] == ["done"] * 2


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"avatarId": "nobody"}, "no packet"),
        ({"avatarId": "../anna"}, "not a slug"),
        ({"numSteps": "many"}, "whole numbers"),
        ({"overlapFrames": "3"}, "overlap_frames"),
    ],
)
def test_what_cannot_be_streamed_is_told_and_closed(daemon: RunningDaemon, query: dict[str, str], words: str) -> None:
    with open_stream(daemon, **query) as socket:
        texts, video = read_all(socket)
    assert texts[0]["type"] == "problem"
    assert words in texts[0]["what"]
    assert "/" not in texts[0]["what"].replace("'../anna'", "")
    assert video == b""


@pytest.mark.parametrize(
    "message", [b"123", bytes(MOST_MESSAGE_BYTES + 2), '{"type": "dance"}', "not json", "[1]", '{"type": null}']
)
def test_a_message_that_is_not_understood_ends_the_session_and_frees_the_device(
    daemon: RunningDaemon, message: bytes | str
) -> None:
    with open_stream(daemon) as socket:
        socket.recv(timeout=30)
        socket.send(message)
        read_all(socket)
        assert socket.close_code in (1003, 1009)
    wait_until_free(daemon)


def test_a_client_that_vanishes_frees_the_device(daemon: RunningDaemon) -> None:
    for talk in (False, True):
        with contextlib.suppress(OSError, ConnectionClosed), open_stream(daemon) as socket:
            socket.recv(timeout=30)
            for _ in range(30 if talk else 0):
                socket.send(tone(1.0).tobytes())
            socket.socket.shutdown(SHUT_RDWR)  # no goodbye
        wait_until_free(daemon)


def test_a_client_that_does_not_read_does_not_fill_the_memory(daemon: RunningDaemon) -> None:
    process = psutil.Process(daemon.process.pid)
    with open_stream(daemon) as socket:
        before = process.memory_full_info().uss
        for _ in range(20):
            socket.send(tone(1.0).tobytes())
        time.sleep(4)
        assert process.memory_full_info().uss < before + 60e6
    wait_until_free(daemon)
