"""Timing, and what a figure needs beside it: the machine, the command, and what the device could do at best."""

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

FEWEST_RUNS = 5
_ROOF_SIDE = 8192
_ROOF_BYTES = 1 << 30


@dataclass(frozen=True)
class Times:
    """Repeated runs of one thing.

    Args:
        median_ms: of the runs, milliseconds for one unit.
        p95_ms: 95th percentile.
        runs: how many.
    """

    median_ms: float
    p95_ms: float
    runs: int

    @classmethod
    def of(cls, seconds: Sequence[float], units: int = 1) -> "Times":
        """Of the seconds of each run; ``units`` things were done in one."""
        ordered = sorted(value * 1000 / units for value in seconds)
        p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        return cls(round(statistics.median(ordered), 5), round(p95, 5), len(ordered))


@dataclass(frozen=True)
class Figure:
    """One line of a benchmark.

    Args:
        section: such as ``core``.
        name: what was measured.
        ours: times of this package.
        reference: times of the reference's way, in the same run; None where it has none.
        unit: what the times are of, such as ``frame``.
        roof_share: 0..1, share of what the device could do at best; None where no roof was measured.
        note: what else is to be known.
    """

    section: str
    name: str
    ours: Times
    reference: Times | None = None
    unit: str = "frame"
    roof_share: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times faster than the reference's way."""
        if self.reference is None:
            return None
        return round(self.reference.median_ms / self.ours.median_ms, 2)

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass(frozen=True)
class Roof:
    """What a device reached on plain work in this run.

    Args:
        tflops: of a large matrix product in the engine's dtype, TFLOP/s.
        copy_gb_s: of a large copy on the device, GB/s read and written.
    """

    tflops: float
    copy_gb_s: float


def synchronize(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_runs(
    action: Callable[[], object], runs: int, *, device: torch.device | None = None, warmups: int = 2
) -> list[float]:
    """Seconds of each run after the warm-ups, the device's work included; results are dropped outside the clock."""
    seconds = []
    for index in range(warmups + runs):
        if device is not None:
            synchronize(device)
        started = time.perf_counter()
        result = action()
        if device is not None:
            synchronize(device)
        elapsed = time.perf_counter() - started
        del result
        if index >= warmups:
            seconds.append(elapsed)
    return seconds


def measure_roof(device: torch.device, dtype: torch.dtype) -> Roof:
    """Run a matrix product and a copy that are large for the device, on random numbers."""
    is_cuda = device.type == "cuda"
    side, num_bytes = (_ROOF_SIDE, _ROOF_BYTES) if is_cuda else (1024, 64 << 20)
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    product = statistics.median(time_runs(lambda: left @ right, FEWEST_RUNS, device=device))
    source = torch.randint(0, 256, (num_bytes,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = statistics.median(time_runs(lambda: target.copy_(source), FEWEST_RUNS, device=device))
    return Roof(round(2 * side**3 / product / 1e12, 2), round(2 * num_bytes / copy / 1e9, 1))


def describe_run(device: torch.device | None = None) -> dict[str, object]:
    """Machine, versions, commit and command, without which a number is not a result."""
    root = Path(__file__).parent
    command = ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        commit = ""  # no git here
    is_cuda = device is not None and device.type == "cuda"
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if is_cuda else "cpu",
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if is_cuda else None,
        "commit": commit or None,
        "load_average": round(os.getloadavg()[0], 2),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
