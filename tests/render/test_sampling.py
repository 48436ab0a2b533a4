"""The unrolled sampler against the plain loop over the plain network."""

from functools import partial

import pytest
import torch

from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.networks.motion_diffusion import sample_window
from newsstudio_ditto.render.modulation import Norm, modulate
from newsstudio_ditto.render.sampling import UnrolledSampler, rotation_table, swap_pairs
from newsstudio_ditto.render.window_sampler import GuidedStep

TOLERANCE = 2e-5
"""Of motion of size 1 to 4 after all steps; both are float32, with sums in another order."""


def drawn(seed: int, num_steps: int, width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(num_steps, 1, 80, 265, generator=draw)
    return noise, 0.1 * torch.randn(1, 265, generator=draw), torch.randn(80, width, generator=draw)


@pytest.mark.parametrize(("num_steps", "scale"), [(1, 2.0), (5, 2.0), (10, 1.6), (4, 1.0), (3, 0.0)])
def test_a_whole_run_is_that_of_the_plain_loop(num_steps: int, scale: float, bundle: ModelBundle) -> None:
    denoiser = bundle.motion_diffusion
    plain, schedule = GuidedStep(denoiser, is_graphed=False), ddim_schedule(num_steps)
    unrolled = UnrolledSampler(denoiser, schedule, scale)
    results = []
    for seed in (1, 2):
        noise, first, rows = drawn(seed, num_steps, denoiser.config.condition_dim)
        with torch.no_grad():
            encoded = plain.encode(rows, scale)
            expected = sample_window(partial(plain.predict, scale=scale), first, encoded, noise, schedule)
        result = unrolled(noise, first, rows[None])
        torch.testing.assert_close(result, expected, atol=TOLERANCE, rtol=0)
        results.append(result)
    assert (results[0] - results[1]).abs().max() > 0.1


def test_without_graphs_no_run_is_unrolled(bundle: ModelBundle) -> None:
    step = GuidedStep(bundle.motion_diffusion, is_graphed=False)
    step.warm_up(5, 2.0)
    noise, first, rows = drawn(1, 5, bundle.motion_diffusion.config.condition_dim)
    assert step.sample(noise, first, rows, 2.0) is None


def test_the_table_turns_as_the_embedding_does(bundle: ModelBundle) -> None:
    rotary = bundle.motion_diffusion.rotary
    x = torch.randn(2, 9, rotary.width, generator=torch.Generator().manual_seed(3))
    cos, sin = rotation_table(rotary, 9)
    torch.testing.assert_close(x * cos + swap_pairs(x) * sin, rotary(x), atol=1e-6, rtol=0)


def test_modulation_is_its_formula() -> None:
    draw = torch.Generator().manual_seed(5)
    x, branch = torch.randn(2, 4, 8, generator=draw), torch.randn(2, 4, 8, generator=draw)
    modulation = torch.randn(2, 16, generator=draw)
    norm = Norm(torch.randn(8, generator=draw), torch.randn(8, generator=draw), 1e-5)
    cos, sin = torch.randn(4, 8, generator=draw), torch.randn(4, 8, generator=draw)
    moved, normal, turned = modulate(x, branch, modulation, norm, (cos, sin))
    expected = x + branch * (modulation[:, None, :8] + 1) + modulation[:, None, 8:]
    torch.testing.assert_close(moved, expected)
    plain = torch.nn.functional.layer_norm(expected, (8,), norm.weight, norm.bias, 1e-5)
    torch.testing.assert_close(normal, plain)
    torch.testing.assert_close(turned, plain * cos + plain[..., [1, 0, 3, 2, 5, 4, 7, 6]] * sin)
    assert modulate(x, None, None, None, None)[0] is x
