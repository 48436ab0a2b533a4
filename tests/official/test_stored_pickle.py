"""Walking pickles: everything numpy writes comes back equal, nothing else comes back at all."""

import collections
import datetime
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.official.stored_array import StoredArray
from newsstudio_ditto.official.stored_pickle import read_stored


def read(path: Path, content: bytes) -> dict[str, Any]:
    path.write_bytes(content)
    return read_stored(path, PacketFormatError, "hint")


def unfold(value: Any) -> Any:
    if isinstance(value, StoredArray):
        return value.view()
    if isinstance(value, dict):
        return {key: unfold(item) for key, item in value.items()}
    return type(value)(unfold(item) for item in value) if isinstance(value, list | tuple) else value


def assert_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    else:
        assert found == wanted and type(found) is type(wanted)


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | hnp.arrays(
        st.sampled_from(["<f4", ">f8", "<f2", "|u1", "<i8", "|b1"]),
        hnp.array_shapes(max_dims=3, min_side=0, max_side=4),
    ).filter(lambda array: not (array.dtype.kind == "f" and np.isnan(array).any()))
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner, inner, inner)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values, st.sampled_from([3, 4, 5]), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_numpy_and_python_write_comes_back_equal(tmp_path: Path, value: Any, protocol: int, twice: bool) -> None:
    content = {"value": value, "again": value if twice else 1}
    assert_same(unfold(read(tmp_path / "a.pkl", pickle.dumps(content, protocol=protocol))), content)


def test_orders_and_scalars(tmp_path: Path) -> None:
    square = np.arange(6, dtype=np.float32).reshape(2, 3)
    content = {"f": np.asfortranarray(square), "part": square[:, 1], "i": np.int64(3), "b": np.bool_(True)}
    found = unfold(read(tmp_path / "a.pkl", pickle.dumps(content)))
    np.testing.assert_array_equal(found["f"], square)
    np.testing.assert_array_equal(found["part"], square[:, 1])
    assert (found["i"], found["b"]) == (3, True)


def test_arrays_are_views_that_nobody_can_write_to(tmp_path: Path) -> None:
    array = read(tmp_path / "a.pkl", pickle.dumps({"a": np.zeros(100_000)}))["a"].view()
    assert not array.flags.owndata and not array.flags.writeable


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": datetime.date(2020, 1, 1)}, "datetime"),
        ({"a": {1, 2}}, "pickle operation"),
        ({"a": collections.OrderedDict()}, "OrderedDict"),
        ({"a": np.array([{}], dtype=object)}, "as numpy stores plain ones|dtype"),
        ({"a": np.array(["x"])}, "dtype"),
        ({"a": np.zeros(2, dtype=[("x", "f4")])}, "dtype"),
        ({"a": np.ma.masked_array([1], [True])}, "names"),
        ([1, 2], "expected a dict"),
        ({1: 2}, "expected a dict"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, value: Any, words: str) -> None:
    with pytest.raises(PacketFormatError, match=words):
        read(tmp_path / "a.pkl", pickle.dumps(value))


def test_protocol_2_is_explained(tmp_path: Path) -> None:
    with pytest.raises(PacketFormatError, match="protocol 4"):
        read(tmp_path / "a.pkl", pickle.dumps({"a": np.ones(3)}, protocol=2))


@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x04.", b"\x80\x04N.", b"\x80\x04K"])
def test_what_is_no_pickle_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(PacketFormatError):
        read(tmp_path / "a.pkl", content)


def test_every_cut_and_many_changed_bytes_end_in_our_error_or_in_a_dict(tmp_path: Path) -> None:
    whole = pickle.dumps({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": [1, "x", (2.0, None)]})
    for length in range(len(whole)):
        with pytest.raises(PacketFormatError):
            read(tmp_path / "a.pkl", whole[:length])
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        broken = bytearray(whole)
        broken[rng.integers(len(whole))] = rng.integers(256)
        try:
            unfold(read(tmp_path / "a.pkl", bytes(broken)))
        except PacketFormatError:
            refused += 1
        except ValueError:
            pytest.fail(f"another error for {bytes(broken)!r}")
    assert refused > 100


def test_a_list_of_lists_that_would_fill_any_memory_costs_nothing(tmp_path: Path) -> None:
    bomb: list[Any] = ["x"]
    for _ in range(60):
        bomb = [bomb] * 10
    found = read(tmp_path / "a.pkl", pickle.dumps({"bomb": bomb}))
    assert len(found["bomb"]) == 10


def test_a_length_beyond_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PacketFormatError, match="cut short"):
        read(tmp_path / "a.pkl", b"\x80\x04}\x8c\x01a\x8e" + (2**40).to_bytes(8, "little") + b"xs.")
