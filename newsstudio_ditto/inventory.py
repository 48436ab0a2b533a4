"""What there is: packets, finished videos and model bundles, listed, described, verified and removed."""

from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from newsstudio_ditto.config import validate_slug
from newsstudio_ditto.errors import BundleError, PacketError, UnsupportedMediaError, UsageError
from newsstudio_ditto.faces.packaged import check_networks
from newsstudio_ditto.media.decode import decode_frames
from newsstudio_ditto.media.probe import probe, require_picture
from newsstudio_ditto.media.tags import read_provenance
from newsstudio_ditto.networks.bundle import check_bundle, find_bundle, load_bundle
from newsstudio_ditto.networks.manifest import MANIFEST_NAME
from newsstudio_ditto.networks.places import DEFAULT_BUNDLE, bundle_folders
from newsstudio_ditto.official.release import RELEASE_FILES, missing_files
from newsstudio_ditto.official.release_check import check_release
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import VerifyReport, verify_packet
from newsstudio_ditto.parity_picture import parity_picture, write_picture
from newsstudio_ditto.remarks import packet_remarks
from newsstudio_ditto.storage import StorageLayout


@dataclass(frozen=True)
class PacketRow:
    """One line of the list of avatars.

    Args:
        avatar_id: who.
        num_frames: source frames; 0 if the packet cannot be opened.
        frame_size: ``WxH`` in pixels.
        model: bundle that made it.
        num_bytes: size of the six files.
        generation: fingerprint of source, options and model.
        state: ``ready``, or why not.
    """

    avatar_id: str
    num_frames: int
    frame_size: str
    model: str
    num_bytes: int
    generation: str
    state: str

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def list_packets(layout: StorageLayout) -> list[PacketRow]:
    """All avatars, also those whose packet cannot be opened, with the reason."""
    store = AvatarStore(layout.root)
    return [_row(store, avatar_id) for avatar_id in store.list()]


def _row(store: AvatarStore, avatar_id: str) -> PacketRow:
    try:
        packet = store.open(avatar_id)
    except PacketError as error:
        return PacketRow(avatar_id, 0, "", "", 0, "", str(error))
    size = f"{packet.frame_size.width}x{packet.frame_size.height}"
    return PacketRow(
        avatar_id, packet.num_frames, size, _model_of(packet), packet.num_bytes, packet.generation, "ready"
    )


def _model_of(packet: Packet) -> str:
    return str(packet.meta.options.get("model") or packet.model_fingerprint[:12])


def describe_packet(layout: StorageLayout, avatar_id: str) -> dict[str, Any]:
    """Everything a packet says about itself, as plain values.

    Raises:
        PacketError: there is none, or it cannot be opened.
    """
    packet = AvatarStore(layout.root).open(validate_slug(avatar_id))
    meta = packet.meta
    return {
        "avatar_id": meta.avatar_id,
        "folder": str(packet.folder),
        "generation": packet.generation,
        "model": _model_of(packet),
        "model_fingerprint": packet.model_fingerprint,
        "source_hash": meta.source_hash,
        "num_frames": packet.num_frames,
        "frame_size": packet.frame_size._asdict(),
        "paste_window": packet.paste_window._asdict(),
        "frames_without_face": int((~meta.face_valid).sum()),
        "crop": asdict(meta.crop),
        "fps_rule": meta.fps_rule,
        "colour": meta.colour,
        "options": dict(meta.options),
        "remarks": list(packet_remarks(packet)),
        "files": {name: _describe_part(packet, name) for name in packet.parts},
    }


def _describe_part(packet: Packet, name: str) -> dict[str, Any]:
    part = packet.parts[name]
    shapes = {tensor: f"{part.dtypes[tensor]} {tuple(shape)}" for tensor, shape in part.shapes.items()}
    return {"bytes": part.bytes, "stage_version": part.header.stage_version, "tensors": shapes}


