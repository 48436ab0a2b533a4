"""Arrays as a pickle stream describes them: where their bytes lie, and the functions that numpy's streams name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KINDS = frozenset("biuf")


class RefusedError(ValueError):
    """What the stream asks for and does not get; becomes the error of the reader, with the file's name."""


@dataclass(eq=False)
class Kind:
    """A numpy dtype as the stream describes it: first its code, later its byte order."""

    code: str
    order: str = "="

    def resolve(self) -> np.dtype[Any]:
        """The dtype, if it is one of plain numbers."""
        try:
            dtype = np.dtype(self.code)
        except TypeError as error:
            raise RefusedError(f"an array has the unknown dtype {self.code[:20]!r}") from error
        if dtype.kind not in _KINDS:
            raise RefusedError(f"an array has dtype {dtype}; only numbers and booleans are read")
        if self.order in ("<", ">"):
            return dtype.newbyteorder("<" if self.order == "<" else ">")
        return dtype


@dataclass(eq=False)
class StoredArray:
    """One array of the pickle, still in the file."""

    _kind: Kind = field(default_factory=lambda: Kind("u1"))
    _content: memoryview = field(default_factory=lambda: memoryview(b""))
    shape: tuple[int, ...] = (0,)
    _is_fortran: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._kind.resolve()

    @property
    def num_bytes(self) -> int:
        """Bytes that the array takes in the file."""
        return len(self._content)

    def view(self) -> NDArray[Any]:
        """The array, read-only, over the file's own bytes."""
        if not self._content:
            return np.empty(self.shape, self.dtype)
        flat = np.frombuffer(self._content, self.dtype)
        return flat.reshape(self.shape, order="F" if self._is_fortran else "C")

    def fill(self, kind: object, shape: object, content: object, *, is_fortran: bool) -> None:
        """Take what the stream says of the array.

        Raises:
            ValueError: the parts do not fit each other.
        """
        if not (isinstance(kind, Kind) and isinstance(content, memoryview) and isinstance(shape, tuple)):
            raise RefusedError("an array is not stored as numpy stores plain ones")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise RefusedError("an array has an impossible shape")
        if prod(shape) * kind.resolve().itemsize != len(content):
            raise RefusedError(f"an array of shape {shape} has {len(content)} bytes")
        self._kind, self._content, self.shape, self._is_fortran = kind, content, shape, is_fortran


@dataclass(frozen=True)
class Name:
    """A name in the stream that is understood; it stands for itself and is never imported."""

    text: str


_NDARRAY = Name("numpy.ndarray")


def _make_blank(arguments: tuple[Any, ...]) -> StoredArray:
    if len(arguments) != 3 or arguments[0] != _NDARRAY:
        raise RefusedError("it makes an array of a class that is not numpy's own")
    return StoredArray()


def _make_kind(arguments: tuple[Any, ...]) -> Kind:
    if not arguments or not isinstance(arguments[0], str):
        raise RefusedError("a dtype is not stored as numpy stores plain ones")
    return Kind(arguments[0])


def _make_scalar(arguments: tuple[Any, ...]) -> Any:
    array = StoredArray()
    array.fill(arguments[0], (1,), arguments[1], is_fortran=False)
    return array.view()[0].item()


def _make_from_buffer(arguments: tuple[Any, ...]) -> StoredArray:
    content, kind, shape, order = arguments
    array = StoredArray()
    array.fill(kind, shape, content, is_fortran=order == "F")
    return array


CALLS: Mapping[str, Callable[[tuple[Any, ...]], object]] = {
    "numpy.dtype": _make_kind,
    "numpy.core.multiarray._reconstruct": _make_blank,
    "numpy._core.multiarray._reconstruct": _make_blank,
    "numpy.core.multiarray.scalar": _make_scalar,
    "numpy._core.multiarray.scalar": _make_scalar,
    "numpy.core.numeric._frombuffer": _make_from_buffer,
    "numpy._core.numeric._frombuffer": _make_from_buffer,
}
NAMES = frozenset({*CALLS, _NDARRAY.text})
