"""A real daemon in a process of its own, with the tiny model and packets of a few frames."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from newsstudio_ditto.networks.bundle import ModelBundle, load_bundle, write_bundle
from newsstudio_ditto.networks.manifest import NETWORK_NAMES
from tests.render.tiny import TINY, tiny_bundle

ROOT = Path(__file__).parents[2]
START_S = 90.0


def write_tiny(folder: Path) -> ModelBundle:
    """The tiny model as files, and opened."""
    made = tiny_bundle()
    networks = {name: getattr(made, name) for name in NETWORK_NAMES}
    write_bundle(folder, TINY, networks, name="tiny", licence="none", trained=dict.fromkeys(NETWORK_NAMES, False))
    return load_bundle(folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tone(seconds: float, *, rate_hz: int = 16_000, hz: float = 220.0) -> np.ndarray:
    """(samples,) int16, loud and quiet by turns, as speech is."""
    time_s = np.arange(round(seconds * rate_hz)) / rate_hz
    return (9000 * np.sin(2 * np.pi * hz * time_s) * (0.55 + 0.45 * np.sin(2 * np.pi * 3 * time_s))).astype("<i2")


def wav(seconds: float) -> bytes:
    """A 16 kHz mono WAV file."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(tone(seconds).tobytes())
    return buffer.getvalue()


@dataclass
class RunningDaemon:
    """A daemon that answers."""

    url: str
    root: Path
    process: subprocess.Popen[bytes]
    log: Path
    token: str | None = None
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        """Open a client that knows the token."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=60.0)

    def render(self, seconds: float = 0.4, **fields: Any) -> httpx.Response:
        """Send a speech."""
        form = {"avatarId": "anna", **{name: str(value) for name, value in fields.items()}}
        files = {"speech": ("speech.wav", wav(seconds), "audio/wav")}
        return self.client.post("/api/presenter/render", data=form, files=files)

    def wait(self, job_id: str, *, timeout_s: float = 60.0) -> dict[str, Any]:
        """The job once it is final."""
        return self.wait_for(job_id, ("done", "failed", "cancelled", "interrupted"), timeout_s=timeout_s)

    def wait_for(self, job_id: str, states: tuple[str, ...], *, timeout_s: float = 60.0) -> dict[str, Any]:
        """The job once it is in one of the states."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            job: dict[str, Any] = self.client.get(f"/api/jobs/{job_id}").json()
            if job["state"] in states:
                return job
            time.sleep(0.05)
        raise AssertionError(f"job {job_id} is still {job}")

    def kill(self) -> None:
        """As hard as can be."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """As politely as can be; its exit status."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


@contextmanager
def running_daemon(root: Path, model: Path, **settings: Any) -> Iterator[RunningDaemon]:
    """Start a daemon on a storage folder and wait until it answers."""
    port = free_port()
    told = {"root": str(root), "model": str(model), "port": port, "devices": ["cpu"], **settings}
    log = root.with_name(f"{root.name}-{port}.log")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.daemon.run_daemon", json.dumps(told)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    daemon = RunningDaemon(f"http://127.0.0.1:{port}", root, process, log, settings.get("token"))
    try:
        _await_ready(daemon)
        yield daemon
    finally:
        daemon.stop()


def _await_ready(daemon: RunningDaemon) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if daemon.process.poll() is not None:
            break
        try:
            if daemon.client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the daemon did not start:\n{daemon.log.read_text()[-4000:]}")
