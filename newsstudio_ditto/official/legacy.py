"""An old monolithic pickle becomes a packet, frame by frame, without ever lying in memory."""

import logging
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from newsstudio_ditto.config import PacketOptions, validate_slug
from newsstudio_ditto.errors import PacketFormatError, PacketModelError
from newsstudio_ditto.maths.affine import invert_affine
from newsstudio_ditto.networks.bundle import load_bundle
from newsstudio_ditto.networks.manifest import BundleManifest
from newsstudio_ditto.official.install import BUNDLE_NAME
from newsstudio_ditto.official.legacy_source import HINT, LegacySource, open_legacy
from newsstudio_ditto.official.packaged_crop import OFFICIAL_CROP, official_crop
from newsstudio_ditto.packet.fingerprint import generation_of, hash_file
from newsstudio_ditto.packet.meta import MetaFields
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.writer import PartStream, write_part
from newsstudio_ditto.progress import OnStage, listening
from newsstudio_ditto.stages import grids, keypoints, masks
from newsstudio_ditto.stages.chunks import Chunk, chunk_length, counted, spans
from newsstudio_ditto.stages.face_track import FaceTrack, choose_window
from newsstudio_ditto.storage import AvatarRecipe, StorageLayout
from newsstudio_ditto.units import FRAME_RATE_HZ

log = logging.getLogger(__name__)

VERSION = "legacy.1"


@dataclass(frozen=True)
class LegacyImport:
    """What :func:`import_legacy` did.

    Args:
        folder: the published packet.
        num_frames: source frames.
        pickle_bytes: size of the pickle.
        packet_bytes: size of the six files.
        pickle_open_seconds: time that opening the pickle takes: walking it and copying every array into memory once,
            which unpickling has to do at least; the arrays were not kept.
        packet_open_seconds: time that opening the packet takes.
        import_seconds: time of the whole import.
        was_smoothed: whether the pickle held smoothed motion; if not, it was smoothed now.
        ignored: keys of the pickle that are no part of its layout.
    """

    folder: Path
    num_frames: int
    pickle_bytes: int
    packet_bytes: int
    pickle_open_seconds: float
    packet_open_seconds: float
    import_seconds: float
    was_smoothed: bool
    ignored: tuple[str, ...]

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"folder": str(self.folder), "ignored": list(self.ignored)}


def import_legacy(
    layout: StorageLayout,
    source: Path,
    avatar_id: str,
    *,
    model: str = BUNDLE_NAME,
    options: PacketOptions | None = None,
    on_stage: OnStage | None = None,
) -> LegacyImport:
    """Turn a ``source_info`` pickle of the reference into a packet.

    The pickle is mapped and read frame by frame; memory does not grow with it. Its pictures, volumes, crops and eyes
    are taken as they are; volumes become float16; grids and masks are made from the crops. Motion of a clip is
    smoothed unless it was smoothed before it was saved.

    Args:
        layout: where packets live.
        source: the pickle.
        avatar_id: a slug; an older packet of that name is replaced.
        model: bundle whose extractors made the pickle.
        options: paste window, feather and smoothing are used.
        on_stage: called with (part, frames done, frames in all).

    Raises:
        PacketFormatError: the pickle is damaged, of another layout, or asks for code to be run.
        PacketModelError: its volumes are not of the size that the bundle's networks have.
        BundleError: there is no such bundle.
    """
    started = time.perf_counter()
    validate_slug(avatar_id)
    options, manifest = options or PacketOptions(), load_bundle(model).manifest
    legacy = open_legacy(source)
    _expect_fit(legacy, manifest, model)
    read_seconds = _time_reading(source)
    # The pickle brings its own crop; the options' stand-in for it belongs to the generation as well.
    options = replace(options, crop=options.crop or official_crop(manifest.config))
    source_hash = hash_file(source)
    generation = generation_of(source_hash, options, manifest.fingerprint)
    track = _track(legacy, options, generation)
    store = AvatarStore(layout.root)
    with listening(on_stage or _nobody):
        for stream in _streams(legacy, track, options):
            write_part(store.bench(avatar_id), stream, generation=generation, avatar_id=avatar_id)
    known = _meta(legacy, track, options, source_hash, manifest.fingerprint, model)
    packet = store.seal(avatar_id, known)
    layout.keep_recipe(avatar_id, AvatarRecipe(_portable(model), options))
    report = _report(legacy, packet, store, read_seconds, time.perf_counter() - started)
    log.info("imported a legacy pickle", extra={"avatar_id": avatar_id, "num_frames": report.num_frames})
    return report


def _nobody(_stage: str, _done: int, _total: int) -> None:
    return


def _portable(model: str) -> str:
    return str(Path(model).absolute()) if Path(model).is_dir() else model


