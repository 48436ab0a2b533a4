"""Frames into FFmpeg, whole renders, and their memory."""

import subprocess
import threading
import wave
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from newsstudio_ditto.bench import reference as reference_way
from newsstudio_ditto.bench.setup import Bench
from newsstudio_ditto.bench.stages import plan_speech
from newsstudio_ditto.bench.timing import Figure, Times, time_runs
from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.maths.colour import yuv420_to_rgb
from newsstudio_ditto.media.encode_args import encoder_settings
from newsstudio_ditto.media.ffmpeg import find_ffmpeg
from newsstudio_ditto.media.sink import FfmpegSink
from newsstudio_ditto.render.pipeline import FRAMES_HELD, render_plan
from newsstudio_ditto.render.prefetch import prefetch
from newsstudio_ditto.render.speech_plan import warm_up_motion
from newsstudio_ditto.units import FRAME_RATE_HZ, SAMPLE_RATE_HZ, count_frames

_SAMPLE_EVERY_S = 0.005


def write_wav(bench: Bench) -> Path:
    """The speech as a file."""
    path = bench.folder / "speech.wav"
    if not path.exists():
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(SAMPLE_RATE_HZ)
            file.writeframes((bench.speech.numpy() * 32767).astype("<i2").tobytes())
    return path


def open_sink(bench: Bench, name: str = "bench.mp4") -> FfmpegSink:
    """The sink of a render."""
    (height, width), speech = bench.options.frame, write_wav(bench)
    options = bench.options.encode
    return FfmpegSink(bench.folder / name, width=width, height=height, speech=speech, options=options, metadata={})


def write_all(bench: Bench, frames: Iterable[npt.NDArray[np.uint8]]) -> int:
    """Write frames into a video; returns how many."""
    with open_sink(bench) as sink:
        for frame in frames:
            sink.write(frame)
    return sink.num_frames


