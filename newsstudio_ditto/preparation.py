"""From an anchor to a sealed packet: what has to be made, which of it is stale, and making it without Dagster."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.errors import MediaError, PacketError, PacketMixedError
from newsstudio_ditto.exclusion import hold_bench
from newsstudio_ditto.media.probe import probe, require_picture
from newsstudio_ditto.networks.bundle import ModelBundle, find_bundle, load_bundle
from newsstudio_ditto.networks.manifest import MANIFEST_NAME
from newsstudio_ditto.networks.places import bundle_folders
from newsstudio_ditto.official.tracking import follow_face
from newsstudio_ditto.packet.files import reporting_refusals
from newsstudio_ditto.packet.fingerprint import generation_of, hash_file
from newsstudio_ditto.packet.reader import Packet, Part, open_part
from newsstudio_ditto.packet.spec import PARTS, TENSOR_PARTS, FrameSize, rebuild_hint
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.writer import PartStream, write_part
from newsstudio_ditto.progress import OnStage, listening
from newsstudio_ditto.remarks import face_facts, fit_facts, packet_remarks
from newsstudio_ditto.stages import appearance, face_track, frames, grids, keypoints, masks, meta
from newsstudio_ditto.stages.face_track import FaceTrack
from newsstudio_ditto.stages.tensor_file import TensorFile, open_tensors, save_tensors
from newsstudio_ditto.storage import DEFAULT_MODEL, AvatarRecipe, StorageLayout

log = logging.getLogger(__name__)

VERSIONS = {
    "frames": frames.VERSION,
    "face_track": face_track.VERSION,
    "f_s": appearance.VERSION,
    "keypoints": keypoints.VERSION,
    "grids": grids.VERSION,
    "masks": masks.VERSION,
    "meta": meta.VERSION,
}
"""Stage version by step, in the order in which they run. Each names the versions that it rests on."""


@dataclass(frozen=True)
class PacketPlan:
    """What a packet has to be made of.

    Args:
        avatar_id: a slug.
        anchor: the clip or still.
        source_hash: sha256 of its bytes.
        recipe: model and options.
        model_fingerprint: of the recipe's model.
        generation: fingerprint of all of the above, which every file carries.
    """

    avatar_id: str
    anchor: Path
    source_hash: str
    recipe: AvatarRecipe
    model_fingerprint: str
    generation: str


def content_hash(path: Path) -> str:
    """The sha256 of a file, read again only when it is another file, or its size or time of change has moved."""
    status = path.stat()
    return _hash_once(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@lru_cache(maxsize=4096)
def _hash_once(path: Path, *_stamp: int) -> str:
    return hash_file(path)


def model_fingerprint(model: str) -> str:
    """Fingerprint of a model bundle; its weights are not read, and its manifest only when that has moved."""
    status = (find_bundle(model) / MANIFEST_NAME).stat()
    return _fingerprint_once(model, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=16)
def _fingerprint_once(model: str, _size: int, _changed_ns: int) -> str:
    return load_bundle(model, device=torch.device("cpu"), dtype=torch.float32).fingerprint


def portable_model(model: str) -> str:
    """A model's name if it goes by one, else its absolute folder: a recipe is read from anywhere."""
    folder = find_bundle(model).absolute()
    return model if folder in bundle_folders() and folder.name == model else str(folder)


def plan_packet(layout: StorageLayout, avatar_id: str, *, source_hash: str | None = None) -> PacketPlan:
    """Plan an avatar's packet as its anchor and its recipe say now.

    Args:
        layout: where everything lives.
        avatar_id: a slug.
        source_hash: sha256 of the anchor, where the caller knows it; None reads the file.

    Raises:
        MediaError: no anchor, or several.
        BundleError: the recipe's model is not there.
    """
    anchor, recipe = layout.anchor(avatar_id), layout.recipe(avatar_id)
    source_hash, fingerprint = source_hash or content_hash(anchor), model_fingerprint(recipe.model)
    generation = generation_of(source_hash, recipe.options, fingerprint)
    return PacketPlan(avatar_id, anchor, source_hash, recipe, fingerprint, generation)


@reporting_refusals()
def plan_anchor(layout: StorageLayout, anchor: Path, avatar_id: str, recipe: AvatarRecipe) -> PacketPlan:
    """Take an anchor and a recipe into the storage, and plan the packet, while nobody prepares that avatar.

    Raises:
        MediaError: the anchor cannot be read, or holds no picture.
        PacketError: the avatar is being prepared; its anchor and its recipe stay.
    """
    with hold_bench(layout, avatar_id):
        return _take(layout, anchor, avatar_id, recipe)