def _expect_fit(legacy: LegacySource, manifest: BundleManifest, model: str) -> None:
    config = manifest.config.networks.appearance
    wanted = (config.volume_channels, config.volume_depth, config.volume_px, config.volume_px)
    if legacy.volume_shape != wanted:
        raise PacketModelError(
            f"{legacy.path}: f_s_lst has volumes of {legacy.volume_shape}, bundle {model!r} makes {wanted}",
            "give the bundle that made the pickle with --model",
        )
    if any(side % 2 for side in legacy.frame_size):
        raise PacketFormatError(
            f"{legacy.path}: img_rgb_lst: expected pictures with even sides, got {legacy.frame_size}", HINT
        )


def _time_reading(source: Path) -> float:
    started = time.perf_counter()
    for array in open_legacy(source).arrays():
        array.view().copy()
    return time.perf_counter() - started


def _track(legacy: LegacySource, options: PacketOptions, generation: str) -> FaceTrack:
    count = legacy.num_frames
    crop_to_original = legacy.crop_to_original
    return FaceTrack(
        landmarks=np.zeros((count, 478, 3), np.float32),  # the pickle has none, and neither grids nor masks need any
        valid=np.ones(count, np.bool_),
        original_to_crop=np.stack([invert_affine(matrix) for matrix in crop_to_original]).astype(np.float32),
        crop_to_original=crop_to_original,
        window=choose_window(crop_to_original, legacy.frame_size, options),
        crop=options.crop or OFFICIAL_CROP,
        feather=options.feather,
        generation=generation,
    )


def _streams(legacy: LegacySource, track: FaceTrack, options: PacketOptions) -> Iterator[PartStream]:
    count = legacy.num_frames
    height, width = legacy.frame_size
    yield PartStream(
        "frames",
        {"frames": (count, 3, height, width)},
        counted("frames", _pictures(legacy), count),
        f"{VERSION} frames",
        {"is_still": count == 1},
    )
    yield PartStream(
        "f_s",
        {"f_s": (count, *legacy.volume_shape)},
        counted("f_s", _volumes(legacy), count),
        f"{VERSION} f_s",
    )
    rows = {name: torch.from_numpy(values) for name, values in legacy.motion.items()}
    width_frames = 1 if legacy.is_smoothed else options.smoothing_frames
    yield keypoints.stream_motion(rows, width_frames, sc=torch.from_numpy(legacy.sc))
    yield grids.stream_grids(track)
    yield masks.stream_masks(track)


def _pictures(legacy: LegacySource) -> Iterator[Chunk]:
    for span in spans(legacy.num_frames, chunk_length(legacy.pictures[0].num_bytes)):
        stacked = np.stack([picture.view().transpose(2, 0, 1) for picture in legacy.pictures[span]])
        yield {"frames": torch.from_numpy(np.ascontiguousarray(stacked))}


def _volumes(legacy: LegacySource) -> Iterator[Chunk]:
    for span in spans(legacy.num_frames, chunk_length(legacy.volumes[0].num_bytes)):
        stacked = np.stack([volume.view()[0].astype(np.float16) for volume in legacy.volumes[span]])
        yield {"f_s": torch.from_numpy(stacked)}


def _meta(
    legacy: LegacySource, track: FaceTrack, options: PacketOptions, source_hash: str, fingerprint: str, model: str
) -> MetaFields:
    return MetaFields(
        generation=track.generation,
        stage_version=VERSION,
        eye_open=torch.from_numpy(legacy.eye_open),
        eye_ball=torch.from_numpy(legacy.eye_ball),
        sc=torch.from_numpy(legacy.sc),
        crop_to_original=torch.from_numpy(track.crop_to_original),
        face_valid=torch.from_numpy(track.valid),
        paste_window=track.window,
        frame_size=FrameSize(*legacy.frame_size),
        window=options.window,
        fps_rule="still" if legacy.num_frames == 1 else f"frames as imported, shown at {FRAME_RATE_HZ} a second",
        colour="RGB as imported",
        crop=track.crop,
        source_hash=source_hash,
        model_fingerprint=fingerprint,
        options={
            "smoothing_frames": options.smoothing_frames,
            "feather": options.feather,
            "model": _portable(model),
            "source_name": legacy.path.name,
            "imported_from": "source_info pickle",
        },
    )


def _report(
    legacy: LegacySource, packet: Packet, store: AvatarStore, read_seconds: float, seconds: float
) -> LegacyImport:
    started = time.perf_counter()
    store.open(packet.avatar_id)
    return LegacyImport(
        folder=store.published(packet.avatar_id),
        num_frames=legacy.num_frames,
        pickle_bytes=legacy.path.stat().st_size,
        packet_bytes=packet.num_bytes,
        pickle_open_seconds=read_seconds,
        packet_open_seconds=time.perf_counter() - started,
        import_seconds=seconds,
        was_smoothed=legacy.is_smoothed,
        ignored=legacy.ignored,
    )
