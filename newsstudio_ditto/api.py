"""The one place where packet, speech, engine and sink are put together: for command line, daemon and Dagster alike."""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from newsstudio_ditto import __version__
from newsstudio_ditto.config import RenderOptions
from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.lip_truth import LipCheck
from newsstudio_ditto.media.decode import read_speech
from newsstudio_ditto.media.ffmpeg import choose_encoder
from newsstudio_ditto.media.loudness import SpeechOutline
from newsstudio_ditto.media.sink import FfmpegSink
from newsstudio_ditto.output_truth import LIPS_TAG, VideoTruth, judge_video
from newsstudio_ditto.packet.files import reporting_refusals
from newsstudio_ditto.packet.fingerprint import hash_file
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.preparation import PacketBuild, build_packet
from newsstudio_ditto.progress import OnProgress
from newsstudio_ditto.remarks import packet_remarks
from newsstudio_ditto.render.clock import StageClock
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.render.pipeline import FRAMES_HELD, check_controls, render_plan
from newsstudio_ditto.render.prefetch import prefetch
from newsstudio_ditto.render.speech_plan import SpeechPlanner
from newsstudio_ditto.render.warming import open_engines, warm_up
from newsstudio_ditto.stages.speech import iterate_speech_features
from newsstudio_ditto.storage import DEFAULT_MODEL
from newsstudio_ditto.units import FRAME_RATE_HZ, count_frames

__all__ = ["PacketBuild", "RenderReport", "build_packet", "provenance", "render_video"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RenderReport:
    """What a render did.

    Args:
        output: the finished video.
        num_frames: frames written.
        seconds: wall time by stage: open (packet and FFmpeg), load (weights), warm_up (captured graphs),
            speech_features, motion, pre_stitch, render, check, total. Features and motion count up to those of the
            first frames; the rest of them is made while frames are rendered.
        fps: frames a second while rendering and encoding.
        device: where the networks ran; several are separated by commas.
        mode: whether the engine replayed CUDA graphs or ran eagerly.
        core: whether warp and decoder ran as fused kernels or as the plain networks.
        warnings: what the reader of the video should know.
        checked: what the finished video was measured to be.
    """

    output: Path
    num_frames: int
    seconds: dict[str, float]
    fps: float
    device: str
    mode: Literal["graph", "eager"]
    core: Literal["fused", "plain"]
    warnings: tuple[str, ...] = ()
    checked: dict[str, float] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "output": str(self.output), "warnings": list(self.warnings)}


@reporting_refusals()
def render_video(
    packet_folder: Path,
    speech: Path,
    output: Path,
    *,
    model: str | None = None,
    options: RenderOptions | None = None,
    engine: Engine | Sequence[Engine] | None = None,
    motion: Tensor | None = None,
    motion_controls: ControlOptions | None = None,
    lips: LipCheck = "off",
    on_progress: OnProgress | None = None,
) -> RenderReport:
    """Render a talking video: an avatar's packet says a speech.

    Args:
        packet_folder: the six files.
        speech: any audio file that FFmpeg reads; it is muxed into the video as well.
        output: the video; it appears under this name when it is complete.
        model: name or folder of the model bundle; None takes the one that the packet names.
        options: sampling, controls, engine and encoder.
        engine: a warm engine, or several of one model on different devices, which share the frames; None takes the
            process's own for model and device.
        motion: (T, 265) driving motion made earlier for this avatar and speech; None makes it.
        motion_controls: controls that ``motion`` was made under; those of ``options`` may ask it for nothing else.
        lips: how much of the finished video is searched for lips that stand still or lag; everything else about it is
            checked always, before it gets its name.
        on_progress: called with (frames done, frames in all).

    Raises:
        UsageError: the model cannot do what a control asks for.
        PacketError: the packet is missing, damaged, mixed, or made for another model.
        MediaError: the speech cannot be read or is empty, FFmpeg failed, or the finished video is not what was asked
            for.
        DeviceError: the device is not there, or its memory does not suffice.
    """
    options = options or RenderOptions()
    clock = StageClock()
    with clock.stage("open"):
        packet = open_packet(packet_folder)
    if engine is None:
        name = model or str(packet.meta.options.get("model") or DEFAULT_MODEL)
        engines = open_engines(name, packet, options, clock)
    else:
        engines = [engine] if isinstance(engine, Engine) else list(engine)
    first = engines[0]
    packet.expect_model(first.bundle.fingerprint)
    is_made = motion is not None and motion_controls != options.controls
    check_controls(packet, first.bundle.config, options.controls, has_motion=is_made)
    with ExitStack() as busy:
        for each in engines:
            busy.enter_context(each.busy)
        warm_up(engines, options, has_motion=motion is not None, clock=clock)
        with clock.stage("speech_features"):
            samples = read_speech(speech)
            judge = _Judge(output, SpeechOutline(samples), packet, lips, clock)
        num_frames = count_frames(len(samples)) if motion is None else len(motion)
        tags = provenance(packet, options, speech) | {LIPS_TAG: _lips(first, options.controls)}
        sink = _make_sink(packet, num_frames, speech, output, options, tags, judge)
        with ExitStack() as opened:
            with clock.stage("open"):
                opened.enter_context(sink)  # FFmpeg starts while the speech is heard
            plans = _plan(packet, samples, num_frames, first, options, motion, clock)
            with clock.stage("render"), closing(plans), opened.pop_all():
                _write(packet, plans, num_frames, engines, sink, options, on_progress)
    return _report(packet, num_frames, engines, output, options, clock, judge.found)


