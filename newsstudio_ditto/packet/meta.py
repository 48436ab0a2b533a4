"""The sixth file: motion conditioning, geometry, provenance, and the seal over the other five."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.errors import DittoError, PacketFormatError
from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.packet.spec import (
    META,
    PACKET_VERSION,
    TENSOR_PARTS,
    FrameSize,
    Shape,
    expect_names,
    printable,
    rebuild_hint,
)

Scalar = None | bool | int | float | str
_TENSOR_NAMES = tuple(tensor.name for tensor in META)


@dataclass(frozen=True)
class PartSeal:
    """What the seal says about one of the five files.

    Args:
        bytes: size of the file.
        dtypes: dtype name by tensor name.
        shapes: shape by tensor name.
        checksums: sha256 of the bytes of each tensor.
        stage_version: version of the stage that made it.
    """

    bytes: int
    dtypes: dict[str, str]
    shapes: dict[str, Shape]
    checksums: dict[str, str]
    stage_version: str


@dataclass(frozen=True, kw_only=True)
class MetaFields:
    """What the meta stage knows of a packet; the seal adds the rest.

    Args:
        generation: fingerprint that the five files must carry too.
        stage_version: version of the meta stage.
        eye_open: (N, 2) float32, openness of the left and right eye.
        eye_ball: (N, 6) float32, gaze directions.
        sc: (63,) float32, canonical keypoints of the first frame, unsmoothed.
        crop_to_original: (N, 3, 3) float32, crop pixels to frame pixels.
        face_valid: (N,) bool, whether the face was found.
        paste_window: rectangle of the frame that grids and masks cover, pixels; all four even.
        frame_size: height and width of the frames, pixels.
        window: how the window was chosen, ``tight`` or ``full``.
        fps_rule: how the source's frames were timed, in words.
        colour: colour space of the frames, in words.
        crop: crop geometry.
        source_hash: sha256 of the anchor.
        model_fingerprint: of the bundle that made the volumes and keypoints.
        options: other options and facts of the source worth keeping, such as size caps; scalars by name.
    """

    generation: str
    stage_version: str
    eye_open: Tensor
    eye_ball: Tensor
    sc: Tensor
    crop_to_original: Tensor
    face_valid: Tensor
    paste_window: PasteWindow
    frame_size: FrameSize
    window: str
    fps_rule: str
    colour: str
    crop: CropConfig
    source_hash: str
    model_fingerprint: str
    options: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def num_frames(self) -> int:
        """N, the number of source frames."""
        return len(self.face_valid)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of ``meta.pt`` by name."""
        return {name: getattr(self, name) for name in _TENSOR_NAMES}

    def expect_geometry(self, where: str) -> None:
        """Check that the paste window lies inside the frame, on even coordinates.

        Raises:
            PacketFormatError: otherwise.
        """
        top, left, height, width = self.paste_window
        frame = FrameSize(*self.frame_size)
        inside = min(top, left) >= 0 and top + height <= frame.height and left + width <= frame.width
        sizes = (top, left, height, width, *frame)
        if not inside or min(height, width) < 2 or any(size % 2 for size in sizes):
            raise PacketFormatError(
                f"{where}: paste_window: expected even numbers inside the frame of {frame.height} x {frame.width}, "
                f"got top {top}, left {left}, height {height}, width {width}",
                rebuild_hint(),
            )


@dataclass(frozen=True, kw_only=True)
class PacketMeta(MetaFields):
    """Everything ``meta.pt`` holds.

    Args:
        avatar_id: who the packet is of.
        parts: the seal over the five other files, by part name.
        packet_version: version of the format.
    """

    avatar_id: str
    parts: Mapping[str, PartSeal]
    packet_version: int = PACKET_VERSION

    @property
    def stage_versions(self) -> dict[str, str]:
        """Version of the stage that made each of the six files."""
        return {**{name: seal.stage_version for name, seal in self.parts.items()}, META.name: self.stage_version}


def seal_fields(known: MetaFields, *, avatar_id: str, parts: Mapping[str, PartSeal]) -> PacketMeta:
    """Add what only the seal knows to what the meta stage knows."""
    return PacketMeta(
        **{item.name: getattr(known, item.name) for item in fields(known)}, avatar_id=avatar_id, parts=parts
    )


_TEXTS = ("window", "fps_rule", "colour", "source_hash", "model_fingerprint")
_PLAIN_NAMES = ("paste_window", "frame_size", *_TEXTS, "crop", "options", "parts")
_SEAL_NAMES = tuple(item.name for item in fields(PartSeal))
_SEAL_TABLES = ("dtypes", "shapes", "checksums")
_CROP_TYPES = {item.name: type(getattr(CropConfig(), item.name)) for item in fields(CropConfig)}


