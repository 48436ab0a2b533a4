"""One rendered second as a picture: which thread and which stream of the device does what, and what waits for what.

    python benchmarks/flame.py --output flame.svg

Threads are timed by the host's clock; on CUDA the kernels and copies come from torch's profiler, which costs a little
time itself. The picture shows the second after the first frames have been written.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent))  # a checkout that is not installed

from newsstudio_ditto.bench.output import open_sink
from newsstudio_ditto.bench.samples import FULL_WIDTH
from newsstudio_ditto.bench.setup import Bench, BenchOptions
from newsstudio_ditto.bench.stages import plan_speech
from newsstudio_ditto.bench.timing import describe_run
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.render.engine import Engine, choose_device
from newsstudio_ditto.render.pipeline import FRAMES_HELD, render_plan
from newsstudio_ditto.render.prefetch import prefetch
from newsstudio_ditto.render.ring import HostRing

COLOURS = {
    "core": "#4269d0",
    "paste": "#ff725c",
    "motion": "#6cc5b0",
    "copy": "#efb118",
    "encode": "#9c6b4e",
    "wait": "#d8d8d8",
    "launch": "#97bbf5",
}
_WIDTH, _ROW, _LABEL = 1200, 26, 190


@dataclass(frozen=True)
class Span:
    """Something that a lane did, seconds since the start."""

    lane: str
    kind: str
    start_s: float
    stop_s: float


class Recorder:
    """Collects spans of any thread."""

    def __init__(self) -> None:
        """Start the clock."""
        self.spans: list[Span] = []
        self.origin = time.perf_counter()

    @contextmanager
    def span(self, lane: str, kind: str) -> Iterator[None]:
        """Record the body's time."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spans.append(Span(lane, kind, started - self.origin, time.perf_counter() - self.origin))


def watch(recorder: Recorder, engine: Engine) -> None:
    """Have the calls between the stages note their times."""
    render, read = engine.render, HostRing.read

    def watched_render(volume: Tensor, source: Tensor, driving: Tensor) -> Tensor:
        with recorder.span("render thread", "launch"):
            return render(volume, source, driving)

    def watched_read(self: HostRing, index: int) -> Any:
        with recorder.span("render thread", "wait"):
            return read(self, index)

    engine.render = watched_render  # type: ignore[method-assign]
    HostRing.read = watched_read  # type: ignore[method-assign]


def record(bench: Bench, recorder: Recorder) -> None:
    """Render the speech into a video once."""
    rendered = render_plan(bench.packet, plan_speech(bench), bench.engine)
    with open_sink(bench, "flame.mp4") as sink, closing(prefetch(rendered, FRAMES_HELD - 1)) as frames:
        while True:
            with recorder.span("sink thread", "wait"):
                frame = next(frames, None)
            if frame is None:
                return
            with recorder.span("sink thread", "encode"):
                sink.write(frame)


def kind_of(name: str) -> str:
    """What a kernel belongs to, by its name."""
    lowered = name.lower()
    if any(word in lowered for word in ("memcpy", "memset", "index", "gather")):
        return "copy"
    return "paste" if name in ("_paint", "_convert") else "core"


def device_spans(events: list[Any]) -> list[Span]:
    """Kernels and copies by stream; kernels on other streams than the busiest are the motion's."""
    shift_s = min(event.time_range.start for event in events) / 1e6
    busy: dict[int, float] = {}
    for event in events:
        busy[event.device_resource_id] = busy.get(event.device_resource_id, 0.0) + event.time_range.elapsed_us()
    main = max(busy, key=lambda stream: busy[stream], default=0)
    spans = []
    for event in events:
        stream, kind = event.device_resource_id, kind_of(event.name)
        if kind == "core" and stream != main:
            kind = "motion"
        lane = "device: render" if stream == main else ("device: copies" if kind == "copy" else "device: beside")
        start, stop = event.time_range.start / 1e6 - shift_s, event.time_range.end / 1e6 - shift_s
        spans.append(Span(lane, kind, start, stop))
    return spans


def joined(spans: list[Span], gap_s: float) -> list[Span]:
    """Spans of one lane and kind that follow each other closely, as one."""
    result: list[Span] = []
    last: dict[str, int] = {}
    for span in sorted(spans, key=lambda each: each.start_s):
        at = last.get(span.lane)
        if at is not None and result[at].kind == span.kind and span.start_s - result[at].stop_s < gap_s:
            earlier = result[at]
            result[at] = Span(span.lane, span.kind, earlier.start_s, max(earlier.stop_s, span.stop_s))
        else:
            last[span.lane] = len(result)
            result.append(span)
    return result