def describe_video(path: Path) -> dict[str, Any]:
    """What a rendered video says about its origin, and its plain facts.

    Raises:
        MediaError: the file is missing or not a video.
        UnsupportedMediaError: this product did not write it.
    """
    facts = probe(path)
    origin = read_provenance(path)
    if not origin:
        raise UnsupportedMediaError(f"{path} carries no record of its origin", "only videos rendered here have one")
    picture = require_picture(facts)
    return {
        "file": str(path),
        "origin": origin,
        "size": f"{picture.width_px}x{picture.height_px}",
        "fps": float(picture.fps) if picture.fps else None,
        "num_frames": picture.header_frames,
        "has_sound": facts.num_audio_streams > 0,
    }


def verify_avatar(
    layout: StorageLayout, avatar_id: str, *, against: Path | None = None, picture: Path | None = None
) -> VerifyReport:
    """Recompute every checksum of a packet, cross-check its parts, and compare its frames with a clip if one is given.

    Args:
        layout: where packets live.
        avatar_id: whose.
        against: the clip that the packet was made from.
        picture: PNG to write: the first frame that differs too much, or else the one that differs most, as packet
            frame, fresh frame and amplified difference. Nothing is written when no frame could be compared.

    Raises:
        UsageError: a picture without a clip, or not named ``.png``.
        PacketError: there is no packet of that name.
        MediaError: the clip cannot be read.
    """
    if picture is not None and (against is None or picture.suffix.lower() != ".png"):
        raise UsageError(f"picture {picture} cannot be made", "give a clip to compare with, and a name ending in .png")
    store = AvatarStore(layout.root)
    folder = store.published(avatar_id)
    if not folder.exists():
        store.open(avatar_id)  # says that it is missing; a damaged one becomes a finding below
    if against is None:
        return verify_packet(folder)
    recipe = layout.recipe(avatar_id).options
    stream = decode_frames(against, max_side_px=recipe.max_side_px, max_frames=recipe.max_frames)
    report = verify_packet(folder, source=stream.frames)
    shown = None if report.parity is None else report.parity.telling_frame
    if picture is not None and shown is not None:
        again = decode_frames(against, max_side_px=recipe.max_side_px, max_frames=recipe.max_frames)
        fresh = next(islice(again.frames, shown, None))
        stored = np.ascontiguousarray(open_packet(folder).frames[shown].permute(1, 2, 0).numpy())
        write_picture(parity_picture(stored, fresh), picture)
    return report


def remove_avatar(layout: StorageLayout, avatar_id: str) -> int:
    """Remove an avatar's packet and return the bytes that it took. Its clip and its videos stay.

    Raises:
        PacketMissingError: there is none.
    """
    return AvatarStore(layout.root).remove(validate_slug(avatar_id))


def list_models() -> list[dict[str, Any]]:
    """The bundles that have a name: those inside the package, then the user's own."""
    rows = []
    for folder in bundle_folders():
        bundle = load_bundle(folder)
        rows.append(
            {
                "name": folder.name,
                "fingerprint": bundle.fingerprint[:12],
                "bytes": sum(entry.bytes for entry in bundle.manifest.files.values()),
                "untrained parts": ", ".join(bundle.untrained) or "none",
                "folder": str(folder),
            }
        )
    return rows


FACE_NETWORKS = "faces"
PACKAGED_MODELS = (DEFAULT_BUNDLE, FACE_NETWORKS)


def check_model(model: str) -> list[str]:
    """Faults of a bundle, a folder of the official release, or the packaged face nets (``faces``), one sentence each.

    Raises:
        BundleError: there is no such bundle.
    """
    folder = Path(model)
    if model == FACE_NETWORKS:
        return check_networks()
    if folder.is_dir() and not (folder / MANIFEST_NAME).exists() and len(missing_files(folder)) < len(RELEASE_FILES):
        return check_release(folder)
    try:
        return check_bundle(find_bundle(model))
    except BundleError as error:
        if error.what.startswith("there is no"):
            raise
        return [error.what]
