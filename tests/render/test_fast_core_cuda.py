"""The fused kernels on a CUDA device, always with two inputs: one cannot show a stale buffer."""

import pytest
import torch

from newsstudio_ditto.networks.bundle import seeded_bundle
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.fast import SWITCH, FastCore, fused_operators
from tests.render.test_fast_core import CONFIGS, inputs, unsettle

MAX_MEAN_LEVELS, MAX_LEVELS = 0.5, 8


@pytest.fixture
def hopper(needs_cuda: torch.device) -> torch.device:
    """A CUDA device that the kernels are written for."""
    capability = torch.cuda.get_device_capability(needs_cuda)
    if capability != (9, 0):
        pytest.skip(f"the kernels are written for compute capability 9.0, this card has {capability}")
    return needs_cuda


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_fused_kernels_on_cuda_paint_what_the_plain_networks_paint_in_float32(name: str, hopper: torch.device) -> None:
    config = CONFIGS[name]
    exact, reduced = (seeded_bundle(config, 5, device=hopper, dtype=dtype) for dtype in (torch.float32, torch.float16))
    for bundle in (exact, reduced):
        unsettle(bundle.warp)
    core = FastCore(reduced.warp, reduced.decoder, fused_operators())
    batch = tuple(part.to(hopper) for part in inputs(config, 3))
    for given in (batch, tuple(part.flip(0)[:1] for part in batch), batch):
        volume, *keypoints = given
        painted = core(volume.half(), *keypoints)
        expected = exact.decoder(exact.warp(volume, *keypoints))
        difference = (painted.float() - expected).abs() * 255
        assert difference.mean() < MAX_MEAN_LEVELS
        assert difference.max() < MAX_LEVELS


def test_an_engine_whose_kernels_paint_something_else_goes_on_with_the_plain_networks(hopper: torch.device) -> None:
    bundle = seeded_bundle(CONFIGS["pixels shuffled"], 5, device=hopper, dtype=torch.float16)
    other = seeded_bundle(CONFIGS["pixels shuffled"], 6, device=hopper, dtype=torch.float16)
    engine = Engine(bundle, device=hopper, batch_sizes=(1, 4))
    engine._fast = FastCore(other.warp, other.decoder, fused_operators())
    engine.warm_up()
    assert engine.core == "plain"
    batch = tuple(part.to(hopper) for part in inputs(CONFIGS["pixels shuffled"], 4))
    eager = Engine(bundle, device=hopper, eager=True, batch_sizes=(4,))
    assert torch.equal(engine.render(*batch), eager.render(*batch))


def test_the_engine_on_cuda_says_which_core_it_runs_and_can_be_told(
    hopper: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = seeded_bundle(CONFIGS["pixels shuffled"], 5, device=hopper, dtype=torch.float16)
    batch = tuple(part.to(hopper) for part in inputs(CONFIGS["pixels shuffled"], 4))
    fused = Engine(bundle, device=hopper, batch_sizes=(4,))
    eager = Engine(bundle, device=hopper, eager=True, batch_sizes=(4,))
    monkeypatch.setenv(SWITCH, "1")
    plain = Engine(bundle, device=hopper, batch_sizes=(4,))
    assert [engine.core for engine in (fused, plain, eager)] == ["fused", "plain", "plain"]
    first, second, third = (engine.render(*batch).float().clone() for engine in (fused, plain, eager))
    assert torch.equal(second, third)
    assert ((first - third).abs() * 255).mean() < MAX_MEAN_LEVELS