def _take(layout: StorageLayout, anchor: Path, avatar_id: str, recipe: AvatarRecipe) -> PacketPlan:
    AvatarStore(layout.root).tidy(avatar_id)  # of a run that was killed; nobody else works on it now
    take_anchor(layout, anchor, avatar_id)
    layout.keep_recipe(avatar_id, recipe)
    return plan_packet(layout, avatar_id)


def take_anchor(layout: StorageLayout, anchor: Path, avatar_id: str) -> None:
    """Put an anchor into the storage in place of an older one, once it is sure that it holds a picture.

    Raises:
        MediaError: the file cannot be read, or holds no picture; the older anchor stays.
    """
    require_picture(probe(anchor))
    layout.place_anchor(anchor, avatar_id)


def wanted_version(plan: PacketPlan) -> str:
    """Hash of everything that a packet of this plan rests on: source, options, model, and the code of every stage."""
    return sha256("\n".join([plan.generation, *VERSIONS.values()]).encode()).hexdigest()


def track_path(store: AvatarStore, avatar_id: str) -> Path:
    """File of an avatar's face track, beside the parts on the bench."""
    return store.bench(avatar_id) / "track.pt"


def open_track(store: AvatarStore, avatar_id: str) -> FaceTrack:
    """The face track on the bench.

    Raises:
        PacketMissingError: none yet.
        PacketFormatError: damaged.
    """
    return FaceTrack.from_tensors(_track_file(store, avatar_id))


def _track_file(store: AvatarStore, avatar_id: str) -> TensorFile:
    return open_tensors(track_path(store, avatar_id), kind=face_track.KIND, remedy=rebuild_hint(avatar_id))


def open_bench_part(store: AvatarStore, avatar_id: str, part: str) -> Part:
    """A part on the bench, mapped read-only.

    Raises:
        PacketMissingError: none yet.
        PacketFormatError: damaged.
    """
    return open_part(store.bench(avatar_id) / PARTS[part].file_name, part)


def stale_steps(store: AvatarStore, plan: PacketPlan) -> list[str]:
    """Steps that have to run, in order: absent, damaged, of another generation or stage version, or resting on such.

    Reads headers only. A stage version names the versions that it rests on, so a step that was left behind by an
    interrupted run is found as well.
    """
    stale = [step for step in ("frames", *TENSOR_PARTS) if not _is_fresh(store, plan, step)]
    if not _is_track_fresh(store, plan):
        stale.append("face_track")
    if "frames" in stale:
        stale += VERSIONS
    elif "face_track" in stale:
        stale += ("f_s", "keypoints", "grids", "masks")
    if stale or not _is_sealed(store, plan):
        stale.append("meta")
    return [step for step in VERSIONS if step in stale]


def _is_fresh(store: AvatarStore, plan: PacketPlan, part: str) -> bool:
    record = store.bench_record(plan.avatar_id, part)
    return record is not None and (record.generation, record.stage_version) == (plan.generation, VERSIONS[part])


def _is_track_fresh(store: AvatarStore, plan: PacketPlan) -> bool:
    try:
        header = _track_file(store, plan.avatar_id).header
    except PacketError as error:
        log.info("no usable face track", extra={"reason": error.what})
        return False
    return (header["generation"], header["stage_version"]) == (plan.generation, face_track.VERSION)


def _is_sealed(store: AvatarStore, plan: PacketPlan) -> bool:
    try:
        packet = store.open(plan.avatar_id)
        require_sealed(store, plan.avatar_id, packet)
    except PacketError as error:
        log.info("no usable packet", extra={"reason": error.what})
        return False
    return (packet.generation, packet.meta.stage_version) == (plan.generation, meta.VERSION)


def require_sealed(store: AvatarStore, avatar_id: str, packet: Packet) -> None:
    """Refuse a published packet when parts on the bench have moved on since its seal. An empty bench says nothing.

    Raises:
        PacketMixedError: names the parts.
    """
    records = {part: store.bench_record(avatar_id, part) for part in TENSOR_PARTS}
    moved = [
        part
        for part, record in records.items()
        if record is not None
        and (record.generation, record.checksums) != (packet.generation, packet.meta.parts[part].checksums)
    ]
    if moved:
        raise PacketMixedError(
            f"{', '.join(moved)} of {avatar_id!r} were made again after the packet was sealed",
            f"make the rest and seal it: newsstudio-ditto preprocess CLIP --avatar-id {avatar_id}",
        )


