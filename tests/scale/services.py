"""A studio of several machines on one: Postgres, Redis, webserver, daemon and workers, each a real process."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from newsstudio_ditto.storage import StorageLayout
from tests.dagster_graph.test_server import Server, default_signals, free_port, wait_until_up

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300.0


class Studio:
    """Everything that runs, and where."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.layout = StorageLayout(folder / "storage")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment: dict[str, str] = {}
        self.server = Server(0, self.layout)

    def start(self, name: str, command: list[str], **extra: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("ab")
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**self.environment, **extra},
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=default_signals,
        )
        log.close()
        self.processes[name] = process
        return process

    def start_worker(self, name: str) -> subprocess.Popen[bytes]:
        local = str(self.folder / f"local-{name}")
        extra = {"PYTHON": sys.executable, "DITTO_LOCAL_PACKETS": local, "DITTO_LOCAL_PACKETS_GB": "1"}
        return self.start(name, [str(ROOT / "deploy" / "worker.sh"), "gpu,cpu", name], **extra)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        """The whole worker, children included, as a power cut would."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def start_postgres(studio: Studio) -> int:
    """A cluster of its own in a folder that the user ``postgres`` may read; root cannot run one."""
    tools = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    folder, port = studio.folder / "postgres", free_port()
    folder.mkdir()
    prefix: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        prefix = ["runuser", "-u", "postgres", "--"]
    cluster = folder / "data"
    initdb = [
        *prefix,
        str(tools / "initdb"),
        "-D",
        str(cluster),
        "-U",
        "ditto",
        "--auth=trust",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/")
    options = ["-p", str(port), "-k", str(folder), "-h", "127.0.0.1", "-c", "fsync=off"]
    studio.start("postgres", [*prefix, str(tools / "postgres"), "-D", str(cluster), *options])
    ready = [str(tools / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-q"]
    wait_for(lambda: subprocess.run(ready, check=False).returncode == 0, "Postgres")
    createdb = [str(tools / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", "ditto", "dagster"]
    subprocess.run(createdb, check=True)
    return port


def start_redis(studio: Studio) -> int:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(studio.folder)]
    studio.start("redis", command)
    ping = ["redis-cli", "-p", str(port), "ping"]
    wait_for(lambda: subprocess.run(ping, check=False, capture_output=True).stdout == b"PONG\n", "Redis")
    return port


def wait_for(is_true: object, what: str, *, seconds: float = DEADLINE_S) -> None:
    assert callable(is_true)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_true():
            return
        time.sleep(0.2)
    raise TimeoutError(f"{what}: not within {seconds:.0f} s")


@contextlib.contextmanager
def running_studio(workers: list[str]) -> Iterator[Studio]:
    """Bring everything up as ``deploy/README.md`` says, and take it all down again."""
    folder = Path(tempfile.mkdtemp(prefix="ditto-scale-"))
    folder.chmod(0o755)
    studio = Studio(folder)
    studio.environment = dict(os.environ)
    try:
        postgres, redis = start_postgres(studio), start_redis(studio)
        home = studio.layout.dagster_home
        home.mkdir(parents=True)
        shutil.copy(ROOT / "deploy" / "dagster.yaml", home)
        studio.environment |= {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            "DAGSTER_HOME": str(home),
            "DITTO_STORAGE": str(studio.layout.root),
            "DITTO_LOGS": str(folder / "logs"),
            "DITTO_POSTGRES": f"postgresql://ditto@127.0.0.1:{postgres}/dagster",
            "DITTO_BROKER": f"redis://127.0.0.1:{redis}/0",
            "DITTO_BACKEND": f"redis://127.0.0.1:{redis}/1",
        }
        port = free_port()
        web = [sys.executable, "-m", "dagster_webserver", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)]
        wait_until_up(port, studio.start("webserver", web))
        studio.server = Server(port, studio.layout)
        studio.start("daemon", [sys.executable, "-m", "dagster._daemon", "run", "-w", "workspace.yaml"])
        for name in workers:
            studio.start_worker(name)
        for name in workers:
            wait_for(lambda name=name: " ready." in studio.log(name), f"worker {name}")
        yield studio
    finally:
        studio.stop()
        if not os.environ.get("DITTO_KEEP_SCALE"):
            shutil.rmtree(folder, ignore_errors=True)
