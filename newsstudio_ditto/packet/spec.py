"""The contract of the packet: which file holds which tensors, in which dtype and shape.

Writer, reader, verifier and the table in ``docs/format.md`` all derive from :data:`PARTS`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.units import NUM_KEYPOINTS, NUM_POSE_BINS

FORMAT_NAME = "newsstudio-ditto packet"
PACKET_VERSION = 1

FRAME_AXIS = "N"
DTYPES: dict[str, torch.dtype] = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "float16": torch.float16,
    "float32": torch.float32,
}

_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

Shape = tuple[int, ...]
Bindings = dict[str, int]


class FrameSize(NamedTuple):
    """Size of the background frames in pixels."""

    height: int
    width: int


def rebuild_hint(avatar_id: str = "ID") -> str:
    """The command that makes a packet anew."""
    return f"make it again: newsstudio-ditto preprocess CLIP --avatar-id {avatar_id}"


def printable(text: str) -> str:
    """Text of a file as a message may show it: control characters and broken characters become escapes."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def dtype_name(dtype: torch.dtype) -> str:
    """Name of a dtype without its package, as headers store it."""
    return _DTYPE_NAMES.get(dtype) or str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a packet file.

    Args:
        name: key in the file.
        dtype: a key of :data:`DTYPES`.
        dims: axis lengths; a word is an axis that the packet itself fixes (the same word, the same length), a number is
            the length itself.
        content: what it holds, with units and frame of reference.
    """

    name: str
    dtype: str
    dims: tuple[str | int, ...]
    content: str

    @property
    def is_per_frame(self) -> bool:
        """Whether the first axis counts source frames."""
        return self.dims[:1] == (FRAME_AXIS,)

    def __str__(self) -> str:
        """Dtype and axes, as error messages and the documentation show them."""
        return f"{self.dtype} {_format_dims(self.dims)}"

    def bind(self, shape: Shape, bindings: Bindings, where: str) -> None:
        """Check ``shape`` against the axes, and enter what it says about named axes into ``bindings``.

        Raises:
            PacketFormatError: another number of axes, an empty axis, or a length that disagrees.
        """
        fits = len(shape) == len(self.dims)
        for dim, length in zip(self.dims, shape, strict=False):
            wanted = bindings.setdefault(dim, length) if isinstance(dim, str) else dim
            if length != wanted or length < 1:
                fits = False
        if not fits:
            known = ", ".join(f"{axis} = {length}" for axis, length in bindings.items())
            where_known = f" with {known}" if known else ""
            raise PacketFormatError(
                f"{where}: tensor {self.name}: expected {self}{where_known}, got shape {_format_dims(shape)}",
                rebuild_hint(),
            )

    def expect_dtype(self, dtype: torch.dtype, where: str) -> None:
        """Raise :class:`PacketFormatError` unless ``dtype`` is the one of the spec."""
        if dtype is not DTYPES[self.dtype]:
            raise PacketFormatError(
                f"{where}: tensor {self.name}: expected {self}, got dtype {dtype_name(dtype)}", rebuild_hint()
            )


@dataclass(frozen=True)
class PartSpec:
    """One file of a packet.

    Args:
        name: file name without ``.pt``.
        tensors: what it holds, in file order.
    """

    name: str
    tensors: tuple[TensorSpec, ...]

    @cached_property
    def file_name(self) -> str:
        """Name of the file in the packet folder."""
        return f"{self.name}.pt"

    @cached_property
    def tensor_names(self) -> tuple[str, ...]:
        """Names of the tensors, in file order."""
        return tuple(tensor.name for tensor in self.tensors)

    @cached_property
    def entry_names(self) -> tuple[str, ...]:
        """Names of the entries that hold the tensors, in file order, without the archive's folder."""
        return tuple(f"data/{index}" for index in range(len(self.tensors)))

    def __iter__(self) -> Iterator[TensorSpec]:
        """The tensors, in file order."""
        return iter(self.tensors)

    def bind(self, shapes: Mapping[str, Shape], where: str, known: Bindings | None = None) -> Bindings:
        """Lengths of the named axes, given every tensor's shape.

        Args:
            shapes: shape by tensor name; exactly the tensors of this part.
            where: what the shapes belong to, for the message.
            known: lengths that are fixed already, for instance by other parts.

        Raises:
            PacketFormatError: a missing or unknown tensor, or shapes that disagree with the spec or with each other.
        """
        expect_names(shapes, self.tensor_names, f"{where}: tensors")
        bindings = dict(known or {})
        for tensor in self.tensors:
            tensor.bind(shapes[tensor.name], bindings, where)
        return bindings

    def shapes(self, lengths: Mapping[str, int]) -> dict[str, Shape]:
        """Shape of every tensor, given the lengths of the named axes."""
        return {
            tensor.name: tuple(dim if isinstance(dim, int) else lengths[dim] for dim in tensor.dims)
            for tensor in self.tensors
        }


