"""Behaviour of the modules beyond the goldens: training, shapes, equivalences, capture in a CUDA graph."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.networks.appearance import AppearanceExtractor
from newsstudio_ditto.networks.build import seeded_network
from newsstudio_ditto.networks.config import MINI, MINI_NETWORKS, OFFICIAL, BundleConfig, NetworkConfig, WarpConfig
from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.motion_diffusion import EncodedCondition, MotionDenoiser, sample_window
from newsstudio_ditto.networks.motion_extractor import MotionExtractor
from newsstudio_ditto.networks.stitching import StitchingNetwork
from newsstudio_ditto.networks.transformer import Attention, RotaryEmbedding
from newsstudio_ditto.networks.warp import WarpingNetwork
from tests.networks.sizes import TINY_NETWORKS

DENOISER = TINY_NETWORKS.motion_diffusion


def keypoints(batch: int) -> tuple[Tensor, Tensor]:
    return 0.4 * torch.randn(batch, 21, 3), 0.4 * torch.randn(batch, 21, 3)


@pytest.mark.parametrize("networks", [TINY_NETWORKS, MINI_NETWORKS], ids=["tiny", "mini"])
def test_training_reaches_every_weight_of_the_renderer(networks: NetworkConfig) -> None:
    torch.manual_seed(0)
    parts = nn.ModuleList(
        [AppearanceExtractor(networks.appearance), WarpingNetwork(networks.warp), SpadeDecoder(networks.decoder)]
    ).train()
    is_small = networks is TINY_NETWORKS  # the larger ones take minutes in bfloat16 on processors without it
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16, enabled=is_small):
        volume = parts[0](torch.rand(2, 3, networks.appearance.input_px, networks.appearance.input_px))
        source, driving = keypoints(2)
        image = parts[2](parts[1](volume, source, driving))
        image.float().square().mean().backward()
    assert image.shape == (2, 3, 8 * networks.warp.volume_px, 8 * networks.warp.volume_px)
    silent = [name for name, parameter in parts.named_parameters() if parameter.grad is None]
    assert silent == []


def test_keypoints_get_gradients_through_the_warp() -> None:
    torch.manual_seed(0)
    network = WarpingNetwork(TINY_NETWORKS.warp).eval()
    source, driving = keypoints(1)
    with torch.enable_grad():
        driving.requires_grad_()
        network(torch.randn(1, 3, 4, 32, 32), source, driving).square().mean().backward()
    assert driving.grad is not None
    assert torch.isfinite(driving.grad).all()
    assert driving.grad.any()


@pytest.mark.parametrize("networks", [TINY_NETWORKS, MINI_NETWORKS], ids=["tiny", "mini"])
def test_motion_extractor_returns_the_published_heads(networks: NetworkConfig) -> None:
    output = seeded_network(networks, "motion_extractor", 0)(torch.rand(2, 3, 256, 256))
    assert [tuple(part.shape) for part in output] == [(2, 66), (2, 66), (2, 66), (2, 3), (2, 63), (2, 1), (2, 63)]
    assert isinstance(MotionExtractor(networks.motion_extractor), nn.Module)
    assert (output.scale > 0.5).all(), "an untrained extractor must not make a face of no size"


def test_seeded_stitching_returns_the_driving_keypoints_bit_for_bit() -> None:
    network = seeded_network(MINI_NETWORKS, "stitching", 0)
    source, driving = keypoints(3)
    assert torch.equal(network(source, driving), driving)


def test_stitching_shifts_all_points_by_the_last_two_outputs() -> None:
    network = StitchingNetwork(TINY_NETWORKS.stitching)
    network.reset_to_identity()
    last = network.mlp[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.bias[-2:] = torch.tensor([0.25, -0.5])
    source, driving = keypoints(2)
    torch.testing.assert_close(network(source, driving), driving + torch.tensor([0.25, -0.5, 0.0]))


def test_attention_equals_torchs_own_with_the_same_weights() -> None:
    torch.manual_seed(0)
    own, reference = Attention(16, 2), nn.MultiheadAttention(16, 2, batch_first=True)
    reference.load_state_dict(own.state_dict(), strict=True)
    query, key, value = torch.randn(2, 5, 16), torch.randn(2, 7, 16), torch.randn(2, 7, 16)
    torch.testing.assert_close(own(query, key, value), reference(query, key, value)[0], atol=1e-6, rtol=1e-5)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 39))
@settings(max_examples=50)
def test_rotated_products_depend_on_the_distance_of_rows_alone(first: int, second: int, shift: int) -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 16, generator=generator)
    rotary = RotaryEmbedding(16)
    queries, keys = rotary(query.expand(1, 80, 16))[0], rotary(key.expand(1, 80, 16))[0]
    here, there = queries[first] @ keys[second], queries[first + shift] @ keys[second + shift]
    torch.testing.assert_close(here, there, atol=1e-4, rtol=0)
    torch.testing.assert_close(queries.norm(dim=-1), query.norm().expand(80))


def test_guided_prediction_equals_two_separate_passes() -> None:
    denoiser = seeded_network(TINY_NETWORKS, "motion_diffusion", 0)
    assert isinstance(denoiser, MotionDenoiser)
    x, first, step = torch.randn(3, 80, 265), torch.randn(3, 265), torch.tensor([0, 500, 999])
    condition = torch.randn(3, 80, DENOISER.condition_dim)
    guided = denoiser.predict_guided(x, first, denoiser.encode_guided(condition), step, 2.0)
    conditional = denoiser(x, first, denoiser.encode_condition(condition), step)
    unconditional = denoiser(x, first, denoiser.null_condition(3), step)
    torch.testing.assert_close(guided, unconditional + 2 * (conditional - unconditional), atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 5, 7, 10, 30])
def test_sampling_ends_at_the_last_prediction_without_nan(num_steps: int) -> None:
    encoded = EncodedCondition(torch.zeros(2, 80, 16), torch.zeros(2, 16))
    calls: list[list[int]] = []

    def predict(x: Tensor, _first: Tensor, _encoded: EncodedCondition, step: Tensor) -> Tensor:
        assert torch.isfinite(x).all()
        calls.append(step.tolist())
        return torch.full_like(x, 0.25)

    noise = torch.randn(num_steps, 2, 80, 265)
    motion = sample_window(predict, torch.zeros(2, 265), encoded, noise, ddim_schedule(num_steps))
    assert torch.equal(motion, torch.full_like(motion, 0.25))
    assert len(calls) == num_steps
    assert calls[0] == [999, 999]


@pytest.mark.parametrize(("samples", "rows"), [(6480, 20), (400, 1), (719, 1), (720, 2), (12960, 40)])
def test_audio_encoder_gives_one_row_per_hop(samples: int, rows: int) -> None:
    encoder = seeded_network(TINY_NETWORKS, "audio_encoder", 0)
    assert encoder(torch.randn(2, samples)).shape == (2, rows, 16)


def test_audio_encoder_is_the_same_in_training_and_in_evaluation() -> None:
    encoder = seeded_network(TINY_NETWORKS, "audio_encoder", 0)
    windows = 0.1 * torch.randn(2, 6480)
    torch.testing.assert_close(encoder(windows), encoder.train()(windows))


def test_windows_are_encoded_independently() -> None:
    encoder = seeded_network(MINI_NETWORKS, "audio_encoder", 0)
    windows = 0.1 * torch.randn(3, 6480)
    together = encoder(windows)
    torch.testing.assert_close(together[1:2], encoder(windows[1:2]), atol=1e-5, rtol=0)


def test_condition_width_counts_the_parts_in_use() -> None:
    assert OFFICIAL.networks.motion_diffusion.condition_dim == 1103
    assert MINI.networks.motion_diffusion.condition_dim == 128


@pytest.mark.parametrize(
    "build",
    [
        lambda: WarpConfig(volume_px=40),
        lambda: NetworkConfig(warp=WarpConfig(volume_channels=8)),
        lambda: BundleConfig(lip_points=(21,)),
    ],
)
def test_configs_that_cannot_be_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(BundleError):
        build()
