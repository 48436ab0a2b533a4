"""What a daemon is told when it starts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from newsstudio_ditto.config import require_range
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.lip_truth import LipCheck
from newsstudio_ditto.storage import DEFAULT_MODEL, StorageLayout

DEFAULT_PORT = 8010
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Preprocess = Literal["auto", "graph", "inline"]


@dataclass(frozen=True)
class UploadLimits:
    """What a stranger may send.

    Args:
        body_bytes: of one request.
        idle_s: longest pause between two parts of a body.
        total_s: longest time that a body may take.
        speech_s: longest speech, seconds.
        anchor_s: longest clip, seconds.
        pixels: largest picture, width times height.
        text_chars: longest text to be spoken.
        decode_s: wall time that the decoding FFmpeg may take.
        decode_bytes: address space that it may take.
    """

    body_bytes: int = 256 * 2**20
    idle_s: float = 20.0
    total_s: float = 600.0
    speech_s: float = 600.0
    anchor_s: float = 120.0
    pixels: int = 4096 * 4096
    text_chars: int = 2000
    decode_s: float = 120.0
    decode_bytes: int = 3 * 2**30


@dataclass(frozen=True)
class DaemonSettings:
    """One daemon.

    Args:
        storage: where avatars, videos and the daemon's own records live.
        host: address to listen on.
        port: port to listen on.
        token: bearer token that every call of the API must carry; None asks for none.
        model: the model bundle that this daemon keeps warm.
        devices: one worker for each; ``auto`` is every CUDA device, else the CPU.
        eager: never capture CUDA graphs.
        queue_limit: jobs that may wait.
        limits: of uploads.
        preprocess: ``graph`` runs the command line's ``preprocess`` in a child process, so that the Dagster UI shows
            it; ``inline`` uses the warm model of this process; ``auto`` is ``graph`` where the storage folder has a
            Dagster home, else ``inline``.
        speech_root: folder that ``speechPath`` may name files in; None is the storage's speeches.
        hosts: further names that this machine is called by; others are refused (DNS rebinding).
        origins: web origins besides its own that may call it; none by default.
        jobs_kept: finished jobs that are remembered.
        live_wait_s: how long a live session waits for a device; jobs that wait let it go first.
        lips: how much of a finished video is searched for lips that stand still or lag; a job whose video is not what
            was asked for fails.
    """

    storage: StorageLayout
    host: str = LOOPBACK[0]
    port: int = DEFAULT_PORT
    token: str | None = field(default=None, repr=False)
    model: str = DEFAULT_MODEL
    devices: tuple[str, ...] = ("auto",)
    eager: bool = False
    queue_limit: int = 8
    limits: UploadLimits = field(default_factory=UploadLimits)
    preprocess: Preprocess = "auto"
    speech_root: Path | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    jobs_kept: int = 1000
    live_wait_s: float = 10.0
    lips: LipCheck = "sampled"

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        require_range("port", self.port, 1, 65_535)
        require_range("queue_limit", self.queue_limit, 1, 1000)
        require_range("jobs_kept", self.jobs_kept, 1, 10**6)
        require_range("live_wait_s", self.live_wait_s, 0, 600)
        if self.token is not None and len(self.token) < 8:
            raise UsageError("the token is shorter than 8 characters", "give a long random one")
        if self.preprocess not in ("auto", "graph", "inline"):
            raise UsageError(f"preprocess is {self.preprocess!r}", "give auto, graph or inline")
        if self.lips not in get_args(LipCheck):
            raise UsageError(f"lips is {self.lips!r}", "give off, sampled or whole")
        if not self.devices:
            raise UsageError("no device", "give auto, cpu, cuda or cuda:N")

    @property
    def is_local(self) -> bool:
        """Whether it listens on the loopback address alone."""
        return self.host in LOOPBACK

    @property
    def folder(self) -> Path:
        """The daemon's own folder in the storage."""
        return self.storage.root / "daemon"

    @property
    def speeches(self) -> Path:
        """Folder that ``speechPath`` is looked up in."""
        return self.speech_root or self.storage.speeches

    @property
    def uses_graph(self) -> bool:
        """Whether preprocessing goes through the asset graph."""
        if self.preprocess != "auto":
            return self.preprocess == "graph"
        return (self.storage.dagster_home / "dagster.yaml").is_file()
