"""One speech over several devices, and a speech on each of them at once, against one device alone.

    python benchmarks/devices.py --devices cuda:0,cuda:1

Full width with seeded random weights, frames that nobody encodes; every figure is frames a second, median of the runs.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # a checkout that is not installed

from newsstudio_ditto.bench.samples import FULL_WIDTH, PacketShape, make_packet, open_model, picture_px
from newsstudio_ditto.bench.timing import describe_run
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.render.pipeline import render_plan


def steady_plan(packet: Packet, num_frames: int, device: torch.device) -> FramePlan:
    """Keypoints of the source frames, moved a little."""
    index = mirror_index(np.arange(num_frames, dtype=np.int64), packet.num_frames)
    points = packet.keypoints["x_s"][torch.from_numpy(index)]
    moved = points + 0.02 * torch.sin(torch.arange(num_frames))[:, None, None]
    return FramePlan(index, points, moved).to(device)


def drain(packet: Packet, plan: FramePlan, engines: list[Engine]) -> None:
    """Render every frame and drop it."""
    for _ in render_plan(packet, plan, engines):
        pass


def side_by_side(packet: Packet, plan: FramePlan, engines: list[Engine]) -> None:
    """The same speech on every engine at once, each in a thread."""
    threads = [threading.Thread(target=drain, args=(packet, plan, [engine])) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fps(action: Callable[[], None], num_frames: int, runs: int) -> float:
    """Median frames a second after one warm-up."""
    action()
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return round(num_frames / statistics.median(seconds), 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="cuda:0,cuda:1")
    parser.add_argument("--model", default=FULL_WIDTH)
    parser.add_argument("--frames", type=int, default=330, help="of the speech")
    parser.add_argument("--packet-frames", type=int, default=40)
    parser.add_argument("--height", type=int, default=1080)
    parser.add_argument("--width", type=int, default=1920)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None)
    told = parser.parse_args()
    devices = [torch.device(name) for name in told.devices.split(",")]
    bundles = [open_model(told.model, device) for device in devices]
    engines = [Engine(bundle, device=device) for bundle, device in zip(bundles, devices, strict=True)]
    for engine in engines:
        engine.warm_up()
    with tempfile.TemporaryDirectory() as folder:
        shape = PacketShape(FrameSize(told.height, told.width), told.packet_frames, picture_px(bundles[0]))
        packet = make_packet(Path(folder), bundles[0], shape)
        plan = steady_plan(packet, told.frames, devices[0])
        alone = [fps(lambda engine=engine: drain(packet, plan, [engine]), told.frames, told.runs) for engine in engines]
        shared = fps(lambda: drain(packet, plan, engines), told.frames, told.runs)
        beside = fps(lambda: side_by_side(packet, plan, engines), told.frames * len(engines), told.runs)
    result = {
        "alone_fps": dict(zip(told.devices.split(","), alone, strict=True)),
        "one_speech_over_all_fps": shared,
        "one_speech_over_all_share_of_sum": round(shared / sum(alone), 3),
        "a_speech_on_each_fps": beside,
        "a_speech_on_each_share_of_sum": round(beside / sum(alone), 3),
        "run": describe_run(devices[0]),
    }
    print(json.dumps(result, indent=2))
    if told.json is not None:
        told.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
