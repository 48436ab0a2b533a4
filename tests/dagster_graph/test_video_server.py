"""The read-only server of finished videos."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.video_link import VIDEO_URL_VARIABLE, video_link
from newsstudio_ditto.video_server import build_app, known_hosts

CONTENT = bytes(range(256)) * 40
BASE = "http://127.0.0.1:3001"


@pytest.fixture
def layout(tmp_path: Path) -> StorageLayout:
    layout = StorageLayout(tmp_path)
    video = layout.video("anna", "news")
    video.parent.mkdir(parents=True)
    video.write_bytes(CONTENT)
    (video.parent / ".ditto-1.partial.mp4").write_bytes(b"half")
    (video.parent / "notes.txt").write_bytes(b"notes")
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    return layout


@pytest.fixture
def client(layout: StorageLayout) -> Iterator[TestClient]:
    with TestClient(build_app(layout, known_hosts("127.0.0.1")), base_url=BASE) as client:
        yield client


def test_a_video_is_served_whole_and_in_parts(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VIDEO_URL_VARIABLE, raising=False)
    link = video_link("anna", "news")
    assert link == f"{BASE}/videos/anna/news.mp4"
    whole = client.get(link)
    assert (whole.status_code, whole.content, whole.headers["content-type"]) == (200, CONTENT, "video/mp4")
    part = client.get(link, headers={"Range": "bytes=100-299"})
    assert (part.status_code, part.content) == (206, CONTENT[100:300])
    assert part.headers["content-range"] == f"bytes 100-299/{len(CONTENT)}"
    assert client.get(link, headers={"Range": "bytes=99999-"}).status_code == 416
    head = client.head(link)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(CONTENT)))


@pytest.mark.parametrize(
    "path",
    [
        "/videos/anna/other.mp4",
        "/videos/anna/.ditto-1.partial.mp4",
        "/videos/anna/notes.txt",
        "/videos/../secret.mp4",
        "/videos/%2e%2e/secret.mp4",
        "/videos/anna/..%2f..%2fsecret.mp4",
        "/secret.mp4",
        "/videos/",
        "/docs",
    ],
)
def test_nothing_else_is_served(path: str, client: TestClient) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 422)
    assert b"secret" not in answer.content


def test_it_only_reads(client: TestClient, layout: StorageLayout) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, "/videos/anna/news.mp4").status_code == 405
    assert layout.video("anna", "news").read_bytes() == CONTENT


def test_a_page_of_another_site_cannot_read_along(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/videos/anna/news.mp4", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/videos/anna/news.mp4").headers["cross-origin-resource-policy"] == "same-site"
    monkeypatch.setenv(VIDEO_URL_VARIABLE, "https://studio.example/play/")
    assert "studio.example" in known_hosts("0.0.0.0")
    assert video_link("anna", "news") == "https://studio.example/play/videos/anna/news.mp4"