def seal_packet(store: AvatarStore, plan: PacketPlan) -> Packet:
    """Describe the source, seal the five parts on the bench, and publish the packet.

    Raises:
        PacketError: a part is missing, or they do not belong together.
    """
    track = open_track(store, plan.avatar_id)
    motion, pictures = (open_bench_part(store, plan.avatar_id, part) for part in ("keypoints", "frames"))
    sc: Any = motion.header.extra["sc"]
    known = meta.describe_source(
        track,
        plan.recipe.options,
        sc=sc,
        frame_size=FrameSize(*pictures.tensors["frames"].shape[-2:]),
        source_hash=plan.source_hash,
        model_fingerprint=plan.model_fingerprint,
        facts={
            "blend": track.blend,
            "model": plan.recipe.model,
            "source_name": plan.anchor.name,
            **face_facts(track),
            **fit_facts(motion.header.extra),
        },
    )
    return store.seal(plan.avatar_id, known)


@dataclass(frozen=True)
class PacketBuild:
    """What :func:`build_packet` did.

    Args:
        packet: published and open.
        made: steps that ran, in order; empty when everything was fresh.
        seconds: wall time by step that ran.
    """

    packet: Packet
    made: tuple[str, ...]
    seconds: dict[str, float]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may look wrong when this packet is rendered."""
        return packet_remarks(self.packet)


@reporting_refusals()
def build_packet(
    layout: StorageLayout,
    anchor: Path,
    avatar_id: str,
    *,
    options: PacketOptions | None = None,
    model: str = DEFAULT_MODEL,
    bundle: ModelBundle | None = None,
    force: bool = False,
    on_stage: OnStage | None = None,
) -> PacketBuild:
    """Prepare an anchor in this process, without Dagster; what is fresh is kept.

    Args:
        layout: where everything lives.
        anchor: clip or still; it is linked into the storage.
        avatar_id: a slug.
        options: what the packet contains; None takes the defaults.
        model: name or folder of the model bundle.
        bundle: the same, loaded on the device to use; None loads it on the CPU.
        force: make every file again.
        on_stage: called with (step, frames done, frames in all).

    Raises:
        MediaError: the anchor cannot be read.
        NoFaceError: no frame shows a face.
        FaceError: the face is too small, or turned too far.
        PacketError: the avatar is being prepared by somebody else; nothing of it was changed.
        StorageError: the storage folder is full, read-only or forbidden.
    """
    recipe, store = AvatarRecipe(portable_model(model), options or PacketOptions()), AvatarStore(layout.root)
    with hold_bench(layout, avatar_id):
        plan = _take(layout, anchor, avatar_id, recipe)
        steps = list(VERSIONS) if force else stale_steps(store, plan)
        if not steps:
            return PacketBuild(store.open(avatar_id), (), {})
        bundle = bundle or load_bundle(model, device=torch.device("cpu"), dtype=torch.float32)
        seconds = {}
        with listening(on_stage or _nobody):
            for step in steps:
                started = time.perf_counter()
                _run_step(step, store, plan, bundle)
                seconds[step] = time.perf_counter() - started
        return PacketBuild(store.open(avatar_id), tuple(steps), seconds)


def _nobody(_step: str, _done: int, _total: int) -> None:
    return


def _run_step(step: str, store: AvatarStore, plan: PacketPlan, bundle: ModelBundle) -> None:
    if step == "meta":
        seal_packet(store, plan)
    elif step == "face_track":
        pictures = open_bench_part(store, plan.avatar_id, "frames").tensors["frames"]
        track = follow_face(pictures, plan.recipe.options, bundle, plan.generation)
        save_tensors(track_path(store, plan.avatar_id), track.to_tensors())
    else:
        stream = _stream(step, store, plan, bundle)
        write_part(store.bench(plan.avatar_id), stream, generation=plan.generation, avatar_id=plan.avatar_id)


def stream_source(plan: PacketPlan) -> PartStream:
    """The frames of a plan's anchor, as :func:`~newsstudio_ditto.stages.frames.stream_frames`.

    Raises:
        MediaError: as that does; while the chunks are taken, also when the anchor is replaced meanwhile.
    """
    stream = frames.stream_frames(plan.anchor, plan.recipe.options)
    return replace(stream, chunks=_unchanged(stream.chunks, plan))


def _unchanged(chunks: Iterable[Mapping[str, Tensor]], plan: PacketPlan) -> Iterator[Mapping[str, Tensor]]:
    yield from chunks
    if content_hash(plan.anchor) != plan.source_hash:
        raise MediaError(f"{plan.anchor} was replaced while it was prepared", "prepare it again")


def _stream(step: str, store: AvatarStore, plan: PacketPlan, bundle: ModelBundle) -> PartStream:
    if step == "frames":
        return stream_source(plan)
    track = open_track(store, plan.avatar_id)
    if step == "grids":
        return grids.stream_grids(track)
    if step == "masks":
        return masks.stream_masks(track)
    pictures = open_bench_part(store, plan.avatar_id, "frames").tensors["frames"]
    if step == "f_s":
        return appearance.stream_appearance(pictures, track, bundle)
    return keypoints.stream_keypoints(pictures, track, bundle, plan.recipe.options)
