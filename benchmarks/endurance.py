"""Two hundred renders in one process: do memory, descriptors, threads and temporary files stay flat?

Run from the checkout, with the packages of the tests::

    python -m benchmarks.endurance [--renders 200] [--warm 20] [--json FILE]

A tiny model with random weights renders pictures of 128 x 96 through the real FFmpeg, with the checks that every video
gets. Speeches differ in length, every tenth is refused (it is empty), and every tenth render is broken off in the
middle, since it is errors that leak. The first renders fill caches and are left out. Exit code 1 if anything grows.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch

from newsstudio_ditto.api import render_video
from newsstudio_ditto.config import RenderOptions, SamplingOptions
from newsstudio_ditto.errors import EmptyAudioError
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from tests.render.tiny import tiny_bundle, tiny_packet

MOST_GROWTH = 0.02
"""Share by which the most private memory of the second half may exceed that of the first: heaps that fragment settle
slowly, a leak does not settle. Two readings differ by 4 %, as torch keeps more or less of what it frees."""

OPTIONS = RenderOptions(device="cpu", sampling=SamplingOptions(seed=1))


@dataclass(frozen=True)
class Reading:
    """What the process holds after some renders.

    Args:
        renders: so many.
        private_kib: RssAnon, memory of its own.
        descriptors: open files, pipes and sockets.
        threads: of the process.
        children: processes that it has started and that still live.
        temporary: files in the temporary folder.
        files: files beside the videos.
    """

    renders: int
    private_kib: int
    descriptors: int
    threads: int
    children: int
    temporary: int
    files: int


class BrokenOff(Exception):  # noqa: N818 - nothing is wrong
    """Somebody has changed their mind."""


def read(renders: int, temporary: Path, videos: Path) -> Reading:
    """Read the process's state."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    tasks = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return Reading(
        renders,
        int(status["RssAnon"].split()[0]),
        len(list(Path("/proc/self/fd").iterdir())),
        threading.active_count(),
        len(tasks),
        sum(len(files) for _, _, files in os.walk(temporary)),
        len(list(videos.iterdir())),
    )


def one_render(number: int, packet: Packet, engine: Engine, folder: Path) -> None:
    """Render one speech; of every ten, one is refused and one is broken off."""
    speech, output = folder / "speech.wav", folder / "videos" / f"{number % 5}.mp4"
    kind, length = number % 10, 640 * (5 + 7 * number % 40) + number
    draw = np.random.default_rng(number)
    soundfile.write(speech, np.zeros(0) if kind == 3 else 0.1 * draw.standard_normal(length), 16_000)

    def stop_half_way(done: int, total: int) -> None:
        if kind == 7 and done > total // 2:
            raise BrokenOff

    with suppress(BrokenOff, EmptyAudioError):
        render_video(
            packet.folder, speech, output, engine=engine, options=OPTIONS, lips="sampled", on_progress=stop_half_way
        )


def run(num_renders: int, every: int) -> list[Reading]:
    """Render, and read the state every so often."""
    readings = []
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as temporary:
        folder, tempfile.tempdir = Path(work), temporary
        (folder / "videos").mkdir()
        bundle = tiny_bundle()
        packet, engine = tiny_packet(folder, bundle, 5), Engine(bundle, device=torch.device("cpu"), batch_sizes=(4,))
        for number in range(1, num_renders + 1):
            one_render(number, packet, engine, folder)
            if number % every == 0:
                readings.append(read(number, Path(temporary), folder / "videos"))
                print("  ".join(f"{name} {value}" for name, value in asdict(readings[-1]).items()), flush=True)
        tempfile.tempdir = None
    return readings


def growth(readings: Sequence[Reading]) -> float:
    """KiB of private memory a render, by least squares."""
    renders, private = (
        np.array([getattr(reading, name) for reading in readings]) for name in ("renders", "private_kib")
    )
    return float(np.polyfit(renders, private, 1)[0])


def faults(readings: Sequence[Reading]) -> list[str]:
    """What has grown; sentences."""
    first, last = readings[0], readings[-1]
    found = [
        f"{name}: {getattr(first, name)} after {first.renders} renders, {getattr(last, name)} after {last.renders}"
        for name in ("descriptors", "threads", "children", "temporary", "files")
        if getattr(last, name) > getattr(first, name)
    ]
    middle = len(readings) // 2
    before, after = (max(each.private_kib for each in half) for half in (readings[:middle], readings[middle:]))
    is_grown = after > (1 + MOST_GROWTH) * before
    return [*found, *([f"private memory: {before} KiB in the first half, {after} in the second"] if is_grown else [])]


def main() -> None:
    """Run and judge."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--renders", type=int, default=200)
    options.add_argument("--warm", type=int, default=20, help="renders that do not count")
    options.add_argument("--json", type=Path)
    told = options.parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    readings = run(told.renders, every=10)
    settled = [reading for reading in readings if reading.renders >= told.warm]
    found = faults(settled)
    print(f"{told.renders} renders in {time.monotonic() - started:.0f} s; {growth(settled):+.2f} KiB a render")
    print("\n".join(found) or "nothing grows")
    if told.json:
        told.json.write_text(json.dumps([asdict(reading) for reading in readings], indent=1))
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
