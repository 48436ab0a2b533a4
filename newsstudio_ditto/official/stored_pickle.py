"""Reading a pickle of plain values and numpy arrays without the pickle module.

The stream is walked, never obeyed: no name in it is imported, and only the five functions that numpy writes are
understood, by this module's own code. Arrays are not read either; each becomes a :class:`StoredArray` that says where
in the file its bytes lie. So a mapped pickle of any size is opened in the memory of its table of contents.
"""

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.official.stored_array import CALLS, NAMES, Kind, Name, RefusedError, StoredArray

_PLAIN_TYPES = (type(None), bool, int, float, str)


class _Mark:
    """Where a run of items begins on the stack."""


_MARK = _Mark()


class _Walker:
    """Stack machine over one stream."""

    def __init__(self, content: memoryview) -> None:
        self.content = content
        self.position = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> object:
        while True:
            code = self.take(1)[0]
            if code == _STOP:
                break
            operation = _OPERATIONS.get(code)
            if operation is None:
                raise RefusedError(f"it uses pickle operation {bytes([code])!r}, which plain values never need")
            operation(self)
        if len(self.stack) != 1:
            raise RefusedError("it ends with something left over")
        return self.stack[0]

    def take(self, count: int) -> memoryview:
        end = self.position + count
        if count < 0 or end > len(self.content):
            raise RefusedError("it is cut short")
        piece = self.content[self.position : end]
        self.position = end
        return piece

    def number(self, layout: struct.Struct) -> Any:
        return layout.unpack(self.take(layout.size))[0]

    def line(self) -> str:
        start = self.position
        while self.take(1)[0] != _NEWLINE:
            if self.position - start > _LONGEST_NAME:
                raise RefusedError("it has a name without end")
        return bytes(self.content[start : self.position - 1]).decode("utf-8", "replace")

    def push(self, value: object) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def push_name(self, text: str) -> None:
        if text == _OLD_BYTES:
            raise RefusedError("it was written with pickle protocol 2 or older; write it again with protocol 4")
        if text not in NAMES:
            raise RefusedError(f"it names {text[:80]!r}; opening it the usual way would run code")
        self.push(Name(text))

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise RefusedError("it has a name that is no text")
        self.push_name(f"{module}.{name}")

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not (isinstance(function, Name) and function.text in CALLS and isinstance(arguments, tuple)):
            raise RefusedError("it calls something that is not numpy's")
        self.push(CALLS[function.text](arguments))

    def build(self) -> None:
        state, target = self.pop(), self.stack[-1]
        if isinstance(target, Kind) and isinstance(state, tuple) and len(state) > 1:
            target.order = state[1] if isinstance(state[1], str) else "?"
        elif isinstance(target, StoredArray) and isinstance(state, tuple) and len(state) == 5:
            _, shape, kind, is_fortran, content = state
            target.fill(kind, shape, content, is_fortran=bool(is_fortran))
        else:
            raise RefusedError("it sets the state of something that is not numpy's")

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise RefusedError("it is damaged (append without list)")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or not all(isinstance(key, _PLAIN_TYPES) for key in items[::2]):
            raise RefusedError("it is damaged (keys)")
        target.update(zip(items[::2], items[1::2], strict=True))


_OLD_BYTES = "_codecs.encode"
_STOP, _NEWLINE, _LONGEST_NAME = ord("."), ord("\n"), 200
_U1, _U2, _U4, _U8, _I4, _F8 = (struct.Struct(code) for code in ("<B", "<H", "<I", "<Q", "<i", ">d"))
_Operation = Callable[[_Walker], None]


def _constant(make: Callable[[], object]) -> _Operation:
    return lambda walker: walker.push(make())


def _plain(layout: struct.Struct) -> _Operation:
    return lambda walker: walker.push(walker.number(layout))


def _text(layout: struct.Struct) -> _Operation:
    return lambda walker: walker.push(bytes(walker.take(walker.number(layout))).decode("utf-8", "surrogatepass"))


def _raw(layout: struct.Struct) -> _Operation:
    return lambda walker: walker.push(walker.take(walker.number(layout)))


def _integer(layout: struct.Struct) -> _Operation:
    return lambda walker: walker.push(int.from_bytes(walker.take(walker.number(layout)), "little", signed=True))


def _tuple(count: int) -> _Operation:
    return lambda walker: walker.push(tuple([walker.pop() for _ in range(count)][::-1]))


def _store(layout: struct.Struct | None) -> _Operation:
    def operation(walker: _Walker) -> None:
        walker.memo[len(walker.memo) if layout is None else walker.number(layout)] = walker.stack[-1]

    return operation


def _recall(layout: struct.Struct) -> _Operation:
    return lambda walker: walker.push(walker.memo[walker.number(layout)])


def _skip(count: int) -> _Operation:
    def operation(walker: _Walker) -> None:
        walker.take(count)

    return operation


def _append(walker: _Walker) -> None:
    item = walker.pop()
    walker.extend([item])


def _set_item(walker: _Walker) -> None:
    value, key = walker.pop(), walker.pop()
    walker.update([key, value])


_BY_CODE: dict[bytes, _Operation] = {
    b"\x80": _skip(1),
    b"\x95": _skip(8),
    b"N": _constant(lambda: None),
    b"\x88": _constant(lambda: True),
    b"\x89": _constant(lambda: False),
    b"]": _constant(list),
    b"}": _constant(dict),
    b")": _constant(tuple),
    b"(": _constant(lambda: _MARK),
    b"K": _plain(_U1),
    b"M": _plain(_U2),
    b"J": _plain(_I4),
    b"G": _plain(_F8),
    b"\x8a": _integer(_U1),
    b"\x8c": _text(_U1),
    b"X": _text(_U4),
    b"\x8d": _text(_U8),
    b"C": _raw(_U1),
    b"B": _raw(_U4),
    b"\x8e": _raw(_U8),
    b"\x96": _raw(_U8),
    b"t": lambda walker: walker.push(tuple(walker.pop_to_mark())),
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"a": _append,
    b"e": lambda walker: walker.extend(walker.pop_to_mark()),
    b"s": _set_item,
    b"u": lambda walker: walker.update(walker.pop_to_mark()),
    b"c": lambda walker: walker.push_name(f"{walker.line()}.{walker.line()}"),
    b"\x93": _Walker.stack_global,
    b"R": _Walker.reduce,
    b"b": _Walker.build,
    b"\x94": _store(None),
    b"q": _store(_U1),
    b"r": _store(_U4),
    b"h": _recall(_U1),
    b"j": _recall(_U4),
}
_OPERATIONS = {code[0]: operation for code, operation in _BY_CODE.items()}


def read_stored(path: Path, kind: type[DittoError], hint: str) -> dict[str, Any]:
    """Map a pickle and list what is in it.

    Args:
        path: a pickle of protocol 3, 4 or 5 whose value is a dict with text keys.
        kind: class of the error.
        hint: of the error.

    Returns:
        The dict; arrays in it, at any depth, are :class:`StoredArray`.

    Raises:
        DittoError: of class ``kind``: the file cannot be read, is damaged, or asks for anything but plain values and
            arrays of numbers. Nothing in the file is imported or called.
    """
    try:
        with path.open("rb") as file:
            value = _Walker(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))).run()
    except OSError as error:
        raise kind(f"{path} cannot be read: {error.strerror or error}", hint) from error
    except RefusedError as refused:
        raise kind(f"{path}: {refused}", hint) from refused
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise kind(f"{path} is no pickle, or is damaged ({type(error).__name__})", hint) from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise kind(f"{path}: expected a dict with text keys, got {type(value).__name__}", hint)
    return value
