"""The API of a real daemon: what it answers to those who mean well."""

import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import httpx
import numpy as np
import psutil
import pytest

from newsstudio_ditto.media.probe import probe
from newsstudio_ditto.media.tags import read_provenance
from tests.daemon.running import ROOT, RunningDaemon, wav

CLIP = ROOT / "newsstudio_ditto" / "bundled" / "demo" / "anchor.mp4"


def read_events(daemon: RunningDaemon, job_id: str) -> list[tuple[str, dict[str, object]]]:
    """(event, job) of a whole event stream."""
    found = []
    with daemon.client.stream("GET", f"/api/jobs/{job_id}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
    return found


def test_health_metrics_and_capabilities(daemon: RunningDaemon) -> None:
    assert daemon.client.get("/healthz").json() == {"status": "ok"}
    assert daemon.client.get("/readyz").json() == {"status": "ready"}
    assert "ditto_requests_total" in daemon.client.get("/metrics").text
    abilities = daemon.client.get("/api/presenter/capabilities").json()
    assert (abilities["model"], abilities["queueLimit"], abilities["preprocess"]) == ("tiny", 2, "inline")
    assert abilities["devices"][0]["name"] == "cpu"


def test_avatars_previews_and_their_files(daemon: RunningDaemon) -> None:
    rows = {row["avatarId"]: row for row in daemon.client.get("/api/presenter/avatars").json()}
    assert rows["anna"]["ready"]
    assert rows["anna"]["numFrames"] == 5
    preview = daemon.client.get("/api/presenter/avatars/anna/preview.jpg")
    assert (preview.headers["content-type"], preview.content[:2]) == ("image/jpeg", b"\xff\xd8")
    query = {"avatarId": "anna", "engine": "ditto", "verify": "true"}
    status = daemon.client.get("/api/presenter/preprocess-avatar", params=query).json()
    assert status["ready"]
    assert [file["fileName"] for file in status["files"]] == [
        *("f_s.pt", "keypoints.pt", "grids.pt", "masks.pt", "frames.pt", "meta.pt")
    ]
    assert {file["checksum"] for file in status["files"]} == {"good"}
    assert len({file["generation"] for file in status["files"]}) == 1
    assert status["files"][4]["tensors"] == [{"name": "frames", "dtype": "uint8", "shape": [5, 3, 96, 128]}]
    assert (daemon.root / "cache" / "anchors" / "anna" / "ditto").is_symlink()
    nobody = daemon.client.get("/api/presenter/preprocess-avatar", params={"avatarId": "nobody"}).json()
    assert not nobody["ready"]
    assert "nobody" in nobody["reason"]
    files = daemon.client.get("/api/presenter/engines/ditto").json()
    assert [file["name"] for file in files] == [file["name"] for file in status["files"]]


def test_a_speech_becomes_a_video_that_ranges_are_served_of(daemon: RunningDaemon, tmp_path: Path) -> None:
    answer = daemon.render(1.0, seed=3, controls='{"mouth_amplitude": 1.5}')
    assert answer.status_code == 202, answer.text
    job_id = answer.json()["id"]
    assert answer.headers["location"] == f"/api/jobs/{job_id}"
    events = read_events(daemon, job_id)
    assert [name for name, _ in events[:-1]] == ["progress"] * (len(events) - 1)
    speeds = [job["fps"] for _, job in events if job["fps"] is not None]
    assert all(0 < float(str(fps)) < 5000 for fps in speeds)
    name, job = events[-1]
    assert (name, job["state"], job["percent"]) == ("end", "done", 100.0)
    whole = daemon.client.get(str(job["video"]))
    assert whole.headers["content-type"] == "video/mp4"
    part = daemon.client.get(str(job["video"]), headers={"Range": "bytes=100-299"})
    assert part.status_code == 206
    assert part.headers["content-range"] == f"bytes 100-299/{len(whole.content)}"
    assert part.content == whole.content[100:300]
    assert daemon.client.get(str(job["video"]), headers={"Range": "bytes=999999999-"}).status_code == 416
    path = tmp_path / "anna.mp4"
    path.write_bytes(whole.content)
    facts = probe(path)
    assert facts.video is not None
    assert facts.video.header_frames == 25
    assert read_provenance(path)["seed"] == "3"
    assert not (daemon.root / "daemon" / "jobs" / job_id).exists(), "what was sent is not kept"
    listed = daemon.client.get("/api/jobs", params={"limit": 1}).json()
    assert listed[0]["id"] == job_id


def test_the_client_of_the_documentation_works(
    daemon: RunningDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "http-api.md").read_text()
    client = text.split("```python\n")[1].split("```")[0].replace("http://127.0.0.1:8010", daemon.url)
    assert len([line for line in client.splitlines() if line.strip()]) <= 10
    (tmp_path / "speech.wav").write_bytes(wav(0.2))
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-c", client], check=True, timeout=60)
    assert probe(tmp_path / "anna.mp4").video is not None


def test_a_speech_may_lie_in_the_allowed_folder(daemon: RunningDaemon) -> None:
    speeches = daemon.root / "speeches"
    speeches.mkdir(exist_ok=True)
    (speeches / "news.wav").write_bytes(wav(0.2))
    form = {"avatarId": "still", "speechPath": "news.wav"}
    answer = daemon.client.post("/api/presenter/render", data=form)
    assert answer.status_code == 202, answer.text
    assert daemon.wait(answer.json()["id"])["state"] == "done"


def test_typed_text_is_spoken(daemon: RunningDaemon) -> None:
    pytest.importorskip("hibari", reason="needs the extra 'speak'")
    form = {"avatarId": "still", "text": "Good evening."}
    answer = daemon.client.post("/api/presenter/render", data=form)
    assert answer.status_code == 202, answer.text
    job = daemon.wait(answer.json()["id"])
    assert job["state"] == "done"
    assert job["result"]["num_frames"] > 10
    too_long = daemon.client.post("/api/presenter/render", data={"avatarId": "still", "text": "word " * 1000})
    assert too_long.status_code == 413
    nothing = daemon.client.post("/api/presenter/render", data={"avatarId": "still", "text": "…"})
    assert nothing.status_code == 400


def test_a_running_job_is_cancelled_and_leaves_nothing(daemon: RunningDaemon) -> None:
    job_id = daemon.render(40.0).json()["id"]
    daemon.wait_for(job_id, ("running",))
    assert daemon.client.get(f"/api/jobs/{job_id}/video").status_code == 409
    daemon.client.post(f"/api/jobs/{job_id}/cancel")
    assert daemon.wait(job_id)["state"] == "cancelled"
    assert daemon.client.post(f"/api/jobs/{job_id}/cancel").json()["state"] == "cancelled"
    assert list((daemon.root / "videos").glob(f"**/*{job_id}*")) == []
    assert list((daemon.root / "videos").glob("**/.ditto-*")) == []


def test_a_job_whose_encoder_dies_fails_with_the_reason_within_five_seconds(daemon: RunningDaemon) -> None:
    job_id = daemon.render(40.0).json()["id"]
    daemon.wait_for(job_id, ("running",))
    deadline = time.monotonic() + 30
    while daemon.client.get(f"/api/jobs/{job_id}").json()["stage"] != "render":
        assert time.monotonic() < deadline, "no frame was ever rendered"
    for child in psutil.Process(daemon.process.pid).children():
        child.kill()
    job = daemon.wait(job_id, timeout_s=5)
    assert job["state"] == "failed"
    assert "killed" in job["what"]
    assert job["hint"]
    assert daemon.wait(daemon.render(0.2).json()["id"])["state"] == "done"


def test_a_full_queue_answers_busy_and_takes_jobs_again(daemon: RunningDaemon) -> None:
    running = daemon.render(40.0).json()["id"]
    daemon.wait_for(running, ("running",))
    waiting = [daemon.render(0.2).json()["id"] for _ in range(2)]
    busy = daemon.render(0.2)
    assert busy.status_code == 503
    assert int(busy.headers["retry-after"]) >= 1
    assert "queue is full" in busy.json()["what"]
    cancelled = daemon.client.post(f"/api/jobs/{waiting[1]}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert daemon.render(0.2).status_code == 202
    daemon.client.post(f"/api/jobs/{running}/cancel")
    assert daemon.wait(waiting[0])["state"] == "done"


def test_an_anchor_becomes_a_packet(daemon: RunningDaemon, tmp_path: Path) -> None:
    query = {"avatarId": "newcomer", "engine": "ditto", "maxFrames": "2"}
    with CLIP.open("rb") as clip:
        answer = daemon.client.post(
            "/api/presenter/preprocess-avatar", params=query, files={"anchor": ("me.mp4", clip, "video/mp4")}
        )
    assert answer.status_code == 202, answer.text
    name, job = read_events(daemon, answer.json()["id"])[-1]
    assert (name, job["state"]) == ("end", "done"), job
    assert job["result"]["num_frames"] == 2  # type: ignore[index]
    status = daemon.client.get("/api/presenter/preprocess-avatar", params={"avatarId": "newcomer"}).json()
    assert (status["ready"], status["stale"]) == (True, [])
    again = daemon.client.post("/api/presenter/preprocess-avatar", params=query)  # the anchor that is there
    job = daemon.wait(again.json()["id"])
    assert (job["state"], job["result"]["made"]) == ("done", [])
    shutil.rmtree(daemon.root / "cache" / "anchors" / "newcomer")


def test_an_anchor_without_a_face_fails_with_the_reason(daemon: RunningDaemon, tmp_path: Path) -> None:
    path = tmp_path / "wall.png"
    cv2.imwrite(str(path), np.full((128, 128, 3), 127, np.uint8))
    answer = daemon.client.post(
        "/api/presenter/preprocess-avatar",
        params={"avatarId": "wall"},
        files={"anchor": ("wall.png", path.read_bytes())},
    )
    job = daemon.wait(answer.json()["id"])
    assert job["state"] == "failed"
    assert "face" in job["what"]
    assert job["hint"]
    missing = daemon.client.post("/api/presenter/preprocess-avatar", params={"avatarId": "nobody-here"})
    assert missing.status_code == 415
    assert "no anchor named 'nobody-here'" in missing.json()["what"]


def test_the_page_and_its_parts_are_served(daemon: RunningDaemon) -> None:
    page = daemon.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for name in ("app.js", "api.js", "live.js", "mic.js", "docs.js", "style.css", "icon.svg"):
        assert daemon.client.get(f"/static/{name}").status_code == 200
    assert daemon.client.get("/docs").status_code == 200


def test_the_schema_describes_every_answer_with_what_and_hint(daemon: RunningDaemon) -> None:
    schema = daemon.client.get("/openapi.json").json()
    assert set(schema["components"]["schemas"]["Problem"]["properties"]) == {"what", "hint"}
    assert "HTTPValidationError" not in schema["components"]["schemas"]
    paths = {"/api/presenter/preprocess-avatar", "/api/presenter/render", "/api/jobs/{job_id}/events"}
    assert paths <= set(schema["paths"])


def test_ten_jobs_in_a_row_leave_the_memory_as_it_was(daemon: RunningDaemon) -> None:
    process, sizes = psutil.Process(daemon.process.pid), []
    for _ in range(10):
        assert daemon.wait(daemon.render(0.4).json()["id"])["state"] == "done"
        sizes.append(process.memory_full_info().uss)
    assert sizes[-1] <= sizes[1] * 1.05


def test_twenty_requests_at_once_are_all_answered(daemon: RunningDaemon) -> None:
    def send(_number: int) -> httpx.Response:
        return daemon.render(0.2)

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(send, range(20)))
    assert {answer.status_code for answer in answers} == {202, 503}
    taken = [answer.json()["id"] for answer in answers if answer.status_code == 202]
    assert {daemon.wait(job_id)["state"] for job_id in taken} == {"done"}
