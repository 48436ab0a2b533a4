"""Headers that are whole as containers and pickles, but say something wrong, and pickles that want to be programs."""

import math
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from newsstudio_ditto.packet.plain_pickle import TensorRef, encode
from newsstudio_ditto.packet.spec import DTYPES, PART_NAMES
from tests.packet.attack.case import FORGED, READ, REFUSED, Case, Registry
from tests.packet.attack.zip_form import forms_of, load, pack, refs_of, reseal

HEADERS = Registry()
SENTINEL = "pwned"
Header = dict[str, Any]


def store_pickle(case: Case, pickled: bytes) -> None:
    """The file to spoil with another pickle, its checksums right and the seal agreeing with its size."""
    tensors = load(case.path)["tensors"]
    assert isinstance(tensors, dict)
    case.path.write_bytes(pack(forms_of(case.part, pickled, tensors)))
    reseal(case.file("meta"), case.part, case.path.stat().st_size)


def parts_of(case: Case) -> tuple[Header, dict[str, TensorRef]]:
    """Header and tensor references of the file to spoil."""
    content = load(case.path)
    header, tensors = content["header"], content["tensors"]
    assert isinstance(header, dict)
    assert isinstance(tensors, dict)
    return header, refs_of(case.part, tensors)


def _ref(name: str, *outcomes: str, parts: tuple[str, ...] = PART_NAMES) -> Callable[[Any], Any]:
    """A kind that replaces one tensor reference."""

    def register(change: Callable[[TensorRef, Case], object]) -> object:
        def spoil(case: Case) -> None:
            header, refs = parts_of(case)
            chosen = case.tensor_name
            changed = dict[str, object](refs)
            changed[chosen] = change(refs[chosen], case)
            store_pickle(case, encode({"header": header, "tensors": changed}))

        return HEADERS.add(f"tensor: {name}", *outcomes, parts=parts)(spoil)

    return register


@_ref("another dtype")
def dtype(ref: TensorRef, case: Case) -> TensorRef:
    others = [other for other in DTYPES.values() if other is not ref.dtype]
    return ref._replace(dtype=case.draw.choice(others))


@_ref("a dtype of the same width")
def same_width(ref: TensorRef, case: Case) -> TensorRef:
    same = {1: (torch.bool, torch.uint8), 2: (torch.float16, torch.float32), 4: (torch.float32, torch.int32)}
    return ref._replace(dtype=next(other for other in same[ref.dtype.itemsize] if other is not ref.dtype))


@_ref("a huge shape")
def huge_shape(ref: TensorRef, case: Case) -> TensorRef:
    return ref._replace(shape=(case.draw.choice([10**6, 2**40, 2**62, 2**63, 2**200]), *ref.shape[1:]))


@_ref("more frames", REFUSED)
def more_frames(ref: TensorRef, case: Case) -> TensorRef:
    return ref._replace(shape=(ref.shape[0] + case.draw.choice([1, -1]), *ref.shape[1:]))


@_ref("another order of axes", REFUSED, parts=("f_s", "keypoints", "grids", "masks", "frames"))
def turned(ref: TensorRef, case: Case) -> TensorRef:
    shape = (*ref.shape[1:], ref.shape[0])
    return ref._replace(shape=shape if shape != ref.shape else shape[:-1])


@_ref("no axis, or an empty one")
def empty_axes(ref: TensorRef, case: Case) -> TensorRef:
    return ref._replace(shape=case.draw.choice([(), (0,), (0, *ref.shape[1:]), (*ref.shape, 0)]))


@_ref("a thousand axes")
def many_axes(ref: TensorRef, case: Case) -> TensorRef:
    return ref._replace(shape=(*ref.shape, *[1] * case.draw.choice([1, 9, 1000])))


@_ref("negative lengths")
def negative(ref: TensorRef, case: Case) -> TensorRef:
    return ref._replace(shape=(-ref.shape[0], *(-size for size in ref.shape[1:2]), *ref.shape[2:]))


@_ref("the bytes of another")
def other_key(ref: TensorRef, case: Case) -> TensorRef:
    return ref._replace(key=case.draw.choice(["9", "data.pkl", "../data/0", "-1", "", "00"]))


