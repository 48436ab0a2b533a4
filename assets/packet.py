"""The six files of a packet, and the face track that four of them share. One asset each, one partition per avatar.

All of them ask for the bench, which a run holds from beginning to end: no two runs work on one avatar at a time.
"""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg
from torch import Tensor

from newsstudio_ditto.official.tracking import follow_face
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import PARTS, TENSOR_PARTS
from newsstudio_ditto.packet.writer import PartStream
from newsstudio_ditto.preparation import seal_packet, stream_source
from newsstudio_ditto.stages import appearance, frames, grids, keypoints, masks, meta
from newsstudio_ditto.stages import face_track as tracking
from newsstudio_ditto.stages.face_track import FaceTrack
from newsstudio_ditto.stages.tensor_file import TensorFile
from resources import BenchResource, EngineResource
from resources.partitions import AVATARS, avatar_of
from resources.reporting import timed

GPU_POOL = "gpu"
OWNERS = ["team:newsstudio"]

RECIPE = dg.AssetKey("avatar_recipe")

_Body = Callable[..., Any]
_FRAMES_MAP = {"frames_map": dg.AssetIn(key=["packet", "frames"])}


def describe(part: str) -> str:
    """Text of a packet asset, from the packet's own spec."""
    rows = "\n".join(f"- `{tensor.name}`: {tensor}, {tensor.content}" for tensor in PARTS[part])
    return f"`{PARTS[part].file_name}` of the packet.\n\n{rows}"


def step_key(step: str) -> dg.AssetKey:
    """Asset of a preparation step."""
    return dg.AssetKey(step) if step == "face_track" else dg.AssetKey(["packet", step])


def packet_asset(
    part: str,
    code_version: str,
    kinds: set[str],
    *,
    ins: Mapping[str, dg.AssetIn] | None = None,
    deps: list[dg.AssetKey] | None = None,
    pool: str | None = None,
) -> Callable[[_Body], dg.AssetsDefinition]:
    """An asset ``packet/{part}``, stored by the packet's IO manager."""
    return dg.asset(
        key=["packet", part],
        ins=ins or {},
        deps=[RECIPE, *(deps or [])],
        partitions_def=AVATARS,
        group_name="packet",
        io_manager_key="packet_io",
        code_version=code_version,
        description=describe(part),
        owners=OWNERS,
        kinds=kinds,
        pool=pool,
        tags={"stage": "preprocess"},
    )


@packet_asset("frames", frames.VERSION, {"ffmpeg", "torch"}, deps=[dg.AssetKey("anchor_video")])
def packet_frames(context: dg.AssetExecutionContext, bench: BenchResource) -> PartStream:
    """Decode the anchor."""
    return stream_source(bench.storage.plan(avatar_of(context.partition_key)))


@dg.asset(
    ins=_FRAMES_MAP,
    deps=[RECIPE],
    partitions_def=AVATARS,
    group_name="packet",
    io_manager_key="tensor_io",
    code_version=tracking.VERSION,
    description="Landmarks, crop geometry and paste window of the presenter's face in every frame.",
    owners=OWNERS,
    kinds={"onnx", "numpy"},
    tags={"stage": "preprocess"},
)
def face_track(
    context: dg.AssetExecutionContext, bench: BenchResource, engine: EngineResource, frames_map: Tensor
) -> TensorFile:
    """Follow the face."""
    plan = bench.storage.plan(avatar_of(context.partition_key))
    bundle = engine.bundle(plan.recipe.model)
    with timed(context):
        return follow_face(frames_map, plan.recipe.options, bundle, plan.generation).to_tensors()


@packet_asset("f_s", appearance.VERSION, {"torch"}, ins=_FRAMES_MAP, pool=GPU_POOL)
def packet_f_s(
    context: dg.AssetExecutionContext,
    bench: BenchResource,
    engine: EngineResource,
    frames_map: Tensor,
    face_track: TensorFile,
) -> PartStream:
    """Extract the appearance."""
    recipe = bench.storage.plan(avatar_of(context.partition_key)).recipe
    track = FaceTrack.from_tensors(face_track)
    return appearance.stream_appearance(frames_map, track, engine.bundle(recipe.model))


@packet_asset("keypoints", keypoints.VERSION, {"torch"}, ins=_FRAMES_MAP, pool=GPU_POOL)
def packet_keypoints(
    context: dg.AssetExecutionContext,
    bench: BenchResource,
    engine: EngineResource,
    frames_map: Tensor,
    face_track: TensorFile,
) -> PartStream:
    """Extract the keypoints."""
    recipe = bench.storage.plan(avatar_of(context.partition_key)).recipe
    track = FaceTrack.from_tensors(face_track)
    return keypoints.stream_keypoints(frames_map, track, engine.bundle(recipe.model), recipe.options)


@packet_asset("grids", grids.VERSION, {"numpy"})
def packet_grids(bench: BenchResource, face_track: TensorFile) -> PartStream:
    """Build the paste grids."""
    return grids.stream_grids(FaceTrack.from_tensors(face_track))


@packet_asset("masks", masks.VERSION, {"numpy"})
def packet_masks(bench: BenchResource, face_track: TensorFile) -> PartStream:
    """Warp the blend masks."""
    return masks.stream_masks(FaceTrack.from_tensors(face_track))


@packet_asset(
    "meta",
    meta.VERSION,
    {"torch"},
    deps=[dg.AssetKey("face_track"), *(dg.AssetKey(["packet", part]) for part in TENSOR_PARTS)],
)
def packet_meta(context: dg.AssetExecutionContext, bench: BenchResource) -> Packet:
    """Seal and publish."""
    with timed(context):
        return seal_packet(bench.storage.avatars, bench.storage.plan(avatar_of(context.partition_key)))


PACKET_ASSETS = [
    packet_frames,
    face_track,
    packet_f_s,
    packet_keypoints,
    packet_grids,
    packet_masks,
    packet_meta,
]
