"""Does the captured engine paint what eager code paints, and how much faster than the reference's way is it?

    python benchmarks/engine_graph_check.py            # full width on the first CUDA device, seeded random weights
    python benchmarks/engine_graph_check.py --tiny     # a few thousand weights, anywhere: does the script still run

Every batch size is checked on two inputs (one input cannot show a stale buffer) against eager float16 and eager
float32, and timed in the same run as the reference's way: autocast, one frame at a time, numpy in and out of each
network. Prints one JSON document; exit status 1 if a picture is further off than the tolerance.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent))  # a checkout that is not installed

from newsstudio_ditto.bench.reference import ReferenceWay
from newsstudio_ditto.networks.bundle import seeded_bundle
from newsstudio_ditto.networks.config import MINI, OFFICIAL, BundleConfig
from newsstudio_ditto.render.engine import Engine, compute_dtype

MAX_MEAN_LEVELS, MIN_PSNR_DB = 2.0, 40.0
FLOOR_MS_PER_FRAME = 1.56  # 1.23 TFLOP at 790 TFLOP/s, H200; docs of the measured ceilings
SEED = 11


@dataclass(frozen=True)
class Inputs:
    """One batch for the engine, on its device."""

    volume: Tensor
    source_keypoints: Tensor
    driving_keypoints: Tensor

    @classmethod
    def draw(cls, config: BundleConfig, size: int, seed: int, device: torch.device) -> "Inputs":
        """Random volumes and keypoints, equal for equal seeds on every device."""
        shape, draw = config.networks.appearance, torch.Generator().manual_seed(seed)
        volume = torch.randn(
            size, shape.volume_channels, shape.volume_depth, shape.volume_px, shape.volume_px, generator=draw
        )
        source = 0.3 * torch.randn(size, 21, 3, generator=draw)
        driving = source + 0.05 * torch.randn(size, 21, 3, generator=draw)
        return cls(volume.to(device), source.to(device), driving.to(device))

    def render(self, engine: Engine) -> Tensor:
        """Pictures (B, 3, S, S), a copy that later calls leave alone."""
        return engine.render(self.volume, self.source_keypoints, self.driving_keypoints).float().clone()


def compare(pictures: Tensor, reference: Tensor) -> dict[str, float]:
    """Mean absolute difference and PSNR of pictures in 0..1, in levels of 255 and in dB."""
    difference = (pictures.double() - reference.double()) * 255
    mean_square = float((difference**2).mean())
    psnr = 10 * np.log10(255**2 / mean_square) if mean_square else float("inf")
    return {"mean_levels": float(difference.abs().mean()), "psnr_db": min(float(psnr), 200.0)}


def timed(function: Callable[[], object], device: torch.device, frames: int, *, runs: int) -> dict[str, float]:
    """Median and 95th percentile of ``runs`` runs after two more, in milliseconds per frame."""
    seconds = []
    for run in range(runs + 2):
        _synchronize(device)
        started = time.perf_counter()
        function()
        _synchronize(device)
        if run >= 2:
            seconds.append(time.perf_counter() - started)
    per_frame = np.array(seconds) * 1000 / frames
    return {
        "median_ms": round(statistics.median(per_frame.tolist()), 4),
        "p95_ms": round(float(np.percentile(per_frame, 95)), 4),
        "runs": runs,
    }


def check_batch(size: int, graph: Engine, eager: Engine, exact: Engine, runs: int) -> dict[str, Any]:
    """Accuracy on two inputs, then times, for one batch size."""
    config, device = graph.bundle.config, graph.device
    batches = [Inputs.draw(config, size, SEED + i, device) for i in range(2)]
    # All replays come first, so that a buffer that kept the first input would show.
    replayed = [batch.render(graph) for batch in batches]
    accuracy = [
        {
            "graph_vs_eager": compare(pictures, batch.render(eager)),
            "graph_vs_float32": compare(pictures, batch.render(exact)),
        }
        for pictures, batch in zip(replayed, batches, strict=True)
    ]
    first = batches[0]
    return {
        "batch_size": size,
        "accuracy": accuracy,
        "inputs_differ": compare(replayed[0], replayed[1])["mean_levels"],
        "graph": timed(lambda: first.render(graph), device, size, runs=runs),
        "eager": timed(lambda: first.render(eager), device, size, runs=runs),
    }


def measure(
    config: BundleConfig, device: torch.device, sizes: list[int], runs: int, *, is_tiny: bool
) -> dict[str, Any]:
    """Everything, as plain values."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    reduced = seeded_bundle(config, SEED, device=device, dtype=compute_dtype(device))
    full = seeded_bundle(config, SEED, device=device, dtype=torch.float32)
    graph = Engine(reduced, device=device, batch_sizes=sizes)
    eager = Engine(reduced, device=device, eager=True, batch_sizes=sizes)
    exact = Engine(full, device=device, eager=True, batch_sizes=sizes)
    capture_s = graph.warm_up()
    batches = [check_batch(size, graph, eager, exact, runs) for size in sizes]
    one = Inputs.draw(config, 1, SEED, device)
    arrays = [part.float().cpu().numpy() for part in (one.volume, one.source_keypoints, one.driving_keypoints)]
    reference = timed(lambda: ReferenceWay(full).face(*arrays), device, 1, runs=runs)
    best = min(batch["graph"]["median_ms"] for batch in batches)
    return {
        "is_graphed": graph.is_graphed,
        "core": graph.core,
        "capture_s": round(capture_s, 3),
        "batches": batches,
        "reference_way": reference,
        "times_faster_than_reference_way": round(reference["median_ms"] / best, 2),
        "share_of_floor": None if is_tiny else round(FLOOR_MS_PER_FRAME / best, 3),
    }