@_ref("a plain value")
def no_tensor(ref: TensorRef, case: Case) -> object:
    return case.draw.choice([None, 1.5, "f_s", [1, 2], {"shape": [1]}])


@HEADERS.add("tensor: two change places", parts=("keypoints",))
def changed_places(case: Case) -> None:
    header, refs = parts_of(case)
    first, second = case.draw.sample(["pitch", "yaw", "roll"], 2)
    refs[first], refs[second] = refs[second], refs[first]
    store_pickle(case, encode({"header": header, "tensors": refs}))


@HEADERS.add("tensor: one too many or too few")
def tensor_set(case: Case) -> None:
    header, refs = parts_of(case)
    if case.draw.random() < 0.5:
        refs["more"] = TensorRef("0", *refs[case.tensor_name][1:])
    else:
        del refs[case.tensor_name]
    store_pickle(case, encode({"header": header, "tensors": refs}))


ODD_VALUES: tuple[object, ...] = (
    None, True, -1, 0, 2**31, 10**100, 1.5, math.nan, math.inf, "", "x" * 100_000, "../../etc", "a\0b",
    "\x1b[2J[/bold]", "\ud800", "$(touch pwned)", [], [1, 2, 3, 4], [[]], {}, {"a": {"b": {}}}, {"": None},
)  # fmt: skip


@HEADERS.add("header: a field of another kind")
def odd_field(case: Case) -> None:
    header, refs = parts_of(case)
    name = case.draw.choice(["format", "version", "part", "avatar_id", "num_frames", "checksums"])
    header[name] = case.draw.choice(ODD_VALUES)
    store_pickle(case, encode({"header": header, "tensors": refs}))


@HEADERS.add("header: a field missing or unknown")
def field_set(case: Case) -> None:
    header, refs = parts_of(case)
    if case.draw.random() < 0.5:
        del header[case.draw.choice(list(header))]
    else:
        header[case.draw.choice(["Version", "path", "__reduce__", "", "x" * 1000])] = case.draw.choice(ODD_VALUES)
    store_pickle(case, encode({"header": header, "tensors": refs}))


@HEADERS.add("header: a field of meta of another kind", REFUSED, FORGED, parts=("meta",))
def odd_meta_field(case: Case) -> None:
    header, refs = parts_of(case)
    holder: Header = header["extra"]
    if case.draw.random() < 0.5:
        holder = holder[case.draw.choice(["crop", "parts", "options"])]
    if case.draw.random() < 0.3 and "f_s" in holder:
        holder = holder["f_s"]
    holder[case.draw.choice(list(holder))] = case.draw.choice(ODD_VALUES)
    store_pickle(case, encode({"header": header, "tensors": refs}))


@HEADERS.add("header: a window that does not fit", parts=("meta",))
def odd_window(case: Case) -> None:
    header, refs = parts_of(case)
    window = list(header["extra"]["paste_window"])
    window[case.draw.randrange(4)] += case.draw.choice([-1, 1, -100, 100, 2**40])
    header["extra"]["paste_window"] = window
    store_pickle(case, encode({"header": header, "tensors": refs}))


@HEADERS.add("header: larger than any header")
def huge_header(case: Case) -> None:
    header, refs = parts_of(case)
    header["extra"] = {"filler": "x" * case.draw.choice([2**21, 20 * 2**20])}
    store_pickle(case, encode({"header": header, "tensors": refs}))


@HEADERS.add("header: right checksum over flipped bits", REFUSED, READ, FORGED)
def resigned(case: Case) -> None:
    """Nothing a disk does: whoever recomputes checksums can say what he likes, but not break the reader."""
    header, refs = parts_of(case)
    content = bytearray(encode({"header": header, "tensors": refs}))
    for _ in range(case.draw.choice([1, 2, 8])):
        content[case.draw.randrange(len(content))] ^= 1 << case.draw.randrange(8)
    store_pickle(case, bytes(content))


