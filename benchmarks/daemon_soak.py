"""A thousand mixed requests, good and bad, against a real daemon: is everything answered, and does memory stay flat?

Run from the checkout, with the packages of the tests::

    python -m benchmarks.daemon_soak [--requests 1000] [--workers 6] [--seed 1]

It starts a daemon with a tiny model and random weights in a process of its own, sends requests of many kinds at once,
and compares what was sent with what was answered, what the daemon counted and what lies on the disk.
"""

import argparse
import collections
import contextlib
import json
import random
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import torch
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tests.daemon.running import RunningDaemon, running_daemon, tone, write_tiny
from tests.render.tiny import tiny_packet

BUSY = 503
LONGEST_WAIT_S = 0.5  # sooner than the daemon asks for: the queue shall be full most of the time


_UPLOAD_HEAD = (
    b"POST /api/presenter/render HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
    b'--x\r\nContent-Disposition: form-data; name="speech"; filename="a.wav"\r\n\r\n'
)


@dataclass
class Tally:
    """What came of the requests.

    Args:
        answers: by kind and status.
        jobs: ids of the jobs that were taken.
        wrong: answers that nobody should get.
        seconds: of the requests, by kind.
    """

    answers: collections.Counter[str] = field(default_factory=collections.Counter)
    jobs: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, answer: httpx.Response, expected: tuple[int, ...]) -> None:
        """Count an answer."""
        with self.lock:
            self.answers[f"{kind} {answer.status_code}"] += 1
            if answer.status_code not in expected:
                self.wrong.append(f"{kind}: {answer.status_code} {answer.text[:200]}")
            if answer.status_code == 202:
                self.jobs.append(answer.json()["id"])


def patiently(daemon: RunningDaemon, send: Callable[[], httpx.Response], tally: Tally) -> httpx.Response:
    """Send until the daemon is not busy; busy answers are counted too."""
    while True:
        answer = send()
        if answer.status_code != BUSY:
            return answer
        assert int(answer.headers["retry-after"]) >= 1
        with tally.lock:
            tally.answers["busy 503"] += 1
        time.sleep(LONGEST_WAIT_S)


def good_render(daemon: RunningDaemon, draw: random.Random, tally: Tally) -> None:
    """A short speech."""
    seconds = draw.choice((0.1, 0.2, 0.4))
    tally.add("render", patiently(daemon, lambda: daemon.render(seconds), tally), (202,))


def cancelled_render(daemon: RunningDaemon, draw: random.Random, tally: Tally) -> None:
    """A long speech that is cancelled at once, or a little later."""
    answer = patiently(daemon, lambda: daemon.render(20.0), tally)
    tally.add("render", answer, (202,))
    time.sleep(draw.random() / 4)
    tally.add("cancel", daemon.client.post(f"/api/jobs/{answer.json()['id']}/cancel"), (200,))


def bad_render(daemon: RunningDaemon, draw: random.Random, tally: Tally) -> None:
    """A speech that is none, an avatar that is none, controls that are none."""
    noise, kind = draw.randbytes(2000), draw.randrange(4)

    def send() -> httpx.Response:
        if kind == 0:
            files = {"speech": ("a.wav", noise)}
            return daemon.client.post("/api/presenter/render", data={"avatarId": "anna"}, files=files)
        if kind == 1:
            return daemon.render(0.1, avatarId="nobody")
        if kind == 2:
            return daemon.render(0.1, controls="{")
        form = {"avatarId": "anna", "speechPath": "../../etc/passwd.wav"}
        return daemon.client.post("/api/presenter/render", data=form)

    tally.add("bad render", patiently(daemon, send, tally), (400, 404, 415))


def look(daemon: RunningDaemon, draw: random.Random, tally: Tally) -> None:
    """Something to read."""
    path = draw.choice(
        [
            "/",
            "/readyz",
            "/metrics",
            "/api/jobs",
            "/api/presenter/avatars",
            "/api/presenter/capabilities",
            "/api/presenter/avatars/anna/preview.jpg",
            "/api/presenter/preprocess-avatar?avatarId=anna",
        ]
    )
    tally.add("read", daemon.client.get(path), (200,))


def look_wrong(daemon: RunningDaemon, draw: random.Random, tally: Tally) -> None:
    """Something that is not there, or not allowed."""
    path = draw.choice(["/nothing", "/api/jobs/0123456789abcdef", "/api/jobs/%2e%2e", "/static/%2e%2e/app.py"])
    headers = draw.choice([{}, {"Host": "evil.example"}])
    tally.add("bad read", daemon.client.get(path, headers=headers), (404, 421, 422))


def abort(daemon: RunningDaemon, draw: random.Random, tally: Tally) -> None:
    """An upload that breaks off; there is no answer to count."""
    place = urlsplit(daemon.url)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=10) as raw:
        raw.sendall(_UPLOAD_HEAD + draw.randbytes(draw.randrange(1, 100_000)))
    with tally.lock:
        tally.answers["aborted upload"] += 1


