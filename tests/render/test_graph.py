"""What the graph runner refuses and when graphs are used; replays themselves are in test_graph_cuda.py."""

import logging

import pytest
import torch

from newsstudio_ditto.errors import DeviceError, GraphInputError
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.render import engine as engines
from newsstudio_ditto.render.engine import Engine, choose_device, compute_dtype, warm_engine
from newsstudio_ditto.render.graph import SWITCH, expect_like, expect_names, use_graphs
from tests.render.conftest import CPU
from tests.render.tiny import RENDER_PX, tiny_bundle

CUDA = torch.device("cuda", 0)


@pytest.mark.parametrize(
    "given", [torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, 3, device="meta")]
)
def test_another_shape_dtype_or_device_is_refused_with_both_and_the_way_out(given: torch.Tensor) -> None:
    with pytest.raises(GraphInputError) as refusal:
        expect_like(given, torch.zeros(2, 3), "volume")
    assert "'volume'" in refusal.value.what
    assert "float32 (2, 3) on cpu" in refusal.value.what
    assert str(tuple(given.shape)) in refusal.value.what
    assert "--eager" in refusal.value.hint
    assert f"{SWITCH}=1" in refusal.value.hint


def test_missing_and_unknown_inputs_are_named() -> None:
    with pytest.raises(GraphInputError, match=r"missing \['b'\], unknown \['c'\]"):
        expect_names({"a": torch.zeros(1), "c": torch.zeros(1)}, {"a": torch.zeros(1), "b": torch.zeros(1)})


def test_graphs_are_for_cuda_only() -> None:
    assert use_graphs(CUDA, eager=False)
    assert not use_graphs(CPU, eager=False)


def test_both_switches_forbid_graphs_loudly(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not use_graphs(CUDA, eager=True)
        monkeypatch.setenv(SWITCH, "1")
        assert not use_graphs(CUDA, eager=False)
    assert [record.__dict__["cause"] for record in caplog.records] == ["--eager", f"{SWITCH}=1"]
    monkeypatch.setenv(SWITCH, "0")
    assert use_graphs(CUDA, eager=False)


def test_the_cpu_engine_is_eager_float32_and_takes_any_batch(bundle: ModelBundle) -> None:
    engine = Engine(bundle, device=CPU)
    assert not engine.is_graphed
    assert engine.warm_up() == 0.0
    keypoints = torch.zeros(5, 21, 3)
    image = engine.render(torch.zeros(5, 4, 4, 16, 16, dtype=torch.float16), keypoints, keypoints)
    assert image.shape == (5, 3, RENDER_PX, RENDER_PX)
    assert image.dtype == compute_dtype(CPU) == torch.float32
    assert not image.requires_grad


def test_a_batch_is_padded_to_the_next_captured_size(bundle: ModelBundle) -> None:
    engine = Engine(bundle, device=CPU, batch_sizes=(8, 1, 4))
    assert [engine._fitting_size(count) for count in (1, 2, 4, 5, 8)] == [1, 4, 4, 8, 8]
    with pytest.raises(GraphInputError, match="a batch of 9 frames, captured are batches of"):
        engine._fitting_size(9)
    padded = engines._padded(torch.tensor([[1.0], [2.0]]), 4)
    assert padded.tolist() == [[1.0], [2.0], [2.0], [2.0]]


def test_auto_takes_what_there_is_and_a_missing_device_is_refused() -> None:
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert choose_device("cpu") == CPU
    with pytest.raises(DeviceError, match="cuda:63"):
        choose_device("cuda:63")


def test_a_process_keeps_one_engine_and_drops_it_for_other_weights(
    bundle: ModelBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_engines", {})
    first = warm_engine(bundle, CPU)
    assert warm_engine(bundle, CPU) is first
    other = warm_engine(tiny_bundle(seed=8), CPU)
    assert other is not first
    assert list(engines._engines.values()) == [other]
