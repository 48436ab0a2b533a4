"""Where the time of warp and decode goes, step by step, beside what the matrix units would need for it.

    python benchmarks/core_account.py                  # full width on the first CUDA device, seeded random weights
    python benchmarks/core_account.py --batch-size 1

Every step runs alone, as a graph of ten replays of itself with the inputs that the whole has; equal steps are one row.
The last line is the whole, captured as the engine captures it. Prints a table, and with ``--json`` writes it to a file.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent))  # a checkout that is not installed

from newsstudio_ditto.bench.timing import describe_run, measure_roof
from newsstudio_ditto.networks.bundle import seeded_bundle
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.fast import FastCore, fused_operators
from newsstudio_ditto.render.fast.operators import Convolution, GridShape, TorchOperators

REPLAYS, RUNS = 10, 7
T = TypeVar("T")


@dataclass
class Row:
    """One step, or several equal ones.

    Args:
        name: of the step.
        shape: of what it writes.
        count: equal steps in one batch.
        ms: all of them, milliseconds a batch.
        gflop: all of them; multiplications by zero padding not counted.
    """

    name: str
    shape: str
    count: int
    ms: float
    gflop: float


def replay_ms(action: Callable[[], object]) -> float:
    """Median milliseconds of one call, from replays of a graph of ten."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        action()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPLAYS):
            action()
    times = []
    for run in range(RUNS + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if run >= 2:
            times.append(start.elapsed_time(end) / REPLAYS)
    return statistics.median(times)


class TimedOperators(TorchOperators):
    """Passes every step on, and times it."""

    def __init__(self, inner: TorchOperators) -> None:
        """Nothing is timed yet."""
        self.inner = inner
        self.rows: dict[tuple[str, str, float], Row] = {}
        self._num_inputs: dict[int, list[int]] = {}
        self.is_on = False

    def prepare(self, convolution: Convolution, dtype: torch.dtype) -> Convolution:
        """Prepare, and remember how many numbers each output is a sum of."""
        sizes = [kernel.weight[0, 0, 0].numel() for kernel in convolution.kernels]
        prepared = self.inner.prepare(convolution, dtype)
        self._num_inputs[id(prepared)] = sizes
        return prepared

    def _run(self, name: str, out: Tensor, gflop: float, action: Callable[[], T]) -> T:
        result = action()
        if self.is_on:
            shape = "x".join(map(str, out.shape[1:]))
            key = name, shape, gflop
            row = self.rows.setdefault(key, Row(name, shape, 0, 0.0, 0.0))
            each = row.ms / row.count if row.count else replay_ms(action)
            row.count, row.ms, row.gflop = row.count + 1, row.ms + each, row.gflop + gflop
        return result

    def _gflop(self, convolution: Convolution, positions: int) -> float:
        first = convolution.kernels[0]
        phases = first.y.phases * first.x.phases
        return 2e-9 * positions * phases * convolution.num_outputs * sum(self._num_inputs[id(convolution)])

    def convolve(
        self,
        inputs: Sequence[Tensor],
        convolution: Convolution,
        out: Tensor,
        *,
        slope: float = 1.0,
        residual: Tensor | None = None,
        scale: Tensor | None = None,
        rest: Tensor | None = None,
        with_moments: bool = False,
    ) -> Tensor | None:
        """Time one convolution, with the moments where they are asked for."""
        first = convolution.kernels[0]
        positions = out[..., 0].numel() // (first.y.scale * first.x.scale)

        def action() -> Tensor | None:
            return self.inner.convolve(
                inputs,
                convolution,
                out,
                slope=slope,
                residual=residual,
                scale=scale,
                rest=rest,
                with_moments=with_moments,
            )

        return self._run("convolve", out, self._gflop(convolution, positions), action)

    def modulate(
        self, hidden: Tensor, convolution: Convolution, x: Tensor, moments: Tensor, out: Tensor, *, slope: float
    ) -> None:
        """Time one SPADE layer."""

        def action() -> None:
            self.inner.modulate(hidden, convolution, x, moments, out, slope=slope)

        self._run("modulate", out, self._gflop(convolution, out[..., 0].numel()), action)

    def paint(self, x: Tensor, convolution: Convolution, image: Tensor) -> None:
        """Time the last convolution."""
        self._run(
            "paint", image, self._gflop(convolution, x[..., 0].numel()), lambda: self.inner.paint(x, convolution, image)
        )

    def halve(self, x: Tensor, out: Tensor) -> None:
        """Time a pooling."""
        self._run("halve", out, 0.0, lambda: self.inner.halve(x, out))

    def compress(self, volume: Tensor, weight: Tensor, bias: Tensor, grid: GridShape) -> tuple[Tensor, Tensor]:
        """Time the source's terms."""
        return self._run("compress", volume, 0.0, lambda: self.inner.compress(volume, weight, bias, grid))

    def candidates(
        self,
        compressed: Tensor,
        source_keypoints: Tensor,
        driving_keypoints: Tensor,
        grid: GridShape,
        outs: Sequence[Tensor],
    ) -> None:
        """Time the candidate motions."""

        def action() -> None:
            self.inner.candidates(compressed, source_keypoints, driving_keypoints, grid, outs)

        self._run("candidates", outs[0], 0.0, action)

    def visibility(self, parts: Tensor, bias: Tensor, kernel: int) -> Tensor:
        """Time the sum of the occlusion's taps."""
        return self._run("visibility", parts, 0.0, lambda: self.inner.visibility(parts, bias, kernel))

    def move(
        self,
        volume: Tensor,
        parts: Tensor,
        bias: Tensor,
        source_keypoints: Tensor,
        driving_keypoints: Tensor,
        grid: GridShape,
        out: Tensor,
    ) -> None:
        """Time softmax, flow and sampling."""

        def action() -> None:
            self.inner.move(volume, parts, bias, source_keypoints, driving_keypoints, grid, out)

        self._run("move", out, 0.0, action)


@torch.no_grad()
def measure(size: int, device: torch.device) -> dict[str, object]:
    """Every step and the whole, as plain values."""
    bundle = seeded_bundle(OFFICIAL, 11, device=device, dtype=torch.float16)
    timer = TimedOperators(fused_operators())
    core = FastCore(bundle.warp, bundle.decoder, timer)
    draw = torch.Generator().manual_seed(size)
    shape = OFFICIAL.networks.warp
    volume = torch.randn(
        size, shape.volume_channels, shape.volume_depth, shape.volume_px, shape.volume_px, generator=draw
    )
    source = 0.3 * torch.randn(size, 21, 3, generator=draw)
    driving = source + 0.05 * torch.randn(size, 21, 3, generator=draw)
    batch = volume.half().to(device), source.to(device), driving.to(device)
    core(*batch)
    timer.is_on = True
    core(*batch)
    timer.is_on = False
    engine = Engine(bundle, device=device, batch_sizes=[size])
    engine.warm_up()
    whole = replay_whole(engine, batch)
    rows = sorted(timer.rows.values(), key=lambda row: -row.ms)
    roof = measure_roof(device, torch.float16)
    return {
        "batch_size": size,
        "roof_tflops": roof.tflops,
        "rows": [asdict(row) for row in rows],
        "sum_ms_per_frame": sum(row.ms for row in rows) / size,
        "gflop_per_frame": sum(row.gflop for row in rows) / size,
        "whole_ms_per_frame": whole / size,
        **describe_run(device),
    }


def replay_whole(engine: Engine, batch: tuple[Tensor, Tensor, Tensor]) -> float:
    """Median milliseconds of one batch through the engine, host time included."""
    times = []
    for run in range(22):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        engine.render(*batch)
        end.record()
        torch.cuda.synchronize()
        if run >= 2:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


def table(result: dict[str, object]) -> str:
    """The account as a Markdown table, microseconds a frame."""
    size, roof = int(str(result["batch_size"])), float(str(result["roof_tflops"]))
    lines = [
        "| step | output | steps | us a frame | GFLOP a frame | TFLOP/s | us at the roof |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = result["rows"]
    assert isinstance(rows, list)
    for row in rows:
        us, gflop = 1000 * row["ms"] / size, row["gflop"] / size
        rate = f"{gflop / us * 1000:.0f}" if gflop else ""
        floor = f"{gflop / roof * 1000:.1f}" if gflop else ""
        flops = f"{gflop:.1f}" if gflop else ""
        lines.append(f"| {row['name']} | {row['shape']} | {row['count']} | {us:.1f} | {flops} | {rate} | {floor} |")
    total, gflop = float(str(result["sum_ms_per_frame"])), float(str(result["gflop_per_frame"]))
    floor_us = gflop / roof * 1000
    lines.append(f"| all steps | | | {1000 * total:.1f} | {gflop:.1f} | {gflop / total:.0f} | {floor_us:.1f} |")
    lines.append(f"| the whole, one graph | | | {1000 * float(str(result['whole_ms_per_frame'])):.1f} | | | |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--json", type=Path, help="file to write to")
    arguments = parser.parse_args()
    device = torch.device("cuda", 0)
    result = measure(arguments.batch_size, device)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2), encoding="utf-8")
    print(table(result))


if __name__ == "__main__":
    main()
