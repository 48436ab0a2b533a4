"""Private memory of renders: flat in the length of the speech, and over many renders in a row.

    python -m benchmarks.render_memory --minutes 1 10 60 --renders 20

Warp and decode are a stub that paints one colour, and pictures are tiny, so that an hour takes minutes; all else is the
product: speech from a file, features, motion, poses, paste-back, FFmpeg, checks. Each case runs in a fresh process, and
counts what RssAnon adds to the warm engine after a first short render. Linux only.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

import torch
from torch import Tensor

from newsstudio_ditto.api import render_video
from newsstudio_ditto.bench.output import PeakMemory
from newsstudio_ditto.bench.report import markdown_table
from newsstudio_ditto.bench.samples import make_speech
from newsstudio_ditto.bench.timing import describe_run
from newsstudio_ditto.config import EncodeOptions, RenderOptions
from newsstudio_ditto.maths.paste import CropRegion
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.units import SAMPLE_RATE_HZ
from tests.render.tiny import RENDER_PX, tiny_bundle, tiny_packet

_SHORT_S = 4.0


class StubEngine(Engine):
    """Paints one colour."""

    def render(self, volume: Tensor, *_keypoints: Tensor, region: CropRegion | None = None) -> Tensor:
        """As the engine's, without a network."""
        return torch.full((len(volume), 3, RENDER_PX, RENDER_PX), 0.5)


def write_speech(path: Path, seconds: float) -> Path:
    """A speech of any length, written a minute at a time."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE_HZ)
        while seconds > 0:
            part = make_speech(min(seconds, 60.0))
            file.writeframes((part * 32767).astype("<i2").tobytes())
            seconds -= 60.0
    return path


def run_case(folder: Path, minutes: float, renders: int) -> dict[str, float]:
    """Render a speech so many times in this process."""
    torch.set_num_threads(1)
    bundle = tiny_bundle()
    packet = tiny_packet(folder, bundle, 5)
    engine = StubEngine(bundle, device=torch.device("cpu"), batch_sizes=(4,))
    options = RenderOptions(device="cpu", encode=EncodeOptions(preset="ultrafast"))
    short = write_speech(folder / "short.wav", _SHORT_S)
    speech = write_speech(folder / "speech.wav", minutes * 60)
    render_video(packet.folder, short, folder / "short.mp4", engine=engine, options=options)
    num_frames, started = 0, time.perf_counter()
    peaks = []
    with PeakMemory() as memory:
        for _ in range(renders):
            report = render_video(packet.folder, speech, folder / "out.mp4", engine=engine, options=options)
            num_frames += report.num_frames
            peaks.append(round(memory.added_mb, 1))
    return {
        "minutes": minutes,
        "renders": renders,
        "frames": num_frames,
        "baseline_mb": round(memory.before_mb, 1),
        "added_after_first_mb": peaks[0],
        "added_mb": round(memory.added_mb, 1),
        "seconds": round(time.perf_counter() - started, 1),
    }


def main() -> None:
    """Run every case in a process of its own, print a table, and JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1.0, 10.0, 60.0])
    parser.add_argument("--renders", type=int, default=20, help="of the speech of four seconds, in a row")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--child", nargs=2, type=float, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.child:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(run_case(Path(folder), told.child[0], int(told.child[1]))))
        return
    cases = [(minutes, 1) for minutes in told.minutes] + [(_SHORT_S / 60, told.renders)]
    found = []
    for minutes, renders in cases:
        command = [sys.executable, "-m", "benchmarks.render_memory", "--child", str(minutes), str(renders)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        found.append(json.loads(done.stdout))
        print(found[-1], file=sys.stderr)
    print("\n".join(markdown_table([tuple(found[0]), *(tuple(case.values()) for case in found)])))
    result = {"benchmark": "render_memory", "cases": found, "run": describe_run()}
    print(json.dumps(result["run"]))
    if told.json is not None:
        told.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
