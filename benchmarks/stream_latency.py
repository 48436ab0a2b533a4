"""How long after its first sound an utterance is seen, and how much faster than speech it is made.

Run from the checkout; needs torch and numpy, and FFmpeg if the encoder is to count::

    python -m benchmarks.stream_latency [--device cuda] [--steps 10] [--seconds 8] [--runs 5] [--json FILE]
    python -m benchmarks.stream_latency --tiny        # a minute on a CPU: does it run at all

Everything happens in this process, without HTTP: the full-width networks with seeded weights (speed does not depend on
what they hold) and a packet of random pictures in the size asked for. Two ways of speaking are measured: all sound at
once, which shows the work alone, and at the pace of speech, which adds the look-ahead that the motion needs to hear.
"""

import argparse
import json
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from newsstudio_ditto.bench.samples import PacketShape, make_packet
from newsstudio_ditto.daemon.live.encoder import FragmentEncoder
from newsstudio_ditto.daemon.live.motion import LiveOptions
from newsstudio_ditto.daemon.live.session import LiveReport, LiveSession, LiveSink
from newsstudio_ditto.errors import FfmpegError
from newsstudio_ditto.media.ffmpeg import preflight
from newsstudio_ditto.networks.bundle import seeded_bundle
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.render.engine import Engine, choose_device, compute_dtype
from newsstudio_ditto.render.pipeline import Frame
from newsstudio_ditto.units import SAMPLE_RATE_HZ

CHUNK = SAMPLE_RATE_HZ // 25


def loudness(seconds: float) -> bytes:
    """16-bit PCM that rises and falls as syllables do."""
    time_s = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    wave = np.sin(2 * np.pi * 180 * time_s) * (0.55 + 0.45 * np.sin(2 * np.pi * 4 * time_s))
    return (9000 * wave).astype("<i2").tobytes()


class _Nowhere:
    """A sink for machines without FFmpeg."""

    def __init__(self) -> None:
        self._mark = False
        self._marked: float | None = None

    def write(self, frame: Frame, sound: bytes) -> None:
        if self._mark:
            self._marked, self._mark = time.monotonic(), False

    def mark(self) -> None:
        self._mark = True

    def marked_s(self) -> float | None:
        return self._marked


@dataclass(frozen=True)
class Bench:
    """What is measured with."""

    packet: Packet
    engine: Engine
    options: LiveOptions
    has_encoder: bool

    @contextmanager
    def sink(self) -> Iterator[LiveSink]:
        """An encoder whose bytes are counted and dropped, or nothing at all."""
        if not self.has_encoder:
            yield _Nowhere()
            return
        height, width = self.packet.frame_size
        with FragmentEncoder(width=width, height=height, on_bytes=lambda _piece: None) as encoder:
            yield encoder

    def speak(self, sound: bytes, *, at_pace: bool) -> LiveReport:
        """One session with one utterance."""
        with self.sink() as sink, self.engine.busy:
            session = LiveSession(self.packet, self.engine, sink, self.options)
            speaker = threading.Thread(target=_speak, args=(session, sound, at_pace))
            speaker.start()
            report = session.run()
            speaker.join()
        return report


def _speak(session: LiveSession, sound: bytes, at_pace: bool) -> None:
    time.sleep(0.3)  # the presenter idles first, as it does when somebody begins to talk
    started = time.monotonic()
    for number, start in enumerate(range(0, len(sound), 2 * CHUNK)):
        if at_pace:
            time.sleep(max(started + (number + 1) / 25 - time.monotonic(), 0.0))
        session.push(sound[start : start + 2 * CHUNK])
    session.end_utterance()
    session.stop()


def summary(values: list[float]) -> dict[str, float]:
    """Median and 95th percentile."""
    return {"median": statistics.median(values), "p95": float(np.percentile(values, 95))}


def measure(bench: Bench, seconds: float, num_runs: int) -> dict[str, Any]:
    """All sound at once, then at the pace of speech; one run before does not count."""
    sound = loudness(seconds)
    found: dict[str, Any] = {}
    for name, at_pace in (("at once", False), ("at the pace of speech", True)):
        bench.speak(loudness(1.5), at_pace=False)
        reports = [bench.speak(sound, at_pace=at_pace) for _ in range(num_runs)]
        found[name] = {
            "first_frame_ms": summary([report.first_frame_ms[0] for report in reports]),
            "real_time_factor": summary([report.real_time_factor or 0.0 for report in reports]),
            "speech_frames": reports[0].speech_frames,
        }
    return found


def facts(bench: Bench) -> dict[str, Any]:
    """Where and with what it was measured."""
    device = bench.engine.device
    height, width = bench.packet.frame_size
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    return {
        "device": name,
        "torch": torch.__version__,
        "mode": "graph" if bench.engine.is_graphed else "eager",
        "frame": f"{width}x{height}",
        "encoder": "libx264 through FFmpeg" if bench.has_encoder else "none",
        "num_steps": bench.options.num_steps or bench.engine.bundle.config.num_steps,
        "overlap_frames": bench.options.overlap_frames,
        "look_ahead_ms": bench.options.look_ahead_ms,
    }


def prepare(told: argparse.Namespace, root: Path) -> Bench:
    """Load, capture and warm everything."""
    device = choose_device("cpu" if told.tiny else told.device)
    if told.tiny:
        from tests.render.tiny import RENDER_PX, TINY

        config, frame, crop_px, num_frames = TINY, FrameSize(96, 128), RENDER_PX, 3
    else:
        config, crop_px, num_frames = BundleConfig(), 512, told.frames
        frame = FrameSize(told.height, told.width)
    bundle = seeded_bundle(config, seed=1, device=device, dtype=compute_dtype(device))
    engine = Engine(bundle, device=device)
    engine.warm_up()
    try:
        preflight("libx264")
        has_encoder = True
    except FfmpegError:
        has_encoder = False
    options = LiveOptions(overlap_frames=told.overlap, num_steps=told.steps)
    return Bench(make_packet(root, bundle, PacketShape(frame, num_frames, crop_px)), engine, options, has_encoder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="tiny networks on the CPU")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=10, help="diffusion steps of a window; live talk wants few")
    parser.add_argument("--overlap", type=int, default=70, help="frames that windows share, 40 to 78")
    parser.add_argument("--seconds", type=float, default=8.0, help="of the utterance")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=720)
    parser.add_argument("--frames", type=int, default=50, help="of the packet")
    parser.add_argument("--json", type=Path, default=None, help="write the figures there as well")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = prepare(told, Path(folder))
        result = {**facts(bench), "results": measure(bench, told.seconds, told.runs)}
    for key, value in result.items():
        if key != "results":
            print(f"{key}: {value}")
    for name, row in result["results"].items():
        first, factor = row["first_frame_ms"], row["real_time_factor"]
        print(
            f"{name}: first frame after {first['median']:.0f} ms (p95 {first['p95']:.0f}), "
            f"real-time factor {factor['median']:.2f} ({row['speech_frames']} frames of speech)"
        )
    if told.json is not None:
        told.json.parent.mkdir(parents=True, exist_ok=True)
        told.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
