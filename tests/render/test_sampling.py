"""The unrolled sampler against the plain loop over the plain network."""

from functools import partial

import pytest
import torch

from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.networks.motion_diffusion import sample_window
from newsstudio_ditto.networks.transformer import Attention
from newsstudio_ditto.render.modulation import Mix, Norm, attend, linear_mixed, linear_of_two, linear_parts, modulate
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
    moved, normal, turned = modulate(x, torch.stack([0.25 * branch, 0.75 * branch]), modulation, norm, (cos, sin))
    expected = x + branch * (modulation[:, None, :8] + 1) + modulation[:, None, 8:]
    torch.testing.assert_close(moved, expected)
    plain = torch.nn.functional.layer_norm(expected, (8,), norm.weight, norm.bias, 1e-5)
    torch.testing.assert_close(normal, plain)
    torch.testing.assert_close(turned, plain * cos + plain[..., [1, 0, 3, 2, 5, 4, 7, 6]] * sin)
    assert modulate(x, None, None, None, None)[0] is x


def test_what_both_halves_share_is_modulated_for_each() -> None:
    draw = torch.Generator().manual_seed(8)
    x, branch, modulation = (torch.randn(*shape, generator=draw) for shape in ((1, 4, 8), (3, 1, 4, 8), (2, 16)))
    moved, _, _ = modulate(x, branch, modulation, None, None)
    repeated, _, _ = modulate(x.repeat(2, 1, 1), branch.repeat(1, 2, 1, 1), modulation, None, None)
    torch.testing.assert_close(moved, repeated, atol=0, rtol=0)


@torch.no_grad()
def test_attention_is_that_of_the_network() -> None:
    draw = torch.Generator().manual_seed(9)
    attention = Attention(16, 2)
    rows, memory, tokens = (torch.randn(*shape, generator=draw) for shape in ((2, 4, 16), (2, 5, 16), (2, 16)))
    weight, bias = attention.in_proj_weight, attention.in_proj_bias
    joined = linear_of_two(rows, rows.flip(1), 32, weight, bias)
    attended = attend(*joined.chunk(3, dim=-1), 2)
    out = linear_parts(attended, attention.out_proj.weight, attention.out_proj.bias)
    torch.testing.assert_close(out.sum(dim=0), attention(rows, rows, rows.flip(1)))
    own, more = (linear_of_two(x, x, 16, weight[16:], bias[16:]).chunk(2, dim=-1) for x in (memory, tokens))
    crossed = attend(rows, *own, 2, more=more, projection=(weight[:16], bias[:16]))
    out = linear_parts(crossed, attention.out_proj.weight, attention.out_proj.bias)
    whole = torch.cat([memory, tokens.expand(2, -1, -1)], dim=1)
    torch.testing.assert_close(out.sum(dim=0), attention(rows, whole, whole))


def test_a_mixed_product_is_guided_first() -> None:
    draw = torch.Generator().manual_seed(10)
    hidden, weight, bias = torch.randn(2, 4, 8, generator=draw), torch.randn(3, 8, generator=draw), torch.ones(3)
    previous, noise = torch.randn(1, 4, 3, generator=draw), torch.randn(1, 4, 3, generator=draw)
    clean = (hidden[1:] + 1.7 * (hidden[:1] - hidden[1:])) @ weight.T + bias
    torch.testing.assert_close(linear_mixed(hidden, weight, bias, 1.7, None), clean)
    mixed = linear_mixed(hidden, weight, bias, 1.7, Mix(0.5, previous, 0.3, noise, 0.1))
    torch.testing.assert_close(mixed, 0.5 * clean + 0.3 * previous + 0.1 * noise)