def watch(daemon: RunningDaemon, draw: random.Random, tally: Tally) -> None:
    """The events of some job, up to its end, or only for a while."""
    with tally.lock:
        job_id = draw.choice(tally.jobs) if tally.jobs else "0123456789abcdef"
    with daemon.client.stream("GET", f"/api/jobs/{job_id}/events") as answer:
        if answer.status_code == 200:
            next(answer.iter_lines())
        else:
            answer.read()
        tally.add("events", answer, (200, 404))


def talk(daemon: RunningDaemon, draw: random.Random, tally: Tally) -> None:
    """A live session: it may be refused as busy, end well, or be left."""
    url = f"{daemon.url.replace('http', 'ws')}/api/presenter/stream?avatarId=anna&numSteps=1"
    kinds = []
    with contextlib.suppress(WebSocketException), connect(url, max_size=None) as live:
        live.send(tone(0.2).tobytes())
        if draw.random() < 0.5:
            live.send(json.dumps({"type": "stop"}))
            kinds = [json.loads(text)["type"] for text in live if isinstance(text, str)]
    with tally.lock:
        tally.answers[f"live {kinds[-1] if kinds else 'left'}"] += 1


KINDS: tuple[tuple[Callable[[RunningDaemon, random.Random, Tally], None], int], ...] = (
    (good_render, 18),
    (cancelled_render, 4),
    (bad_render, 16),
    (look, 36),
    (look_wrong, 14),
    (abort, 6),
    (watch, 4),
    (talk, 2),
)


def send_all(daemon: RunningDaemon, num_requests: int, num_workers: int, seed: int) -> tuple[Tally, list[int]]:
    """Send everything; the private memory of the daemon is read after each twentieth part."""
    tally, process, sizes = Tally(), psutil.Process(daemon.process.pid), []
    functions, weights = zip(*KINDS, strict=True)
    kinds = random.Random(seed).choices(functions, weights, k=num_requests)

    def send(number: int) -> None:
        started = time.perf_counter()
        kinds[number](daemon, random.Random(seed * 1_000_003 + number), tally)
        with tally.lock:
            tally.seconds[kinds[number].__name__].append(time.perf_counter() - started)

    with ThreadPoolExecutor(num_workers) as pool:
        part = max(num_requests // 20, 1)
        for start in range(0, num_requests, part):
            list(pool.map(send, range(start, min(start + part, num_requests))))
            sizes.append(process.memory_full_info().uss)
    return tally, sizes


def report(daemon: RunningDaemon, tally: Tally, sizes: list[int], seconds: float) -> bool:
    """Print what came of it; True if nothing is wrong."""
    states = collections.Counter(daemon.wait(job_id, timeout_s=300)["state"] for job_id in tally.jobs)
    videos = len(list((daemon.root / "videos").rglob("*.mp4")))
    left = [path.name for path in (daemon.root / "daemon" / "jobs").iterdir()]
    half = len(list((daemon.root / "videos").rglob(".ditto-*")))
    children = psutil.Process(daemon.process.pid).children(recursive=True)
    for name, count in sorted(tally.answers.items()):
        print(f"{count:6d}  {name}")
    for name, values in sorted(tally.seconds.items()):
        print(f"{name}: median {1000 * statistics.median(values):.0f} ms, longest {max(values):.1f} s")
    print(f"jobs taken {len(tally.jobs)}: {dict(states)}; videos on the disk {videos}; half-made {half}")
    print(f"job folders left {left}; child processes left {[child.name() for child in children]}")
    growth = sizes[-1] / sizes[len(sizes) // 4]
    print(f"private memory: {[round(size / 1e6) for size in sizes]} MB; end over end of first quarter {growth:.3f}")
    print(f"{sum(tally.answers.values())} answers in {seconds:.0f} s; wrong: {tally.wrong or 'none'}")
    log = daemon.log.read_text()
    traces = log.count("Traceback")
    print(f"stack traces in the log: {traces} {log[log.find('Traceback') :][:3000] if traces else ''}")
    return not (tally.wrong or left or half or children or traces) and videos == states["done"]


def main() -> None:
    """Start a daemon, send, and report; exit code 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bundle = write_tiny(root / "tiny")
        tiny_packet(root / "storage", bundle, 5)
        with running_daemon(root / "storage", root / "tiny", limits={"idle_s": 3.0}) as daemon:
            assert daemon.wait(daemon.render(0.2).json()["id"])["state"] == "done"
            (root / "storage" / "videos").rename(root / "warm-up")
            started = time.monotonic()
            tally, sizes = send_all(daemon, told.requests, told.workers, told.seed)
            is_good = report(daemon, tally, sizes, time.monotonic() - started)
    raise SystemExit(0 if is_good else 1)


if __name__ == "__main__":
    main()