def expect_names(got: Mapping[str, object], wanted: Sequence[str], where: str) -> None:
    """Raise :class:`PacketFormatError` unless ``got`` has exactly the keys ``wanted``."""
    if (*got,) != (*wanted,) and set(got) != set(wanted):
        found = printable(", ".join(sorted(got))[:200]) or "none"
        raise PacketFormatError(f"{where}: expected {', '.join(wanted)}, got {found}", rebuild_hint())


def part_spec(part: str) -> PartSpec:
    """Spec of a part by its name.

    Raises:
        PacketFormatError: no such part.
    """
    if part not in PARTS:
        raise PacketFormatError(f"packets have no part {part!r}", f"the parts are {', '.join(PARTS)}")
    return PARTS[part]


def _format_dims(dims: tuple[str | int, ...]) -> str:
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


_K = NUM_KEYPOINTS
_BINS = NUM_POSE_BINS

_SPECS = (
    PartSpec("f_s", (TensorSpec("f_s", "float16", ("N", "C", "D", "Hf", "Wf"), "appearance feature volumes"),)),
    PartSpec(
        "keypoints",
        (
            TensorSpec("kp", "float32", ("N", _K, 3), "canonical keypoints, without pose or expression"),
            TensorSpec("pitch", "float32", ("N", _BINS), "head pose logits, 66 bins of 3 degrees"),
            TensorSpec("yaw", "float32", ("N", _BINS), "head pose logits"),
            TensorSpec("roll", "float32", ("N", _BINS), "head pose logits"),
            TensorSpec("t", "float32", ("N", 3), "translation in crop units"),
            TensorSpec("exp", "float32", ("N", 3 * _K), "expression: offsets of the 21 keypoints, x y z by keypoint"),
            TensorSpec("scale", "float32", ("N", 1), "scale of the head in the crop"),
            TensorSpec("x_s", "float32", ("N", _K, 3), "posed keypoints"),
        ),
    ),
    PartSpec(
        "grids",
        (TensorSpec("grids", "float32", ("N", "h", "w", 2), "crop position (x, y) of each window pixel, -1..1"),),
    ),
    PartSpec("masks", (TensorSpec("masks", "uint8", ("N", 1, "h", "w"), "feathered alpha of the crop, times 255"),)),
    PartSpec("frames", (TensorSpec("frames", "uint8", ("N", 3, "H", "W"), "background frames, planar RGB"),)),
    PartSpec(
        "meta",
        (
            TensorSpec("eye_open", "float32", ("N", 2), "openness of the left and right eye"),
            TensorSpec("eye_ball", "float32", ("N", 6), "gaze direction, x y z of the left and right eye"),
            TensorSpec("sc", "float32", (3 * _K,), "canonical keypoints of the first frame: motion conditioning"),
            TensorSpec("crop_to_original", "float32", ("N", 3, 3), "affine from crop pixels to frame pixels"),
            TensorSpec("face_valid", "bool", ("N",), "whether the face was found; frames without are left alone"),
        ),
    ),
)

PARTS: dict[str, PartSpec] = {spec.name: spec for spec in _SPECS}
PART_NAMES = tuple(PARTS)
TENSOR_PARTS = PART_NAMES[:-1]
META = PARTS["meta"]
