"""From a packet and a speech to a talking video. One partition per avatar and speech."""

import json
from functools import partial
from typing import Any

import dagster as dg
from torch import Tensor

from assets.gate import require_matching_motion, require_matching_speech, require_renderable
from assets.packet import GPU_POOL, OWNERS
from assets.settings import MotionSettings, VideoSettings
from newsstudio_ditto.api import RenderReport, render_video
from newsstudio_ditto.config import RenderOptions
from newsstudio_ditto.control_choice import controls_to_text
from newsstudio_ditto.direction import Direction
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import TENSOR_PARTS
from newsstudio_ditto.preparation import content_hash
from newsstudio_ditto.progress import report_stage
from newsstudio_ditto.stages.tensor_file import TensorFile
from newsstudio_ditto.video_link import video_link
from resources import EngineResource, SinkResource, StorageResource
from resources.partitions import RENDERS, render_of
from resources.previews import video_picture
from resources.reporting import show_picture, timed

MOTION_VERSION = "driving_motion.2"
VIDEO_VERSION = "talking_video.2"

_PACKET = {"packet_meta": dg.AssetIn(key=["packet", "meta"])}
_PARTS = [dg.AssetKey(["packet", part]) for part in TENSOR_PARTS]


def direction_of(settings: MotionSettings, storage: StorageResource) -> Direction:
    """The settings of a run, checked."""
    chosen = settings.chosen(storage.layout.controls)
    return Direction(settings.sampling(chosen), chosen.controls, chosen.stitch(is_off=False))


def motion_file(motion: Tensor, packet: Packet, bundle: ModelBundle, direction: Direction) -> TensorFile:
    """Motion (T, 265) as it is stored, with what the render has to compare."""
    header = {
        "kind": "driving_motion",
        "stage_version": MOTION_VERSION,
        "generation": packet.generation,
        "lip_points": list(bundle.config.lip_points),
        **direction.to_header(),
    }
    return TensorFile({"motion": motion.cpu()}, header)


def show_direction(direction: Direction) -> dict[str, Any]:
    """Metadata that says what was asked for."""
    asked = controls_to_text(direction.controls)
    return {"seed": direction.sampling.seed, "controls": dg.MetadataValue.json(json.loads(asked))}


def video_options(
    settings: VideoSettings, direction: Direction, engine: EngineResource, sink: SinkResource
) -> RenderOptions:
    """Render options of a run; a stitching setting wins over the controls file."""
    return RenderOptions(
        sampling=direction.sampling,
        encode=sink.options,
        batch_size=settings.batch_size,
        stitch=direction.stitch if settings.stitch is None else settings.stitch,
        device=engine.device,
        eager=engine.eager,
        controls=direction.controls,
    )


def video_result(report: RenderReport, link: str) -> dg.MaterializeResult[None]:
    """A finished video with its fingerprint and what a person wants to see of it."""
    return dg.MaterializeResult(
        data_version=dg.DataVersion(content_hash(report.output)),
        metadata={
            "play": dg.MetadataValue.url(link),
            "preview": show_picture(video_picture(report.output, report.num_frames)),
            "path": dg.MetadataValue.path(str(report.output)),
            "bytes": report.output.stat().st_size,
            "num_frames": report.num_frames,
            "seconds": round(report.seconds["total"], 3),
            "seconds_by_stage": {stage: round(seconds, 3) for stage, seconds in report.seconds.items()},
            "frames_a_second": round(report.fps, 2),
            "device": f"{report.device}, {report.mode}, {report.core}",
            "warnings": list(report.warnings),
            "checked": report.checked,
        },
    )


@dg.asset(
    ins=_PACKET,
    deps=_PARTS,
    partitions_def=RENDERS,
    group_name="render",
    io_manager_key="tensor_io",
    code_version=MOTION_VERSION,
    description="Head pose, expression and mouth of every output frame, T x 265, from guided diffusion.",
    owners=OWNERS,
    kinds={"torch"},
    pool=GPU_POOL,
    tags={"stage": "render"},
)
def driving_motion(
    context: dg.AssetExecutionContext,
    config: MotionSettings,
    storage: StorageResource,
    engine: EngineResource,
    packet_meta: Packet,
    speech_features: TensorFile,
) -> TensorFile:
    """Sample the motion."""
    avatar_id, speech_id = render_of(context.partition_key)
    require_renderable(context.instance, storage, avatar_id, packet_meta)
    warm = engine.engine(storage.layout.recipe(avatar_id).model)
    require_matching_speech(packet_meta, warm.bundle, speech_features, speech_id)
    direction = direction_of(config, storage)
    context.add_output_metadata(show_direction(direction))
    with timed(context), warm.busy:
        motion = direction.sample(warm, speech_features.tensors["features"], packet_meta)
    return motion_file(motion, packet_meta, warm.bundle, direction)


@dg.asset(
    ins=_PACKET,
    deps=[dg.AssetKey("speech_audio")],
    partitions_def=RENDERS,
    group_name="render",
    code_version=VIDEO_VERSION,
    description="The finished video: `videos/{avatar_id}/{speech_id}.mp4` in the storage folder.",
    owners=OWNERS,
    kinds={"torch", "ffmpeg", "mp4"},
    pool=GPU_POOL,
    tags={"stage": "render"},
)
def talking_video(
    context: dg.AssetExecutionContext,
    config: VideoSettings,
    storage: StorageResource,
    engine: EngineResource,
    sink: SinkResource,
    packet_meta: Packet,
    driving_motion: TensorFile,
) -> dg.MaterializeResult[None]:
    """Render and encode."""
    avatar_id, speech_id = render_of(context.partition_key)
    require_renderable(context.instance, storage, avatar_id, packet_meta)
    require_matching_motion(packet_meta, driving_motion, avatar_id, speech_id, MOTION_VERSION)
    direction = Direction.of(driving_motion)
    report = render_video(
        packet_meta.folder,
        storage.layout.speech(speech_id),
        storage.layout.video(avatar_id, speech_id),
        options=video_options(config, direction, engine, sink),
        engine=engine.engine(storage.layout.recipe(avatar_id).model),
        motion=driving_motion.tensors["motion"],
        motion_controls=direction.controls,
        on_progress=partial(report_stage, "talking_video"),
    )
    return video_result(report, video_link(avatar_id, speech_id))


RENDER_ASSETS = [driving_motion, talking_video]
