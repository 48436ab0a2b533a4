"""The hand-written pickle subset against the real pickle module and torch."""

import io
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.packet.plain_direct import OtherFormError, read_direct
from newsstudio_ditto.packet.plain_pickle import TensorRef, contiguous_strides, encode
from newsstudio_ditto.packet.plain_unpickle import _Machine, decode

scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**100), max_value=2**100)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
)
plain = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
shapes = st.lists(st.integers(min_value=0, max_value=2**40), max_size=5).map(tuple)
dtypes = st.sampled_from([torch.bool, torch.uint8, torch.float16, torch.float32, torch.float64, torch.int64])


@given(plain)
def test_plain_values_come_back_here_and_from_pickle(value: object) -> None:
    content = encode(value)
    assert decode(content, "x") == value
    assert pickle.loads(content) == value


@given(plain, st.data())
def test_the_direct_way_reads_what_the_machine_reads(value: object, data: st.DataObject) -> None:
    content = encode({"a": value, "b": TensorRef("3", torch.float16, (2, 1, 5))})
    assert read_direct(content) == _Machine(content).run()
    place = data.draw(st.integers(0, len(content) - 1))
    damaged = content[:place] + data.draw(st.binary(max_size=2)) + content[place + 1 :]
    try:
        read = read_direct(damaged)
    except OtherFormError:
        return  # the machine's to judge
    assert repr(read) == repr(_Machine(damaged).run())


def test_deep_nesting_is_left_to_the_machine() -> None:
    with pytest.raises(OtherFormError):
        read_direct(b"\x80\x02" + b"](" * 200_000 + b"e" * 200_000 + b".")


@given(plain)
def test_what_pickle_writes_is_read(value: object) -> None:
    assert decode(pickle.dumps(value, protocol=2), "x") == value


@given(st.integers(min_value=0, max_value=10**9 - 1), dtypes, shapes)
def test_tensor_refs_come_back(key: int, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    ref = TensorRef(str(key), dtype, shape)
    assert decode(encode({"a": ref}), "x") == {"a": ref}


def test_equal_values_give_equal_bytes() -> None:
    shared = "generation"
    separate = "".join(["gener", "ation"])
    assert encode([shared, shared]) == encode([shared, separate])


def test_torch_save_content_is_read(tmp_path: Path) -> None:
    tensor = torch.zeros(2, 3, dtype=torch.float16)
    torch.save({"header": {"n": 1}, "tensors": {"a": tensor, "b": torch.ones(1, 4, 1)}}, tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        value = decode(archive.read("x/data.pkl"), "x")
    assert value == {
        "header": {"n": 1},
        "tensors": {"a": TensorRef("0", torch.float16, (2, 3)), "b": TensorRef("1", torch.float32, (1, 4, 1))},
    }


@given(shapes)
def test_strides_are_those_of_torch(shape: tuple[int, ...]) -> None:
    small = tuple(min(size, 3) for size in shape if size)
    assert contiguous_strides(small) == torch.empty(small).stride()


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        """Make unpickling run code."""
        return (Path.touch, (Path("pwned"),))


REFUSED = {
    "code": pickle.dumps(Bomb(), protocol=2),
    "path": pickle.dumps(Path("a"), protocol=2),
    "set": pickle.dumps({1, 2}, protocol=2),
    "protocol 4": pickle.dumps({"a": 1}, protocol=4),
    "number as key": pickle.dumps({1: 2}, protocol=2),
    "same key twice": b"\x80\x02}(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00aK\x02u.",
    "cut": encode({"a": [1, 2, "three"]})[:-3],
    "appended": encode({"a": 1}) + b"N.",
    "memo bomb": b"\x80\x02Nr\xff\xff\xff\x7f",
    "unknown memo": b"\x80\x02h\x05.",
    "stray mark": b"\x80\x02(N.",
    "no mark": b"\x80\x02Nt.",
    "empty": b"",
    "only a stop": b"\x80\x02.",
    "text past the end": b"\x80\x02X\xff\xff\xff\xffabc.",
    "broken utf-8": b"\x80\x02X\x01\x00\x00\x00\xff.",
    "global without end": b"\x80\x02ctorch.",
    "call without function": b"\x80\x02N)R.",
    "append to nothing": b"\x80\x02Na.",
    "storage of nothing": b"\x80\x02NQ.",
}


@pytest.mark.parametrize("name", REFUSED)
def test_anything_else_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PacketFormatError, match="the-file"):
        decode(REFUSED[name], "the-file")
    assert not (tmp_path / "pwned").exists()


def test_a_large_memo_slot_costs_no_memory() -> None:
    assert decode(b"\x80\x02Nr\xff\xff\xff\x7f.", "x") is None


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(4, 5).mT, torch.zeros(8)[2:], torch.zeros(1).expand(5), torch.zeros(2, requires_grad=True)],
    ids=["transposed", "slice", "expanded", "with gradient"],
)
def test_tensors_that_are_not_plain_are_refused(tensor: torch.Tensor) -> None:
    buffer = io.BytesIO()
    torch.save({"a": tensor}, buffer)
    with zipfile.ZipFile(buffer) as archive, pytest.raises(PacketFormatError):
        decode(archive.read("archive/data.pkl"), "x")


@pytest.mark.parametrize("value", [Path("a"), (1, 2), {1: 2}, b"x", float, {1, 2}])
def test_values_that_are_not_plain_cannot_be_written(value: object) -> None:
    with pytest.raises(PacketFormatError, match=r"plain|text keys"):
        encode({"a": value})


def test_numpy_scalars_cannot_be_written() -> None:
    number = torch.zeros(1).numpy()[0]
    with pytest.raises(PacketFormatError, match="float32"):
        encode({"a": number})


@given(st.binary(max_size=60))
def test_noise_is_refused_or_read_and_never_crashes(noise: bytes) -> None:
    try:
        decode(b"\x80\x02" + noise + b".", "x")
    except PacketFormatError as error:
        assert error.hint
