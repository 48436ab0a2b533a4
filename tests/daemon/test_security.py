"""Those who mean ill, or are merely broken: refused, with two fields, and nothing is left behind."""

import os
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from newsstudio_ditto.daemon.guard import read_strange_speech, try_strange_anchor
from newsstudio_ditto.daemon.problems import RequestError
from newsstudio_ditto.daemon.settings import UploadLimits
from newsstudio_ditto.errors import DittoError, MediaError
from tests.daemon.conftest import TOKEN
from tests.daemon.running import ROOT, RunningDaemon, running_daemon, wav

STUDIO = "https://studio.example"
TIGHT = UploadLimits(speech_s=2.0, anchor_s=1.0, decode_s=10.0, pixels=1_000_000)


def png(width: int, height: int) -> bytes:
    """A grey PNG of any size; its rows pack to almost nothing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    packer = zlib.compressobj(9)
    row = bytes(1 + width)
    body = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def assert_problem(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"what", "hint"}
    for word in ("Traceback", str(ROOT), "/tmp", "site-packages", ".py"):
        assert word not in answer.text


def no_leftovers(daemon: RunningDaemon) -> bool:
    jobs = daemon.root / "daemon" / "jobs"
    return not jobs.exists() or not list(jobs.iterdir())


@pytest.fixture(scope="module")
def locked(tiny_model: Path, bundle: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    with running_daemon(
        tmp_path_factory.mktemp("locked") / "storage", tiny_model, token=TOKEN, origins=[STUDIO]
    ) as running:
        yield running


def test_without_the_token_nothing_is_told(locked: RunningDaemon) -> None:
    with httpx.Client(base_url=locked.url) as stranger:
        refuse_stranger(stranger)
    assert locked.client.get("/api/jobs").json() == []


def refuse_stranger(stranger: httpx.Client) -> None:
    for path in ("/api/jobs", "/api/presenter/avatars", "/metrics", "/openapi.json", "/api/jobs/x"):
        answer = stranger.get(path)
        assert_problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
    for wrong in ("Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", f"Bearer  {TOKEN[:-1]}"):
        assert stranger.get("/api/jobs", headers={"Authorization": wrong}).status_code == 401
    assert stranger.get("/api/jobs", headers={"Cookie": f"ditto_session={TOKEN}"}).status_code == 401
    assert {stranger.get(path).status_code for path in ("/", "/healthz", "/readyz", "/static/app.js")} == {200}


def test_an_allowed_origin_gets_cors_headers_and_still_needs_the_token(locked: RunningDaemon) -> None:
    asked = {"Origin": STUDIO, "Access-Control-Request-Method": "POST"}
    with httpx.Client(base_url=locked.url) as other:
        assert other.options("/api/presenter/render", headers=asked).headers["access-control-allow-origin"] == STUDIO
        asked["Origin"] = "https://evil.example"
        assert "access-control-allow-origin" not in other.options("/api/presenter/render", headers=asked).headers
        refused = other.get("/api/jobs", headers={"Origin": STUDIO})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, STUDIO)
    cancelled = locked.client.post("/api/jobs/0123456789abcdef/cancel", headers={"Origin": STUDIO})
    assert_problem(cancelled, 404)


def test_a_browser_gets_a_cookie_for_the_token(locked: RunningDaemon) -> None:
    with httpx.Client(base_url=locked.url) as browser:
        assert browser.post("/api/session").status_code == 401
        answer = browser.post("/api/session", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 204
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert browser.get("/api/jobs").status_code == 200


def test_a_body_is_not_read_before_the_token(locked: RunningDaemon) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(locked.url).port or 0), timeout=10) as raw:
        raw.sendall(b"POST /api/presenter/render HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n")
        assert b" 401 " in raw.recv(4096)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_other_sites_are_kept_out(daemon: RunningDaemon, headers: dict[str, str], status: int) -> None:
    assert_problem(daemon.client.post("/api/jobs/0123456789abcdef/cancel", headers=headers), status)


def test_other_origins_get_no_cors_headers(daemon: RunningDaemon) -> None:
    answer = daemon.client.get("/api/jobs", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in daemon.client.options("/api/presenter/render", headers=asked).headers


@pytest.mark.parametrize(
    "given",
    [
        "../../../etc/passwd.wav",
        "/etc/passwd.wav",
        "../jobs.sqlite",
        "..%2f..%2fx.wav",
        "out.wav",
        "a\0.wav",
        "x" * 400 + ".wav",
        "./../speeches/../../secret.wav",
    ],
)
def test_paths_do_not_lead_out_of_the_allowed_folder(daemon: RunningDaemon, given: str) -> None:
    speeches = daemon.root / "speeches"
    speeches.mkdir(exist_ok=True)
    secret = daemon.root.parent / "secret.wav"
    secret.write_bytes(wav(0.1))
    link = speeches / "out.wav"
    if not link.is_symlink():
        link.symlink_to(secret)
    answer = daemon.client.post("/api/presenter/render", data={"avatarId": "anna", "speechPath": given})
    assert answer.status_code in (404, 415)
    assert_problem(answer, answer.status_code)
    assert no_leftovers(daemon)


@pytest.mark.parametrize(
    "path", ["/static/../settings.py", "/static/%2e%2e/settings.py", "/static/..%2f..%2fapi.py", "/static//etc/passwd"]
)
def test_static_files_stay_in_their_folder(daemon: RunningDaemon, path: str) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(daemon.url).port or 0), timeout=10) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := raw.recv(65536):
            answer += piece
    assert b" 404 " in answer.splitlines()[0]


@pytest.mark.parametrize("avatar_id", ["../x", "A", "", "a" * 65, "a/b", "a b", "é", "a\n"])
def test_ids_that_are_no_slugs_are_refused(daemon: RunningDaemon, avatar_id: str) -> None:
    assert_problem(daemon.client.get("/api/presenter/preprocess-avatar", params={"avatarId": avatar_id}), 422)
    files = {"speech": ("a.wav", wav(0.1))}
    assert_problem(daemon.client.post("/api/presenter/render", data={"avatarId": avatar_id}, files=files), 422)


BAD_SPEECHES = {
    "text": ("a.wav", b"this is no sound" * 100, 415),
    "empty": ("a.wav", b"", 415),
    "headeronly": ("a.wav", wav(0.0), 415),
    "cut": ("a.wav", wav(1.0)[:30], 415),
    "program": ("a.exe", wav(0.1), 415),
    "noname": ("wav", wav(0.1), 415),
    "playlist": ("a.mp3", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", 415),
    "concat": ("a.wav", b"ffconcat version 1.0\nfile /etc/passwd\n", 415),
    "picture": ("a.webm", png(64, 64), 415),
    "traversal": ("../../../../tmp/x.wav", wav(0.1), 202),
    "odd": ("$(touch x) %03d 'a'.wav", wav(0.1), 202),
}


@pytest.mark.parametrize("name", BAD_SPEECHES)
def test_strange_speeches(daemon: RunningDaemon, name: str) -> None:
    file_name, content, status = BAD_SPEECHES[name]
    files = {"speech": (file_name, content)}
    answer = daemon.client.post("/api/presenter/render", data={"avatarId": "anna"}, files=files)
    if status == 202:
        assert answer.status_code == 202
        assert daemon.wait(answer.json()["id"])["state"] == "done"
    else:
        assert_problem(answer, status)
    assert no_leftovers(daemon)
    assert not Path("/tmp/x.wav").exists()


@pytest.mark.parametrize(
    ("controls", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ('{"mouth_amplitude": 99}', 400),
        ('{"unknown": 1}', 400),
        ('{"emotion": "happy"}', 202),
        ("[" * 20_000, 400),
        ('{"mouth_amplitude": NaN}', 400),
    ],
)
def test_strange_controls(daemon: RunningDaemon, controls: str, status: int) -> None:
    answer = daemon.render(0.1, controls=controls)
    if status == 202:
        assert daemon.wait(answer.json()["id"])["state"] == "done"
    else:
        assert_problem(answer, status)


def test_none_or_two_speeches_and_unknown_things_are_refused(daemon: RunningDaemon) -> None:
    post = daemon.client.post
    assert_problem(post("/api/presenter/render", data={"avatarId": "anna"}), 400)
    assert_problem(daemon.render(0.1, speechPath="x.wav"), 400)
    assert_problem(daemon.render(0.1, avatarId="nobody"), 404)
    assert_problem(daemon.client.get("/api/jobs/0123456789abcdef"), 404)
    assert_problem(daemon.client.get("/api/jobs/0123456789abcdef/events"), 404)
    assert_problem(daemon.client.get("/api/jobs/..%2f..%2fx"), 404)
    assert_problem(daemon.client.delete("/api/jobs/0123456789abcdef"), 405)
    assert_problem(post("/api/presenter/render", content=b"x" * 100, headers={"content-type": "text/plain"}), 422)
    broken = {"content-type": "multipart/form-data; boundary=x"}
    answer = post("/api/presenter/render", content=b"--x\r\nnonsense", headers=broken)
    assert answer.status_code in (400, 422)
    assert_problem(answer, answer.status_code)


def test_a_body_that_is_too_large_is_refused_early_and_late(daemon: RunningDaemon) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(daemon.url).port or 0), timeout=10) as raw:
        raw.sendall(b"POST /api/presenter/render HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n")
        assert b" 413 " in raw.recv(4096)

    def endless() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="speech"; filename="a.wav"\r\n\r\n'
        for _ in range(100):
            yield bytes(100_000)

    headers = {"content-type": "multipart/form-data; boundary=x"}
    try:
        answer = daemon.client.post("/api/presenter/render", content=endless(), headers=headers)
    except httpx.TransportError:
        pass  # the daemon hung up before everything was sent
    else:
        assert_problem(answer, 413)
    assert no_leftovers(daemon)


def test_slow_and_aborted_uploads_end_and_leave_nothing(daemon: RunningDaemon) -> None:
    head = (
        b"POST /api/presenter/render HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\nContent-Disposition: form-data; "
        b'name="speech"; filename="a.wav"\r\n\r\n'
    )
    port = urlsplit(daemon.url).port or 0
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as aborted:
            aborted.sendall(head + bytes(50_000))
    with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
        started = time.monotonic()
        slow.sendall(head + bytes(10))
        answer = slow.recv(4096)
    assert b" 408 " in answer.splitlines()[0]
    assert 1.5 < time.monotonic() - started < 6
    assert daemon.client.get("/readyz").status_code == 200
    assert no_leftovers(daemon)


def test_a_picture_that_unpacks_to_a_gigabyte_is_refused(daemon: RunningDaemon) -> None:
    bomb = png(30_000, 30_000)
    assert len(bomb) < 2_000_000
    answer = daemon.client.post(
        "/api/presenter/preprocess-avatar", params={"avatarId": "bomb"}, files={"anchor": ("b.png", bomb)}
    )
    assert_problem(answer, 415)
    assert no_leftovers(daemon)
    assert not (daemon.root / "anchors" / "bomb.png").exists()


def test_decoding_is_limited_in_length_time_and_memory(tmp_path: Path) -> None:
    long = tmp_path / "long.wav"
    long.write_bytes(wav(5.0))
    with pytest.raises(RequestError) as refusal:
        read_strange_speech(long, tmp_path / "out.wav", TIGHT)
    assert refusal.value.status == 413
    clip = ROOT / "newsstudio_ditto" / "bundled" / "demo" / "anchor.mp4"
    with pytest.raises(DittoError, match=r"longer than 1 s|within the limits"):
        try_strange_anchor(clip, TIGHT)
    try_strange_anchor(clip, UploadLimits())
    with pytest.raises(MediaError, match="within the limits"):
        try_strange_anchor(clip, UploadLimits(decode_bytes=40_000_000))
    with pytest.raises(MediaError, match="too long"):
        try_strange_anchor(clip, UploadLimits(decode_s=0.01))
    pipe = tmp_path / "endless.wav"
    os.mkfifo(pipe)
    with pytest.raises(MediaError, match="too long"):
        read_strange_speech(pipe, tmp_path / "out.wav", UploadLimits(decode_s=1.0))
