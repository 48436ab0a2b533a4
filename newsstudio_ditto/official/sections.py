"""One section of the configuration pickle: values by name and kind, and a list of what nobody asked for."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.official.stored_array import StoredArray

Floats = npt.NDArray[np.float32]

HINT = "fetch the release again: newsstudio-ditto models fetch ditto"


class Section:
    """One dict of the pickle; it remembers which keys were asked for.

    Args:
        values: the dict.
        where: file and name of the section, for messages.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        """Nothing has been asked for yet."""
        self.values = values
        self.where = where
        self.left = set(values)

    def take(self, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
        """A plain value, or the default where it is absent or None; numbers may be numpy's."""
        self.left.discard(name)
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise BundleError(f"{self.where}.{name}: expected {words(kind)}, got {show(value)}", HINT)
        return value

    def numbers(self, name: str, kind: type, default: tuple[Any, ...]) -> tuple[Any, ...]:
        """A plain number or a sequence of them, as a tuple, or the default where it is absent or None."""
        value = self.take(name, (kind, list, tuple), default)
        values = tuple(value) if isinstance(value, list | tuple) else (value,)
        if not all(isinstance(item, kind) and not isinstance(item, bool) for item in values):
            raise BundleError(f"{self.where}.{name}: expected {kind.__name__} numbers, got {show(value)}", HINT)
        return values

    def array(self, name: str, columns: int, *, rows: int = 1) -> Floats | None:
        """A float array (at least ``rows``, columns), or None."""
        self.left.discard(name)
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, StoredArray) or len(value.shape) != 2 or value.shape[1] != columns:
            raise BundleError(f"{self.where}.{name}: expected an array (n, {columns}), got {show(value)}", HINT)
        if value.shape[0] < rows:
            raise BundleError(f"{self.where}.{name}: expected {rows} or more rows, got {value.shape[0]}", HINT)
        return value.view().astype(np.float32)

    def skip(self, *names: str) -> list[str]:
        """Keys of ``names`` that are there; they count as known."""
        found = [name for name in names if name in self.values]
        self.left.difference_update(names)
        return [f"{self.where.rpartition(': ')[2]}.{name}" for name in found]


def words(kind: type | tuple[type, ...]) -> str:
    """Names of types, for messages."""
    return " or ".join(item.__name__ for item in (kind if isinstance(kind, tuple) else (kind,)))


def show(value: object) -> str:
    """A value, short, for messages."""
    return f"an array {value.shape}" if isinstance(value, StoredArray) else repr(value)[:60]
