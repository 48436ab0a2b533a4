"""The small part of the pickle language that packet files use, written without the pickle module.

Writing it by hand makes equal content equal bytes and needs no storage in memory for a tensor of any size.
``torch.load(weights_only=True)`` reads the same bytes.
"""

import struct
from collections.abc import Callable
from math import prod
from typing import NamedTuple

import torch

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.packet.spec import Shape

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

_STORAGES = {
    "BoolStorage": torch.bool,
    "ByteStorage": torch.uint8,
    "HalfStorage": torch.float16,
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
}
_INT32_RANGE = range(-(2**31), 2**31)
_UINT32, _INT32, _FLOAT64 = struct.Struct("<I"), struct.Struct("<i"), struct.Struct(">d")


class TensorRef(NamedTuple):
    """A contiguous CPU tensor that fills one storage entry of the file.

    Args:
        key: name of the entry below ``data/``.
        dtype: element type.
        shape: axis lengths.
    """

    key: str
    dtype: torch.dtype
    shape: Shape

    @property
    def num_bytes(self) -> int:
        """Size of the entry."""
        return prod(self.shape) * self.dtype.itemsize


REBUILD_LINES = b"torch._utils\n_rebuild_tensor_v2\n"
ORDERED_DICT_LINES = b"collections\nOrderedDict\n"
STORAGE_LINES = {dtype: f"torch\n{name}\n".encode() for name, dtype in _STORAGES.items()}


def contiguous_strides(shape: Shape) -> Shape:
    """Strides, in elements, of a contiguous tensor."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def encode(value: object) -> bytes:
    """Pickle, protocol 2, of plain values and :class:`TensorRef`; equal values give equal bytes.

    Raises:
        PacketFormatError: a value that is not plain, such as a path, an array or a numpy scalar.
    """
    return b"\x80\x02" + _encode(value) + b"."


def _encode(value: object) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    # Subclasses (numpy scalars, enums, string types) are refused: they would come back as another type.
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        raise PacketFormatError(
            f"a packet header holds plain values only, got {type(value).__name__}",
            "convert it to bool, int, float, str, list or dict first",
        )
    return encoder(value)


def _encode_int(value: int) -> bytes:
    if value in _INT32_RANGE:
        return b"J" + _INT32.pack(value)
    length = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([length]) + value.to_bytes(length, "little", signed=True)


def _encode_str(value: str) -> bytes:
    text = value.encode("utf-8", "surrogatepass")
    return b"X" + _UINT32.pack(len(text)) + text


def _encode_list(value: list[object]) -> bytes:
    return b"](" + b"".join(map(_encode, value)) + b"e"


def _encode_dict(value: dict[str, object]) -> bytes:
    for key in value:
        if type(key) is not str:
            raise PacketFormatError(
                f"a packet header has text keys only, got {type(key).__name__}", "convert it to str first"
            )
    return b"}(" + b"".join(_encode_str(key) + _encode(item) for key, item in value.items()) + b"u"


def _encode_tuple(values: Shape) -> bytes:
    return b"(" + b"".join(map(_encode_int, values)) + b"t"


def _encode_tensor(tensor: TensorRef) -> bytes:
    storage = (
        b"("
        + _encode_str("storage")
        + b"c"
        + STORAGE_LINES[tensor.dtype]
        + _encode_str(tensor.key)
        + _encode_str("cpu")
        + _encode_int(prod(tensor.shape))
        + b"tQ"
    )
    sizes = _encode_tuple(tensor.shape) + _encode_tuple(contiguous_strides(tensor.shape))
    hooks = b"c" + ORDERED_DICT_LINES + b")R"
    return b"c" + REBUILD_LINES + b"(" + storage + _encode_int(0) + sizes + b"\x89" + hooks + b"tR"


_ENCODERS: dict[type, Callable[..., bytes]] = {
    int: _encode_int,
    float: lambda value: b"G" + _FLOAT64.pack(value),
    str: _encode_str,
    list: _encode_list,
    dict: _encode_dict,
    TensorRef: _encode_tensor,
}