def finished_frames(bench: Bench) -> tuple[npt.NDArray[np.uint8], Path]:
    """All frames of the speech, (T, H*W*3//2), mapped from a file of raw frames, rendered once; and that file."""
    path = bench.folder / "frames.yuv"
    if not path.exists():
        with path.open("wb") as file:
            for frame in render_plan(bench.packet, plan_speech(bench), bench.engine):
                file.write(frame.data)
    height, width = bench.options.frame
    return np.memmap(path, np.uint8, mode="c").reshape(-1, height * width * 3 // 2), path


def _ffmpeg(pixels: str, source: str, bench: Bench) -> list[str]:
    height, width = bench.options.frame
    settings = [
        word for key, value in encoder_settings(bench.options.encode).items() for word in (f"-{key}", str(value))
    ]
    raw = ["-f", "rawvideo", "-pix_fmt", pixels, "-s", f"{width}x{height}", "-r", str(FRAME_RATE_HZ), "-i", source]
    target = str(bench.folder / "alone.mp4")
    return [str(find_ffmpeg()), "-loglevel", "error", "-y", *raw, *settings, "-pix_fmt", "yuv420p", target]


def encode_alone(bench: Bench, runs: int) -> Times:
    """FFmpeg by itself on the finished frames, read from a file in the page cache."""
    frames, path = finished_frames(bench)
    argv = _ffmpeg("yuv420p", str(path), bench)
    return Times.of(time_runs(lambda: subprocess.run(argv, check=True), runs, warmups=1), len(frames))


def _to_rgb(bench: Bench, frame: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A finished frame as (H, W, 3), which the reference's sink would be given."""
    rgb = yuv420_to_rgb(torch.from_numpy(frame)[None], *bench.options.frame)[0]
    return rgb.round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()


def measure_sink(bench: Bench) -> list[Figure]:
    """Finished frames into FFmpeg: ours, rgb24 as the reference sends them, and FFmpeg alone."""
    runs, (frames, _) = bench.options.runs, finished_frames(bench)
    alone = encode_alone(bench, runs)
    ours = Times.of(time_runs(lambda: write_all(bench, frames), runs, warmups=1), len(frames))
    pictures = [_to_rgb(bench, frame) for frame in frames]

    def slow() -> None:
        child = subprocess.Popen(_ffmpeg("rgb24", "pipe:0", bench), stdin=subprocess.PIPE)
        assert child.stdin is not None, "asked for a pipe"
        for picture in pictures:
            child.stdin.write(picture.tobytes())
        child.stdin.close()
        child.wait()

    rgb = Times.of(time_runs(slow, max(runs // 2, 2), warmups=0), len(frames))
    share = round(alone.median_ms / ours.median_ms, 3)
    note = f"{1000 / ours.median_ms:.0f} fps, {100 * share:.0f} % of FFmpeg alone; sound, index and check included"
    return [
        Figure("sink", "FFmpeg alone, from a file", alone, rgb, "frame", None, f"{1000 / alone.median_ms:.0f} fps"),
        Figure("sink", "yuv420p through the sink", ours, rgb, "frame", None, note),
    ]


def measure_pipeline(bench: Bench) -> list[Figure]:
    """From the samples of a speech to a finished video, and to frames that nobody encodes."""
    num_frames, runs = count_frames(len(bench.speech)), bench.options.runs

    def whole() -> None:
        rendered = render_plan(bench.packet, plan_speech(bench), bench.engine, frames_held=FRAMES_HELD)
        with closing(prefetch(rendered, FRAMES_HELD - 1)) as frames:
            write_all(bench, frames)

    def unencoded() -> None:
        for _ in render_plan(bench.packet, plan_speech(bench), bench.engine):
            pass

    slow = _reference_times(bench)
    encoded = Times.of(time_runs(whole, runs, device=bench.device, warmups=1), num_frames)
    bare = Times.of(time_runs(unencoded, runs, device=bench.device, warmups=0), num_frames)
    alone = encode_alone(bench, runs)
    share = round(100 * alone.median_ms / encoded.median_ms)
    note = f"{1000 / encoded.median_ms:.0f} fps, {share} % of FFmpeg alone on the same frames"
    return [
        Figure("pipeline", "speech to video, motion included", encoded, slow, "frame", None, note),
        Figure(
            "pipeline", "speech to frames, no encoder", bare, slow, "frame", None, f"{1000 / bare.median_ms:.0f} fps"
        ),
    ]


def _reference_times(bench: Bench) -> Times:
    """The reference's way of the same, motion excepted, on a few frames."""
    plan = next(iter(plan_speech(bench)))
    few = plan.rows(slice(0, bench.options.reference_frames))

    def run() -> None:
        child = subprocess.Popen(_ffmpeg("rgb24", "pipe:0", bench), stdin=subprocess.PIPE)
        assert child.stdin is not None, "asked for a pipe"
        for picture in reference_way.frames(bench.reference, bench.packet, few):
            child.stdin.write(picture.tobytes())
        child.stdin.close()
        child.wait()

    return Times.of(time_runs(run, max(bench.options.runs // 2, 2), device=bench.device, warmups=1), few.num_frames)


def read_memory_mb() -> tuple[float, float]:
    """RssAnon and RssFile of this process, MB. Linux only."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    anonymous, mapped = (int(fields[name].split()[0]) / 1000 for name in ("RssAnon", "RssFile"))
    return anonymous, mapped


class PeakMemory:
    """Samples memory in a thread while its context lasts."""

    def __init__(self) -> None:
        """Note where memory stands."""
        self.before_mb, self.file_mb = read_memory_mb()
        self.peak_mb = self.before_mb
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory-sampler")

    def __enter__(self) -> "PeakMemory":
        """Start sampling."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take a last sample and stop."""
        self._stop.set()
        self._thread.join()

    @property
    def added_mb(self) -> float:
        """Highest private memory since the start, above the start."""
        return self.peak_mb - self.before_mb

    def _sample(self) -> None:
        while True:
            anonymous, mapped = read_memory_mb()
            self.peak_mb, self.file_mb = max(self.peak_mb, anonymous), max(self.file_mb, mapped)
            if self._stop.wait(_SAMPLE_EVERY_S):
                return


def measure_memory(bench: Bench) -> dict[str, float]:
    """Private memory (RssAnon), MB: of the engine as far as it is warm, and of renders above the warm engine."""
    _ = bench.engine, bench.packet
    found = {"warp and decoder alone": round(read_memory_mb()[0], 1)}
    warm_up_motion(bench.engine, SamplingOptions())
    for name, repeats in (("first render", 1), ("second render", 1), ("three more in a row", 3)):
        with PeakMemory() as memory:
            for _ in range(repeats):
                rendered = render_plan(bench.packet, plan_speech(bench), bench.engine)
                with closing(prefetch(rendered, FRAMES_HELD - 1)) as frames:
                    write_all(bench, frames)
        found.setdefault("warm engine", round(memory.before_mb, 1))
        found[f"{name}, above the warm engine"] = round(memory.peak_mb - found["warm engine"], 1)
    return found