def draw(spans: list[Span], start_s: float, length_s: float, title: str) -> str:
    """An SVG of the spans from ``start_s`` on."""
    lanes = sorted({span.lane for span in spans}, reverse=True)
    scale = (_WIDTH - _LABEL - 10) / length_s
    parts = [f'<text x="8" y="18" font-size="14">{escape(title)}</text>']
    for row, lane in enumerate(lanes):
        y = 34 + row * (_ROW + 8)
        parts.append(f'<text x="8" y="{y + 17}">{escape(lane)}</text>')
        parts.append(f'<rect x="{_LABEL}" y="{y}" width="{_WIDTH - _LABEL - 10}" height="{_ROW}" fill="#f6f6f6"/>')
        for span in spans:
            low, high = max(span.start_s - start_s, 0.0), min(span.stop_s - start_s, length_s)
            if span.lane == lane and high > low:
                x, width = _LABEL + low * scale, max((high - low) * scale, 0.3)
                colour = COLOURS[span.kind]
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW}" fill="{colour}"/>')
    below = 34 + len(lanes) * (_ROW + 8) + 14
    for step in range(11):
        x = _LABEL + step * length_s / 10 * scale
        parts.append(f'<text x="{x:.0f}" y="{below}" text-anchor="middle">{100 * step * length_s:.0f} ms</text>')
    for index, (kind, colour) in enumerate(COLOURS.items()):
        x = _LABEL + 130 * index
        parts.append(f'<rect x="{x}" y="{below + 14}" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="{below + 26}">{kind}</text>')
    height = below + 40
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif"'
    return head + ' font-size="12"><rect width="100%" height="100%" fill="#ffffff"/>' + "".join(parts) + "</svg>\n"


def shares(spans: list[Span], start_s: float, length_s: float) -> dict[str, float]:
    """Share of the second that each lane spends on each kind."""
    total: dict[str, float] = {}
    for span in spans:
        inside = min(span.stop_s, start_s + length_s) - max(span.start_s, start_s)
        if inside > 0:
            key = f"{span.lane}: {span.kind}"
            total[key] = total.get(key, 0.0) + inside / length_s
    return {key: round(value, 3) for key, value in sorted(total.items())}


def measure(bench: Bench, recorder: Recorder) -> list[Span]:
    """Spans of one render, with the device's own where there is one."""
    record(bench, Recorder())  # everything is warm afterwards
    watch(recorder, bench.engine)
    if bench.device.type != "cuda":
        recorder.origin = time.perf_counter()
        record(bench, recorder)
        return recorder.spans
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        torch.cuda.synchronize(bench.device)
        recorder.origin = time.perf_counter()
        torch.zeros(1, device=bench.device)  # the first kernel of the trace: it ties the two clocks together
        record(bench, recorder)
        torch.cuda.synchronize(bench.device)
    events = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return [*recorder.spans, *device_spans(events)]


def main() -> None:
    """Render, draw, and print what each lane did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--height", type=int, default=1080)
    parser.add_argument("--width", type=int, default=1920)
    parser.add_argument("--frames", type=int, default=60, help="of the packet")
    parser.add_argument("--seconds", type=float, default=12.0, help="of speech")
    parser.add_argument("--output", type=Path, required=True, help="the SVG")
    parser.add_argument("--json", type=Path, default=None)
    told = parser.parse_args()
    device = choose_device(told.device)
    model = told.model or (FULL_WIDTH if device.type == "cuda" else "mini")
    options = BenchOptions(model, device, FrameSize(told.height, told.width), told.frames, told.seconds)
    with tempfile.TemporaryDirectory() as folder:
        bench, recorder = Bench(options, Path(folder)), Recorder()
        spans = measure(bench, recorder)
    written = sorted(span.start_s for span in spans if span.kind == "encode")
    start_s, length_s = written[min(FRAMES_HELD, len(written) - 1)], min(1.0, written[-1] - written[0])
    run = describe_run(device)
    count = sum(start_s <= at < start_s + length_s for at in written)
    title = f"{length_s:.2f} s of rendering, {count} frames, {model}, {told.width}x{told.height}, {run['device']}"
    told.output.write_text(draw(joined(spans, 0.0002), start_s, length_s, title), encoding="utf-8")
    found = {"frames": count, "seconds": length_s, "shares": shares(joined(spans, 0.0), start_s, length_s), "run": run}
    if told.json is not None:
        kept = [asdict(span) for span in joined(spans, 0.0002) if start_s <= span.start_s < start_s + length_s]
        told.json.write_text(json.dumps({**found, "spans": kept}) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
