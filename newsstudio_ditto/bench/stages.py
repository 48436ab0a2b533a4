"""Single stages: warp and decode, motion, and paste-back, each beside the reference's way."""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from newsstudio_ditto.bench import reference as reference_way
from newsstudio_ditto.bench.setup import Bench
from newsstudio_ditto.bench.timing import Figure, Times, time_runs
from newsstudio_ditto.config import RenderOptions, SamplingOptions
from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.maths.clips import ClipOptions
from newsstudio_ditto.maths.conditions import condition_rows
from newsstudio_ditto.maths.feather import feather_mask
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.render.motion import clip_options, packet_conditioning, sample_motion, starting_motion
from newsstudio_ditto.render.pipeline import render_plan
from newsstudio_ditto.render.slices import read_slices
from newsstudio_ditto.render.speech_plan import SpeechPlanner
from newsstudio_ditto.stages.speech import compute_speech_features, iterate_speech_features
from newsstudio_ditto.units import count_frames

_FEW_STEPS = 10


def draw_batch(bench: Bench, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random volumes and keypoints of one batch, on the device."""
    form, draw = bench.bundle.config.networks.appearance, torch.Generator().manual_seed(size)
    volume = torch.randn(
        size, form.volume_channels, form.volume_depth, form.volume_px, form.volume_px, generator=draw
    ).half()
    source = 0.3 * torch.randn(size, 21, 3, generator=draw)
    driving = source + 0.05 * torch.randn(size, 21, 3, generator=draw)
    return volume.to(bench.device), source.to(bench.device), driving.to(bench.device)


@torch.no_grad()
def count_flops(bench: Bench) -> float:
    """Floating-point operations of one frame's warp and decode, as torch counts them for the plain networks."""
    volume, source, driving = draw_batch(bench, 1)
    bundle = bench.reference.bundle
    with FlopCounterMode(display=False) as counter:
        bundle.decoder(bundle.warp(volume.float(), source, driving))
    return float(counter.get_total_flops())


def measure_core(bench: Bench) -> list[Figure]:
    """Warp and decode for every batch size."""
    device, runs = bench.device, bench.options.runs
    flops, roof = count_flops(bench), bench.roof
    arrays = [part.float().cpu().numpy() for part in draw_batch(bench, 1)]
    face = bench.reference.face
    slow = Times.of(time_runs(lambda: face(*arrays), runs, device=device, warmups=bench.warmups))
    engine = Engine(bench.bundle, device=device, batch_sizes=bench.options.batch_sizes)
    engine.warm_up()
    figures = []
    for size in bench.options.batch_sizes:
        render = partial(engine.render, *draw_batch(bench, size))
        times = Times.of(time_runs(render, runs, device=device, warmups=bench.warmups), size)
        share = round(flops / (times.median_ms / 1000) / (roof.tflops * 1e12), 3)
        note = f"{flops / 1e12:.3f} TFLOP a frame" if size == 1 else ""
        figures.append(Figure("core", f"warp and decode, B={size}", times, slow, "frame", share, note))
    return figures


def measure_motion(bench: Bench) -> list[Figure]:
    """Speech features, motion of a whole speech, and the time to the first frame."""
    speech, runs, device = bench.speech.numpy(), bench.options.runs, bench.device
    bundle, config = bench.bundle, bench.bundle.config
    slow_features = Times.of(time_runs(lambda: bench.reference.features(speech), runs, device=device, warmups=1))
    fast_features = Times.of(time_runs(lambda: list(hear(bench)), runs, device=device, warmups=bench.warmups))
    note = f"{bench.options.speech_s} s of speech"
    figures = [Figure("motion", "speech features", fast_features, slow_features, "speech", None, note)]
    features = compute_speech_features(speech, bundle)
    conditioning = packet_conditioning(bench.packet, config, ControlOptions(), len(features))
    rows = condition_rows(features.to(device), conditioning)
    start = starting_motion(bench.packet, config, ControlOptions()).to(device)
    scale = config.guidance_scale
    for steps in dict.fromkeys((config.num_steps, _FEW_STEPS)):
        options = SamplingOptions(num_steps=steps)
        chained = clip_options(options, config)

        def slow(steps: int = steps, chained: ClipOptions = chained) -> Tensor:
            return bench.reference.motion(rows, start, steps, scale, chained)

        def fast(options: SamplingOptions = options) -> Tensor:
            step = bench.engine.guided_step
            return sample_motion(bundle, features, bench.packet, options, device, step=step)

        slow_times = Times.of(time_runs(slow, max(runs // 2, 2), device=device, warmups=1))
        fast_times = Times.of(time_runs(fast, runs, device=device, warmups=bench.warmups))
        figures.append(Figure("motion", f"motion, {steps} steps", fast_times, slow_times, "speech", None, note))
    return [*figures, _first_frame(bench)]


def _first_frame(bench: Bench) -> Figure:
    """From the samples of a speech to its first finished frame on the host."""
    seconds = []
    for _ in range(bench.warmups + bench.options.runs):
        started = time.perf_counter()
        frames = render_plan(bench.packet, plan_speech(bench), bench.engine)
        next(frames)
        seconds.append(time.perf_counter() - started)
        del frames  # its threads end outside the clock
    return Figure("motion", "first frame after the speech is there", Times.of(seconds[bench.warmups :]), None, "speech")


def hear(bench: Bench) -> Iterator[Tensor]:
    """Features of the speech, chunk by chunk."""
    return iterate_speech_features(bench.speech.numpy(), bench.bundle, encoder=bench.engine.speech_encoder)


def plan_speech(bench: Bench) -> Iterator[FramePlan]:
    """Plans of the speech's frames, made while they are rendered."""
    speech = bench.speech.numpy()
    planner = SpeechPlanner(bench.packet, bench.engine, count_frames(len(speech)), RenderOptions())
    return planner.plans(planner.motion(hear(bench)))


def measure_paste(bench: Bench) -> list[Figure]:
    """Paste-back and colours of frames that are on the device already."""
    packet, device = bench.packet, bench.device
    size = min(8, packet.num_frames)
    images = torch.rand(size, 3, bench.shape.crop_px, bench.shape.crop_px, device=device).to(bench.bundle.dtype)
    source = next(read_slices(packet, [list(range(size))], device))
    source.wait()
    template = source.rows.planes.clone()

    def ours() -> Tensor:
        source.rows.planes.copy_(template)
        return source.paint(images, packet.paste_window, packet.frame_size)

    picture = images[0].float().permute(1, 2, 0).cpu().numpy() * 255
    frame = np.ascontiguousarray(packet.frames[0].permute(1, 2, 0).numpy())
    mask = feather_mask(*picture.shape[:2]).astype(np.float32)
    matrix = packet.meta.crop_to_original[0].double().numpy()
    slow: Callable[[], object] = lambda: reference_way.paste(frame, picture, matrix, mask)  # noqa: E731
    fast_times = Times.of(time_runs(ours, bench.options.runs * 4, device=device, warmups=5), size)
    slow_times = Times.of(time_runs(slow, bench.options.runs))
    share = _copy_share(bench, fast_times)
    note = "the frame copied, the window blended and converted"
    figures = [Figure("paste", "paste-back and colours", fast_times, slow_times, "frame", share, note)]

    def gather() -> None:
        next(read_slices(packet, [list(range(size))], device)).wait()

    gathered = Times.of(time_runs(gather, bench.options.runs * 4, device=device), size)
    return [*figures, Figure("paste", "rows of resident frames gathered", gathered, None, "frame")]


def _copy_share(bench: Bench, times: Times) -> float:
    """Share of the copy roof: planes read and written, and the window's grid, mask, patch and crop read once."""
    height, width = bench.options.frame
    window = bench.shape.window.height * bench.shape.window.width
    moved = 2 * height * width * 3 // 2 + window * (8 + 1 + 3 + 1) + 3 * bench.shape.crop_px**2 * 2
    return round(moved / (statistics.mean([times.median_ms]) / 1000) / (bench.roof.copy_gb_s * 1e9), 3)
