"""Opening packets: the six memory maps and whether they belong together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from newsstudio_ditto.errors import PacketMissingError, PacketMixedError, PacketModelError
from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.packet.files import real_path
from newsstudio_ditto.packet.mapped import unreadable
from newsstudio_ditto.packet.meta import PacketMeta, from_plain
from newsstudio_ditto.packet.part_header import PartHeader
from newsstudio_ditto.packet.part_reader import Part, open_part
from newsstudio_ditto.packet.spec import (
    FRAME_AXIS,
    META,
    PART_NAMES,
    PARTS,
    TENSOR_PARTS,
    Bindings,
    FrameSize,
    printable,
    rebuild_hint,
)

__all__ = ["Packet", "Part", "PartHeader", "expect_consistent", "expect_same_generation", "open_packet", "open_part"]

_MAX_TRIES = 5


@dataclass(frozen=True)
class Packet:
    """A complete packet, mapped.

    Args:
        folder: where its files lie, links resolved.
        meta: the sixth file.
        parts: all six files by part name.
    """

    folder: Path
    meta: PacketMeta
    parts: Mapping[str, Part]

    @property
    def appearance_volumes(self) -> Tensor:
        """(N, C, D, h, w) float16."""
        return self.parts["f_s"].tensors["f_s"]

    @property
    def keypoints(self) -> dict[str, Tensor]:
        """Keypoints by name: ``kp``, ``pitch``, ``yaw``, ``roll``, ``t``, ``exp``, ``scale``, ``x_s``; float32."""
        return self.parts["keypoints"].tensors

    @property
    def grids(self) -> Tensor:
        """(N, h, w, 2) float32, where each pixel of the paste window reads the crop."""
        return self.parts["grids"].tensors["grids"]

    @property
    def masks(self) -> Tensor:
        """(N, 1, h, w) uint8, alpha times 255 over the paste window."""
        return self.parts["masks"].tensors["masks"]

    @property
    def frames(self) -> Tensor:
        """(N, 3, H, W) uint8, planar RGB."""
        return self.parts["frames"].tensors["frames"]

    @property
    def avatar_id(self) -> str:
        """Who it is of."""
        return self.meta.avatar_id

    @property
    def generation(self) -> str:
        """Fingerprint of source, options and model, the same in all six files."""
        return self.meta.generation

    @property
    def num_frames(self) -> int:
        """N, the number of source frames."""
        return self.meta.num_frames

    @property
    def model_fingerprint(self) -> str:
        """Fingerprint of the bundle that made it."""
        return self.meta.model_fingerprint

    @property
    def paste_window(self) -> PasteWindow:
        """Rectangle of the frame that grids and masks cover, pixels."""
        return self.meta.paste_window

    @property
    def frame_size(self) -> FrameSize:
        """Height and width of the frames, pixels."""
        return self.meta.frame_size

    @property
    def num_bytes(self) -> int:
        """Size of the six files together."""
        return sum(part.bytes for part in self.parts.values())

    def expect_unchanged(self) -> None:
        """Make sure that no file was cut or rewritten in place since the packet was opened; removed ones are no matter.

        Cheap enough to ask before every batch of frames that is read.

        Raises:
            PacketFormatError: one was.
        """
        for part in self.parts.values():
            part.expect_unchanged()

    def expect_model(self, fingerprint: str) -> None:
        """Raise :class:`PacketModelError` unless the packet was made by the bundle of this fingerprint."""
        if self.model_fingerprint != fingerprint:
            raise PacketModelError(
                f"packet {self.avatar_id!r} was made for model {printable(self.model_fingerprint[:12])}, "
                f"the one loaded is {fingerprint[:12]}",
                rebuild_hint(self.avatar_id),
            )


def open_packet(folder: Path) -> Packet:
    """Open all six files of a packet.

    Checked: presence, container, header, format version, dtypes and shapes of every file and across files, one
    generation and one avatar throughout, the seal of ``meta.pt`` over the other five (sizes, dtypes, shapes, recorded
    checksums), and the paste window. Not checked: the bytes of the tensors; see ``verify_packet``.

    Args:
        folder: the packet, or a link to it. If the link is switched meanwhile, the newer packet is opened.

    Raises:
        PacketMissingError: no packet, or some of its files are absent.
        PacketFormatError: a file is damaged, or is not what its spec says.
        PacketMixedError: files that do not belong together.
    """
    for _ in range(_MAX_TRIES):
        target = real_path(folder)
        try:
            return _open_set(target)
        except PacketMissingError:
            if real_path(folder) == target:
                raise
    raise PacketMissingError(f"{folder} is replaced faster than it can be opened", "try again")


def _open_set(folder: Path) -> Packet:
    try:
        is_folder = folder.is_dir()
    except OSError as error:
        raise unreadable(folder, error) from error
    if not is_folder:
        raise PacketMissingError(f"no packet at {folder}", rebuild_hint(folder.name))
    try:
        parts = {name: open_part(folder / PARTS[name].file_name, name) for name in PART_NAMES}
    except PacketMissingError as error:
        missing = [spec.file_name for spec in PARTS.values() if not os.path.lexists(folder / spec.file_name)]
        raise PacketMissingError(f"packet {folder} lacks {', '.join(missing)}", rebuild_hint()) from error
    expect_same_generation(parts)
    part = parts[META.name]
    header = part.header
    meta = from_plain(
        header.extra,
        part.tensors,
        avatar_id=header.avatar_id,
        generation=header.generation,
        stage_version=header.stage_version,
        where=str(part.path),
    )
    _expect_seal(meta, parts)
    expect_consistent(meta, parts)
    return Packet(folder, meta, parts)


def expect_same_generation(parts: Mapping[str, Part]) -> None:
    """Raise :class:`PacketMixedError` unless all parts name one generation and one avatar."""
    for field in ("generation", "avatar_id"):
        values = {name: str(getattr(part.header, field)) for name, part in parts.items()}
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{name} {printable(value[:12])}" for name, value in values.items())
            raise PacketMixedError(
                f"{next(iter(parts.values())).path.parent}: {field}: expected one throughout, got {listed}",
                rebuild_hint(),
            )


def expect_consistent(meta: PacketMeta, parts: Mapping[str, Part]) -> None:
    """Check that every part agrees with the frame size, paste window and number of frames that ``meta`` names.

    Raises:
        PacketFormatError: otherwise.
    """
    window, frame = meta.paste_window, meta.frame_size
    known: Bindings = {
        FRAME_AXIS: meta.num_frames,
        "H": frame.height,
        "W": frame.width,
        "h": window.height,
        "w": window.width,
    }
    for name, part in parts.items():
        if any(known.get(axis, length) != length for axis, length in part.lengths.items()):
            PARTS[name].bind(part.shapes, str(part.path), known)


def _expect_seal(meta: PacketMeta, parts: Mapping[str, Part]) -> None:
    for name in TENSOR_PARTS:
        sealed, found = meta.parts[name], parts[name].seal()
        if sealed == found:
            continue
        for field in ("bytes", "dtypes", "shapes", "checksums", "stage_version"):
            expected, got = getattr(sealed, field), getattr(found, field)
            if expected != got:
                raise PacketMixedError(
                    f"{parts[name].path}: {field}: meta.pt has {printable(str(expected)[:200])}, "
                    f"the file {printable(str(got)[:200])}",
                    rebuild_hint(meta.avatar_id),
                )
