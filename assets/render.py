"""From a packet and a speech to a talking video. One partition per avatar and speech."""

from functools import partial

import dagster as dg
from torch import Tensor

from assets.gate import require_matching_motion, require_matching_speech, require_renderable
from assets.packet import GPU_POOL, OWNERS
from newsstudio_ditto.api import RenderReport, render_video
from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import TENSOR_PARTS
from newsstudio_ditto.preparation import content_hash
from newsstudio_ditto.progress import report_stage
from newsstudio_ditto.render.motion import sample_motion
from newsstudio_ditto.stages.tensor_file import TensorFile
from resources import EngineResource, SinkResource, StorageResource
from resources.partitions import RENDERS, render_of
from resources.previews import video_picture
from resources.reporting import show_picture, timed

MOTION_VERSION = "driving_motion.1"
VIDEO_VERSION = "talking_video.1"

_PACKET = {"packet_meta": dg.AssetIn(key=["packet", "meta"])}
_PARTS = [dg.AssetKey(["packet", part]) for part in TENSOR_PARTS]


class MotionSettings(dg.Config):
    """Sampling of the motion; see ``SamplingOptions``. Empty means the model's own default."""

    num_steps: int | None = None
    guidance_scale: float | None = None
    seed: int = 0

    def options(self) -> SamplingOptions:
        """The settings, checked."""
        return SamplingOptions(num_steps=self.num_steps, guidance_scale=self.guidance_scale, seed=self.seed)


class VideoSettings(dg.Config):
    """How frames are made of motion."""

    stitch: bool = True
    batch_size: int | None = None


def motion_file(motion: Tensor, packet: Packet, bundle: ModelBundle, options: SamplingOptions) -> TensorFile:
    """Motion (T, 265) as it is stored, with what the render has to compare."""
    header = {
        "kind": "driving_motion",
        "stage_version": MOTION_VERSION,
        "generation": packet.generation,
        "seed": options.seed,
        "lip_points": list(bundle.config.lip_points),
    }
    return TensorFile({"motion": motion.cpu()}, header)


def video_result(report: RenderReport) -> dg.MaterializeResult[None]:
    """A finished video with its fingerprint and what a person wants to see of it."""
    return dg.MaterializeResult(
        data_version=dg.DataVersion(content_hash(report.output)),
        metadata={
            "path": dg.MetadataValue.path(str(report.output)),
            "bytes": report.output.stat().st_size,
            "num_frames": report.num_frames,
            "seconds": round(report.seconds["total"], 3),
            "seconds_by_stage": {stage: round(seconds, 3) for stage, seconds in report.seconds.items()},
            "frames_a_second": round(report.fps, 2),
            "device": f"{report.device}, {report.mode}",
            "warnings": list(report.warnings),
            "preview": show_picture(video_picture(report.output, report.num_frames)),
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
    features, options = speech_features.tensors["features"], config.options()
    context.add_output_metadata({"seed": options.seed})
    with timed(context), warm.busy:
        motion = sample_motion(warm.bundle, features, packet_meta, options, warm.device, step=warm.guided_step)
    return motion_file(motion, packet_meta, warm.bundle, options)


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
    require_matching_motion(packet_meta, driving_motion, avatar_id, speech_id)
    sampling = SamplingOptions(seed=driving_motion.header["seed"])
    report = render_video(
        packet_meta.folder,
        storage.layout.speech(speech_id),
        storage.layout.video(avatar_id, speech_id),
        options=engine.options(sampling, sink.options, stitch=config.stitch, batch_size=config.batch_size),
        engine=engine.engine(storage.layout.recipe(avatar_id).model),
        motion=driving_motion.tensors["motion"],
        on_progress=partial(report_stage, "talking_video"),
    )
    return video_result(report)


RENDER_ASSETS = [driving_motion, talking_video]