def tiny_config() -> BundleConfig:
    """The embedded model's networks with small pictures: a volume of 16 px, so 128 px pictures."""
    networks = MINI.networks
    dense = replace(networks.warp.dense_motion, motion_grid_px=16)
    volume = {"volume_channels": 16, "picture_px": None}  # a folded picture would outweigh so small a volume
    return replace(
        MINI,
        networks=replace(
            networks,
            appearance=replace(networks.appearance, num_down_blocks=4, **volume),
            warp=replace(networks.warp, volume_px=16, feature_channels=96, dense_motion=dense, **volume),
            decoder=replace(networks.decoder, feature_channels=96, picture_px=None),
        ),
    )


def is_accurate(batch: dict[str, Any]) -> bool:
    """Whether a batch stays within the tolerance on both inputs, and both inputs gave their own pictures."""
    figures = [figure for accuracy in batch["accuracy"] for figure in accuracy.values()]
    near = all(f["mean_levels"] <= MAX_MEAN_LEVELS and f["psnr_db"] >= MIN_PSNR_DB for f in figures)
    return near and batch["inputs_differ"] > 0


def main() -> int:
    """Run the comparison; 0 if every picture is within the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small model; the default without a CUDA device")
    parser.add_argument("--batch-sizes", default="1,4,8", help="comma-separated")
    parser.add_argument("--runs", type=int, default=20, help="timed runs of each figure, at least 5")
    parser.add_argument("--autotune", action="store_true", help="let cuDNN try its algorithms (cudnn.benchmark)")
    arguments = parser.parse_args()
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    is_tiny = arguments.tiny or device.type == "cpu"
    torch.backends.cudnn.benchmark = arguments.autotune
    sizes = sorted({int(size) for size in arguments.batch_sizes.split(",")})
    result = {
        "command": " ".join(sys.argv),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "torch": torch.__version__,
        "is_tiny": is_tiny,
        "autotune": arguments.autotune,
        **measure(tiny_config() if is_tiny else OFFICIAL, device, sizes, max(5, arguments.runs), is_tiny=is_tiny),
    }
    print(json.dumps(result, indent=2))
    return 0 if all(is_accurate(batch) for batch in result["batches"]) else 1


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    raise SystemExit(main())