def provenance(packet: Packet, options: RenderOptions, speech: Path) -> dict[str, str]:
    """Tags that say where a video came from; ``media.tags.read_provenance`` reads them back."""
    return {
        "synthetic": "true",
        "product": f"newsstudio-ditto {__version__}",
        "avatar_id": packet.avatar_id,
        "packet_generation": packet.generation,
        "model_fingerprint": packet.model_fingerprint,
        "seed": str(options.sampling.seed),
        "speech_sha256": hash_file(speech),
        "controls_sha256": options.controls_hash,
    }


def _plan(
    packet: Packet,
    samples: NDArray[np.float32],
    num_frames: int,
    engine: Engine,
    options: RenderOptions,
    motion: Tensor | None,
    clock: StageClock,
) -> Generator[FramePlan, None, None]:
    """Plans of the frames, made while they are rendered; the first of them are there."""
    features = iterate_speech_features(samples, engine.bundle, encoder=engine.speech_encoder)
    with clock.stage("speech_features"):
        heard = [next(features)] if motion is None else []
    with clock.stage("pre_stitch"):
        planner = SpeechPlanner(packet, engine, num_frames, options)
    with clock.stage("motion"):
        rows = planner.motion(chain(heard, features)) if motion is None else planner.made_motion(motion)
        plans = planner.plans(rows)
        first = next(plans)
    return _led_by(first, plans)


def _led_by(first: FramePlan, rest: Generator[FramePlan, None, None]) -> Generator[FramePlan, None, None]:
    with closing(rest):
        yield first
        yield from rest


def _lips(engine: Engine, controls: ControlOptions) -> str:
    """Whether lips can be expected to follow the speech, for whoever looks at the video."""
    return "held" if engine.bundle.untrained or controls.holds_lips else "speech"


class _Judge:
    """Looks at the finished video before it gets its name, and keeps what was found."""

    def __init__(self, output: Path, speech: SpeechOutline, packet: Packet, lips: LipCheck, clock: StageClock) -> None:
        self._output, self._speech, self._packet, self._lips, self._clock = output, speech, packet, lips, clock
        self.found = VideoTruth()

    def __call__(self, path: Path) -> None:
        with self._clock.stage("check"):
            self.found = judge_video(path, self._speech, packet=self._packet, lips=self._lips)
        self.found.require(self._output)


def _make_sink(
    packet: Packet,
    num_frames: int,
    speech: Path,
    output: Path,
    options: RenderOptions,
    tags: dict[str, str],
    check: Callable[[Path], None],
) -> FfmpegSink:
    height, width = packet.frame_size
    return FfmpegSink(
        output,
        width=width,
        height=height,
        speech=speech,
        options=choose_encoder(options.encode),
        metadata=tags,
        speech_seconds=(num_frames - 1) / FRAME_RATE_HZ,
        check=check,
    )


def _write(
    packet: Packet,
    plans: Generator[FramePlan, None, None],
    num_frames: int,
    engines: list[Engine],
    sink: FfmpegSink,
    options: RenderOptions,
    on_progress: OnProgress | None,
) -> None:
    rendered = render_plan(packet, plans, engines, batch_size=options.batch_size, frames_held=FRAMES_HELD)
    with closing(prefetch(rendered, FRAMES_HELD - 1)) as frames:
        for num_done, frame in enumerate(frames, start=1):
            sink.write(frame)
            if on_progress is not None:
                on_progress(num_done, num_frames)


def _report(
    packet: Packet,
    num_frames: int,
    engines: list[Engine],
    output: Path,
    options: RenderOptions,
    clock: StageClock,
    truth: VideoTruth,
) -> RenderReport:
    seconds = clock.seconds()
    report = RenderReport(
        output=output,
        num_frames=num_frames,
        seconds=seconds,
        fps=num_frames / seconds["render"],
        device=",".join(str(engine.device) for engine in engines),
        mode="graph" if engines[0].is_graphed else "eager",
        core="fused" if all(engine.core == "fused" for engine in engines) else "plain",
        warnings=(*_warnings(packet, engines[0], options), *truth.warnings),
        checked=truth.measured,
    )
    log.info("rendered", extra={"output": str(output), "num_frames": report.num_frames, "fps": report.fps})
    return report


def _warnings(packet: Packet, engine: Engine, options: RenderOptions) -> list[str]:
    warnings = []
    if engine.bundle.untrained:
        parts = ", ".join(engine.bundle.untrained)
        warnings.append(f"parts of the model were never trained ({parts}): what they contribute is noise")
    if engine.device.type == "cuda" and not engine.is_graphed:
        warnings.append("CUDA graphs are switched off: rendering is slower than it could be")
    if packet.meta.options.get("blend") == "mouth" and options.controls.moves_beyond_mouth:
        remedy = f"newsstudio-ditto preprocess CLIP --avatar-id {packet.avatar_id} --blend crop"
        warnings.append(f"this packet blends the mouth alone, so head, gaze and blinks stay the clip's own ({remedy})")
    return [*warnings, *packet_remarks(packet)]