@HEADERS.add("header: pickle operations at random")
def random_operations(case: Case) -> None:
    alphabet = b"NKMJGX()]}taesuQRqhrj\x80\x85\x86\x87\x88\x89\x8a\x8c\x93\x94.c\n"
    content = bytes(case.draw.choice(alphabet) for _ in range(case.draw.choice([10, 300, 3000])))
    store_pickle(case, b"\x80\x02" + content + b".")


class Bomb:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[object, ...]:
        """Make a file."""
        return (Path.touch, (Path(SENTINEL),))


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<L", len(value)) + value.encode()


_RUN = _text(f"open('{SENTINEL}','w')")
PROGRAMS: dict[str, bytes] = {
    "reduce": pickle.dumps({"header": Bomb(), "tensors": {}}, protocol=2),
    "reduce, newer protocol": pickle.dumps({"header": Bomb(), "tensors": {}}, protocol=5),
    "eval": b"\x80\x02c__builtin__\neval\n(" + _RUN + b"tR.",
    "builtins": b"\x80\x02cbuiltins\nexec\n(" + _RUN + b"tR.",
    "instance": b"\x80\x02(" + _RUN + b"ibuiltins\nexec\n.",
    "object": b"\x80\x02(cbuiltins\nexec\n" + _RUN + b"o.",
    "by name on the stack": b"\x80\x02" + _text("builtins") + _text("exec") + b"\x93(" + _RUN + b"tR.",
    "another function of torch": b"\x80\x02ctorch.hub\nload\n(" + _RUN + b"tR.",
    "numpy": b"\x80\x02cnumpy.core.multiarray\nscalar\n(" + _RUN + b"tR.",
    "the rebuild function itself": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + _RUN + b"tR.",
    "build": b"\x80\x02ccollections\nOrderedDict\n)R}" + _RUN + b"K\1sb.",
    "a class made": b"\x80\x02cbuiltins\nexec\n(" + _RUN + b"t\x81.",
    "extension": b"\x80\x02\x82\x01.",
    "a name that never ends": b"\x80\x02c" + b"a" * 100_000 + b".",
}
LARGE: dict[str, bytes] = {
    "a tuple nested a million deep as key": b"\x80\x02})" + b"\x85" * 1_000_000 + b"Ns.",
    "lists nested a million deep": b"\x80\x02" + b"]" * 500_000 + b"a" * 499_999 + b".",
    "a million lists": b"\x80\x02(" + b"]" * 1_000_000 + b"t.",
    "sixteen million lists": b"\x80\x02" + b"]" * (16 * 2**20) + b".",
    "a list of itself": b"\x80\x02]q\x00h\x00a.",
    "doubled forty times": b"\x80\x02]q\x00" + b"(h\x00h\x00e" * 40 + b".",
    "long numbers": b"\x80\x02(" + (b"\x8a\xff" + b"\x7f" * 255) * 3000 + b"t.",
    "a text of four gigabytes": b"\x80\x02X\xff\xff\xff\xffabc.",
    "marks": b"\x80\x02" + b"(" * 1_000_000 + b".",
    "memos": b"\x80\x02N" + b"".join(b"r" + struct.pack("<L", index * 7919) for index in range(150_000)) + b".",
}


def _program(name: str, content: bytes) -> None:
    @HEADERS.add(f"pickle: {name}")
    def spoil(case: Case) -> None:
        store_pickle(case, content)


def _large_extra(name: str, value: bytes) -> None:
    @HEADERS.add(f"extra: {name}")
    def spoil(case: Case) -> None:
        header, refs = parts_of(case)
        header["extra"] = "HERE"
        store_pickle(case, encode({"header": header, "tensors": refs}).replace(_text("HERE"), value))


for _name, _content in {**PROGRAMS, **LARGE}.items():
    _program(_name, _content)
_large_extra("a dict of itself", b"}q\x00" + _text("a") + b"h\x00s")
_large_extra("lists of lists of one", b"}" + _text("a") + b"]" * 5000 + b"a" * 4999 + b"s")
_large_extra("a tuple", b"}" + _text("a") + b"K\1K\2\x86s")
_large_extra("two to the power of forty values", b"}" + _text("a") + b"]q\x00" + b"](h\x00h\x00eq\x00" * 40 + b"s")
