"""The one place where packet, speech, engine and sink are put together: for command line, daemon and Dagster alike."""

import logging
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from newsstudio_ditto import __version__
from newsstudio_ditto.config import RenderOptions
from newsstudio_ditto.media.decode import read_speech
from newsstudio_ditto.media.ffmpeg import choose_encoder
from newsstudio_ditto.media.sink import FfmpegSink
from newsstudio_ditto.packet.fingerprint import hash_file
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.preparation import PacketBuild, build_packet
from newsstudio_ditto.progress import OnProgress
from newsstudio_ditto.render.clock import StageClock
from newsstudio_ditto.render.engine import Engine, choose_device, warm_bundle, warm_engine
from newsstudio_ditto.render.motion import sample_motion
from newsstudio_ditto.render.pipeline import FRAMES_HELD, FramePlan, check_controls, plan_frames, render_plan
from newsstudio_ditto.render.prefetch import prefetch
from newsstudio_ditto.stages.speech import compute_speech_features
from newsstudio_ditto.storage import DEFAULT_MODEL
from newsstudio_ditto.units import FRAME_RATE_HZ

__all__ = ["PacketBuild", "RenderReport", "build_packet", "provenance", "render_video"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RenderReport:
    """What a render did.

    Args:
        output: the finished video.
        num_frames: frames written.
        seconds: wall time by stage: open, speech_features, motion, pre_stitch, warm_up, render, total.
        fps: frames a second while rendering and encoding.
        device: where the networks ran.
        mode: whether the engine replayed CUDA graphs or ran eagerly.
        warnings: what the reader of the video should know.
    """

    output: Path
    num_frames: int
    seconds: dict[str, float]
    fps: float
    device: str
    mode: Literal["graph", "eager"]
    warnings: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "output": str(self.output), "warnings": list(self.warnings)}


def render_video(
    packet_folder: Path,
    speech: Path,
    output: Path,
    *,
    model: str | None = None,
    options: RenderOptions | None = None,
    engine: Engine | None = None,
    motion: Tensor | None = None,
    on_progress: OnProgress | None = None,
) -> RenderReport:
    """Render a talking video: an avatar's packet says a speech.

    Args:
        packet_folder: the six files.
        speech: any audio file that FFmpeg reads; it is muxed into the video as well.
        output: the video; it appears under this name when it is complete.
        model: name or folder of the model bundle; None takes the one that the packet names.
        options: sampling, controls, engine and encoder.
        engine: a warm engine; None takes the process's own for model and device.
        motion: (T, 265) driving motion made earlier for this avatar and speech; None makes it.
        on_progress: called with (frames done, frames in all).

    Raises:
        UsageError: the model cannot do what a control asks for.
        PacketError: the packet is missing, damaged, mixed, or made for another model.
        MediaError: the speech cannot be read or is empty, or FFmpeg failed.
        DeviceError: the device is not there.
    """
    options = options or RenderOptions()
    clock = StageClock()
    with clock.stage("open"):
        packet = open_packet(packet_folder)
    with clock.stage("warm_up"):
        engine = engine or _warm_engine_for(packet, model, options)
    packet.expect_model(engine.bundle.fingerprint)
    check_controls(packet, engine.bundle.config, options.controls, has_motion=motion is not None)
    with engine.busy:
        plan = _plan(packet, speech, engine, options, motion, clock)
        with clock.stage("warm_up"):
            if options.batch_size is not None:
                engine.include_batch_size(options.batch_size)
            engine.warm_up()
        with clock.stage("render"):
            _write(packet, plan, engine, speech, output, options, on_progress)
    return _report(packet, plan, engine, output, options, clock)


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


def _warm_engine_for(packet: Packet, model: str | None, options: RenderOptions) -> Engine:
    device = choose_device(options.device)
    bundle = warm_bundle(model or str(packet.meta.options.get("model") or DEFAULT_MODEL), device)
    packet.expect_model(bundle.fingerprint)  # before anything is captured
    return warm_engine(bundle, device, eager=options.eager)


def _plan(
    packet: Packet, speech: Path, engine: Engine, options: RenderOptions, motion: Tensor | None, clock: StageClock
) -> FramePlan:
    bundle = engine.bundle
    if motion is None:
        with clock.stage("speech_features"):
            features = compute_speech_features(read_speech(speech), bundle)
        with clock.stage("motion"):
            motion = sample_motion(
                bundle,
                features,
                packet,
                options.sampling,
                engine.device,
                step=engine.guided_step,
                controls=options.controls,
            )
    with clock.stage("pre_stitch"):
        motion = motion.to(engine.device)
        return plan_frames(packet, motion, bundle, stitch=options.stitch, controls=options.controls)


def _write(
    packet: Packet,
    plan: FramePlan,
    engine: Engine,
    speech: Path,
    output: Path,
    options: RenderOptions,
    on_progress: OnProgress | None,
) -> None:
    height, width = packet.frame_size
    tags = provenance(packet, options, speech)
    sink = FfmpegSink(
        output,
        width=width,
        height=height,
        speech=speech,
        options=choose_encoder(options.encode),
        metadata=tags,
        speech_seconds=(plan.num_frames - 1) / FRAME_RATE_HZ,
    )
    rendered = render_plan(packet, plan, engine, batch_size=options.batch_size, frames_held=FRAMES_HELD)
    with sink, closing(prefetch(rendered, FRAMES_HELD - 1)) as frames:
        for num_done, frame in enumerate(frames, start=1):
            sink.write(frame)
            if on_progress is not None:
                on_progress(num_done, plan.num_frames)


def _report(
    packet: Packet, plan: FramePlan, engine: Engine, output: Path, options: RenderOptions, clock: StageClock
) -> RenderReport:
    seconds = clock.seconds()
    report = RenderReport(
        output=output,
        num_frames=plan.num_frames,
        seconds=seconds,
        fps=plan.num_frames / seconds["render"],
        device=str(engine.device),
        mode="graph" if engine.is_graphed else "eager",
        warnings=tuple(_warnings(packet, engine, options)),
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
    num_lost = packet.num_frames - int(packet.meta.face_valid.sum())
    if num_lost:
        warnings.append(f"no face in {num_lost} of {packet.num_frames} source frames: those stay as they are")
    return warnings
