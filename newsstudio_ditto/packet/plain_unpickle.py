"""Reading the small part of the pickle language that packet files use, without the pickle module.

No name in a file is ever imported or called: a tensor is recognised by its literal form in the stream and becomes a
:class:`TensorRef`; anything else but plain values is refused. What plain ``torch.save`` writes for the same content is
read too.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import torch

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.packet.plain_direct import OtherFormError, read_direct
from newsstudio_ditto.packet.plain_pickle import (
    ORDERED_DICT_LINES,
    REBUILD_LINES,
    STORAGE_LINES,
    TensorRef,
    contiguous_strides,
)
from newsstudio_ditto.packet.spec import rebuild_hint

_MAX_AXES = 8
_UINT8, _UINT16, _UINT32 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I")
_INT32, _FLOAT64 = struct.Struct("<i"), struct.Struct(">d")


@dataclass(frozen=True, eq=False)
class _Global:
    """A name that packet files may mention; it stands for itself and is never called."""

    line: bytes
    dtype: torch.dtype | None = None


class _Storage(NamedTuple):
    key: str
    dtype: torch.dtype
    numel: int


_REBUILD = _Global(REBUILD_LINES)
_ORDERED_DICT = _Global(ORDERED_DICT_LINES)
_GLOBALS = {
    known.line: known
    for known in (_REBUILD, _ORDERED_DICT, *(_Global(line, dtype) for dtype, line in STORAGE_LINES.items()))
}


def decode(content: bytes, where: str) -> object:
    """Value of a pickle that holds plain values and tensors; the inverse of ``encode``.

    Args:
        content: the whole pickle, protocol 2.
        where: the file, for the message.

    Raises:
        PacketFormatError: an operation, name or structure that packets do not use. Nothing is imported or called.
    """
    try:
        return read_direct(content)
    except OtherFormError:
        pass  # the machine reads more, and knows what to say of what it cannot read
    try:
        return _Machine(content).run()
    except _RefusedError as refused:
        problem = str(refused)
    except (struct.error, IndexError, KeyError, ValueError, TypeError) as error:
        problem = f"its header is damaged ({type(error).__name__})"
    raise PacketFormatError(f"{where}: {problem}", rebuild_hint())


class _RefusedError(ValueError):
    """What a stream asks for that packets never need; becomes a PacketFormatError that names the file."""


class _Machine:
    """Stack machine over one stream. Operations take the position after their code and return the one after them."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.stack: list[object] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}

    def run(self) -> object:
        content = self.content
        if content[:2] != b"\x80\x02" or content[-1:] != b".":
            raise _RefusedError("its header is not a pickle of protocol 2, or is cut short")
        position, last = 2, len(content) - 1
        while position < last:
            code = content[position]
            operation = _OPERATIONS[code]
            if operation is None:
                raise _RefusedError(f"its header uses pickle operation {bytes([code])!r}, which packets never do")
            position = operation(self, position + 1)
        if position != last or len(self.stack) != 1 or self._marks:
            raise _RefusedError("its header has something left over")
        return self.stack[0]

    def mark(self, position: int) -> int:
        self._marks.append(len(self.stack))
        return position

    def pop_to_mark(self) -> list[object]:
        start = self._marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def push_text(self, position: int) -> int:
        start = position + 4
        end = start + _UINT32.unpack_from(self.content, position)[0]
        self.stack.append(self.content[start:end].decode("utf-8", "surrogatepass"))
        return end

    def push_long(self, position: int) -> int:
        end = position + 1 + self.content[position]
        self.stack.append(int.from_bytes(self.content[position + 1 : end], "little", signed=True))
        return end

    def push_global(self, position: int) -> int:
        first = self.content.index(b"\n", position)
        end = self.content.index(b"\n", first + 1) + 1
        name = self.content[position:end]
        known = _GLOBALS.get(name)
        if known is None:
            readable = name.decode("ascii", "replace").strip().replace("\n", ".")[:80]
            raise _RefusedError(f"its header names {readable!r}, code that packets never hold")
        self.stack.append(known)
        return end

    def push_marked_tuple(self, position: int) -> int:
        self.stack.append(tuple(self.pop_to_mark()))
        return position

    def append_items(self, items: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise _RefusedError("its header is damaged (append without list)")
        target.extend(items)

    def set_items(self, items: list[object]) -> None:
        target = self.stack[-1]
        # Before anything is hashed: the interpreter dies of the hash of a tuple that is nested deep enough.
        if not isinstance(target, dict) or set(map(type, items[::2])) - {str}:
            raise _RefusedError("its header is damaged (keys)")
        added = dict(zip(items[::2], items[1::2], strict=True))
        total = len(target) + len(items) // 2
        target.update(added)
        if len(target) != total:
            raise _RefusedError("its header says the same key twice")

    def resolve_storage(self, position: int) -> int:
        match self.stack.pop():
            case ("storage", _Global(dtype=torch.dtype() as dtype), str(key), "cpu", int(numel)):
                self.stack.append(_Storage(key, dtype, numel))
            case ("storage", _Global(), str(), str(device), int()):
                raise _RefusedError(f"it holds tensors of device {device[:20]!r}; packets hold CPU tensors")
            case _:
                raise _RefusedError("its header is damaged (storage)")
        return position

    def call(self, position: int) -> int:
        arguments, function = self.stack.pop(), self.stack.pop()
        if function is _ORDERED_DICT and arguments == ():
            self.stack.append({})
            return position
        match arguments:
            case (_Storage() as storage, 0, tuple(shape), tuple(strides), False, {**hooks}) if (
                function is _REBUILD and not hooks
            ):
                self.stack.append(_tensor_ref(storage, shape, strides))
            case _:
                raise _RefusedError("its header calls something other than the making of a plain contiguous tensor")
        return position

    def remember(self, slot: int) -> None:
        self._memo[slot] = self.stack[-1]

    def recall(self, slot: int) -> None:
        self.stack.append(self._memo[slot])


def _tensor_ref(storage: _Storage, shape: tuple[object, ...], strides: tuple[object, ...]) -> TensorRef:
    # First, since strides take time with the square of the number of axes.
    if len(shape) > _MAX_AXES:
        raise _RefusedError(f"it has a tensor of {len(shape)} axes")
    sizes = tuple(size for size in shape if type(size) is int and size >= 0)
    if len(sizes) != len(shape) or prod(sizes) != storage.numel:
        raise _RefusedError("it has a tensor that does not fill its storage exactly")
    # The stride of an axis of length 1 is never used, and torch writes several values for it.
    wanted = contiguous_strides(sizes)
    if len(strides) != len(sizes) or any(
        size != 1 and got != want for size, got, want in zip(sizes, strides, wanted, strict=True)
    ):
        raise _RefusedError("it has a tensor that is not contiguous")
    return TensorRef(storage.key, storage.dtype, sizes)


_Operation = Callable[[_Machine, int], int]


def _pushing(value: object) -> _Operation:
    def operation(machine: _Machine, position: int) -> int:
        machine.stack.append(value)
        return position

    return operation


def _pushing_new(make: Callable[[], object]) -> _Operation:
    def operation(machine: _Machine, position: int) -> int:
        machine.stack.append(make())
        return position

    return operation


def _pushing_number(layout: struct.Struct) -> _Operation:
    def operation(machine: _Machine, position: int) -> int:
        machine.stack.append(layout.unpack_from(machine.content, position)[0])
        return position + layout.size

    return operation


def _pushing_tuple(length: int) -> _Operation:
    def operation(machine: _Machine, position: int) -> int:
        start = len(machine.stack) - length
        if start < 0:
            raise _RefusedError("its header is damaged (short tuple)")
        machine.stack[start:] = [tuple(machine.stack[start:])]
        return position

    return operation


def _with_marked(take: Callable[[_Machine, list[object]], None]) -> _Operation:
    def operation(machine: _Machine, position: int) -> int:
        take(machine, machine.pop_to_mark())
        return position

    return operation


def _with_last(take: Callable[[_Machine, list[object]], None], count: int) -> _Operation:
    def operation(machine: _Machine, position: int) -> int:
        items = machine.stack[-count:]
        del machine.stack[-count:]
        take(machine, items)
        return position

    return operation


def _with_slot(layout: struct.Struct, use: Callable[[_Machine, int], None]) -> _Operation:
    def operation(machine: _Machine, position: int) -> int:
        use(machine, layout.unpack_from(machine.content, position)[0])
        return position + layout.size

    return operation


_BY_CODE: dict[bytes, _Operation] = {
    b"N": _pushing(None),
    b"\x88": _pushing(True),
    b"\x89": _pushing(False),
    b"K": _pushing_number(_UINT8),
    b"M": _pushing_number(_UINT16),
    b"J": _pushing_number(_INT32),
    b"X": _Machine.push_text,
    b"\x8a": _Machine.push_long,
    b"G": _pushing_number(_FLOAT64),
    b"(": _Machine.mark,
    b")": _pushing(()),
    b"]": _pushing_new(list),
    b"}": _pushing_new(dict),
    b"t": _Machine.push_marked_tuple,
    b"\x85": _pushing_tuple(1),
    b"\x86": _pushing_tuple(2),
    b"\x87": _pushing_tuple(3),
    b"a": _with_last(_Machine.append_items, 1),
    b"e": _with_marked(_Machine.append_items),
    b"s": _with_last(_Machine.set_items, 2),
    b"u": _with_marked(_Machine.set_items),
    b"c": _Machine.push_global,
    b"Q": _Machine.resolve_storage,
    b"R": _Machine.call,
    b"q": _with_slot(_UINT8, _Machine.remember),
    b"r": _with_slot(_UINT32, _Machine.remember),
    b"h": _with_slot(_UINT8, _Machine.recall),
    b"j": _with_slot(_UINT32, _Machine.recall),
}
_OPERATIONS = [_BY_CODE.get(bytes([code])) for code in range(256)]