def to_plain(meta: PacketMeta) -> dict[str, object]:
    """The plain values of ``meta.pt``'s header field ``extra``; tensors, avatar and generation are kept elsewhere."""
    return {
        "paste_window": list(meta.paste_window),
        "frame_size": list(meta.frame_size),
        **{name: getattr(meta, name) for name in _TEXTS},
        "crop": asdict(meta.crop),
        "options": dict(meta.options),
        "parts": {
            name: {**asdict(seal), "shapes": {key: list(shape) for key, shape in seal.shapes.items()}}
            for name, seal in meta.parts.items()
        },
    }


def from_plain(
    plain: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    avatar_id: str,
    generation: str,
    stage_version: str,
    where: str,
) -> PacketMeta:
    """Undo :func:`to_plain`, trusting nothing.

    Raises:
        PacketFormatError: a field that is missing, unknown, of another type or out of range; it is named.
    """
    expect_names(plain, _PLAIN_NAMES, f"{where}: meta fields")
    texts: dict[str, Any] = {name: _text(plain[name], name, where) for name in _TEXTS}
    if texts["window"] not in ("tight", "full"):
        raise _wrong(where, "window", "tight or full", texts["window"])
    options = _mapping(plain["options"], "options", where)
    for name, value in options.items():
        if not isinstance(value, Scalar):
            raise _wrong(where, f"options.{printable(name)}", "a plain value", value)
    expect_names(_mapping(plain["parts"], "parts", where), TENSOR_PARTS, f"{where}: parts")
    arrays: dict[str, Any] = {name: tensors[name] for name in _TENSOR_NAMES}
    meta = PacketMeta(
        **arrays,
        **texts,
        paste_window=PasteWindow(*_integers(plain["paste_window"], "paste_window", where, 4)),
        frame_size=FrameSize(*_integers(plain["frame_size"], "frame_size", where, 2)),
        crop=_crop(_mapping(plain["crop"], "crop", where), where),
        options=options,
        parts={name: _seal(plain["parts"][name], f"parts.{name}", where) for name in TENSOR_PARTS},
        avatar_id=avatar_id,
        generation=generation,
        stage_version=stage_version,
    )
    meta.expect_geometry(where)
    return meta


def _wrong(where: str, name: str, expected: str, got: object) -> PacketFormatError:
    shown = printable(str(got)[:60]) if isinstance(got, Scalar) else type(got).__name__
    return PacketFormatError(f"{where}: {name}: expected {expected}, got {shown}", rebuild_hint())


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, name, "text", value)
    return value


def _mapping(value: object, name: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, name, "a dict", value)
    return value


def _integers(value: object, name: str, where: str, count: int | None = None) -> tuple[int, ...]:
    if not isinstance(value, list) or set(map(type, value)) - {int} or len(value) != (count or len(value)):
        raise _wrong(where, name, f"{count or 'some'} whole numbers", value)
    return tuple(value)


def _crop(plain: dict[str, Any], where: str) -> CropConfig:
    expect_names(plain, tuple(_CROP_TYPES), f"{where}: crop")
    for name, kind in _CROP_TYPES.items():
        if type(plain[name]) is not kind:
            raise _wrong(where, f"crop.{name}", kind.__name__, plain[name])
    try:
        return CropConfig(**plain)
    except DittoError as error:
        raise PacketFormatError(f"{where}: {error.what}", rebuild_hint()) from error


def _seal(value: object, name: str, where: str) -> PartSeal:
    plain = _mapping(value, name, where)
    expect_names(plain, _SEAL_NAMES, f"{where}: {name}")
    if type(plain["bytes"]) is not int:
        raise _wrong(where, f"{name}.bytes", "a whole number", plain["bytes"])
    dtypes, shapes, checksums = (_mapping(plain[key], f"{name}.{key}", where) for key in _SEAL_TABLES)
    for key, texts in (("dtypes", dtypes), ("checksums", checksums)):
        wrong = next((text for text in texts.values() if not isinstance(text, str)), "")
        _text(wrong, f"{name}.{key}", where)
    return PartSeal(
        bytes=plain["bytes"],
        dtypes=dtypes,
        shapes={key: _integers(shape, f"{name}.shapes", where) for key, shape in shapes.items()},
        checksums=checksums,
        stage_version=_text(plain["stage_version"], f"{name}.stage_version", where),
    )
