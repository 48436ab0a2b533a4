"""The rewritten warp and decoder against the plain networks: the same function, to the last digits."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.networks.bundle import seeded_bundle
from newsstudio_ditto.networks.config import MINI, OFFICIAL, BundleConfig
from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.warp import WarpingNetwork
from newsstudio_ditto.render.fast import misfit
from newsstudio_ditto.render.fast.core import FastCore
from newsstudio_ditto.render.fast.decoder import FastDecoder
from newsstudio_ditto.render.fast.kernels import (
    DOUBLED,
    FOURFOLD,
    compose,
    enlarged_kernel,
    fold_norm,
    plain_kernel,
    shuffled_kernel,
    widen,
    windows,
)
from newsstudio_ditto.render.fast.operators import Convolution, TorchOperators
from newsstudio_ditto.render.fast.warp import FastWarp
from tests.render.tiny import TINY

DOUBLE = torch.float64
OPERATORS = TorchOperators()


def with_decoder(config: BundleConfig, up_channels: tuple[int, int], middle: int) -> BundleConfig:
    networks = config.networks
    decoder = replace(networks.decoder, up_channels=up_channels, num_middle_blocks=middle)
    return replace(config, networks=replace(networks, decoder=decoder))


def shuffling() -> BundleConfig:
    """The embedded model's kind of networks, without the picture that they carry, on an 8 px motion grid."""
    networks = MINI.networks
    dense = replace(networks.warp.dense_motion, motion_grid_px=8, num_blocks=3)
    volume = {"volume_channels": 16, "picture_px": None}
    appearance = replace(networks.appearance, num_down_blocks=4, **volume)
    warp = replace(networks.warp, volume_px=16, feature_channels=96, dense_motion=dense, **volume)
    decoder = replace(networks.decoder, feature_channels=96, picture_px=None)
    return replace(MINI, networks=replace(networks, warp=warp, appearance=appearance, decoder=decoder))


def parted() -> BundleConfig:
    """A hourglass as wide as the full one at its top, so that its volume lies in two buffers."""
    networks = TINY.networks
    dense = replace(networks.warp.dense_motion, block_expansion=32, max_features=32, mask_kernel=5)
    return replace(TINY, networks=replace(networks, warp=replace(networks.warp, dense_motion=dense)))


CONFIGS = {
    "a volume in two buffers": parted(),
    "every block has a shortcut": with_decoder(TINY, (24, 8), 2),
    "a block without a shortcut": TINY,
    "pixels shuffled": shuffling(),
}


def unsettle(network: nn.Module) -> None:
    """Give batch norms statistics and weights as training would, so that folding them wrongly shows."""
    draw = torch.Generator().manual_seed(3)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm3d):
            assert module.running_mean is not None and module.running_var is not None
            shape = module.running_mean.shape
            module.running_mean.copy_(0.1 * torch.randn(shape, generator=draw))
            module.running_var.copy_(0.5 + torch.rand(shape, generator=draw))
            module.weight.copy_(1 + 0.3 * torch.randn(shape, generator=draw))
            module.bias.copy_(0.3 * torch.randn(shape, generator=draw))


def networks(config: BundleConfig, dtype: torch.dtype) -> tuple[WarpingNetwork, SpadeDecoder]:
    bundle = seeded_bundle(config, 5, dtype=dtype)
    with torch.no_grad():
        unsettle(bundle.warp)
    return bundle.warp, bundle.decoder


def inputs(config: BundleConfig, size: int) -> tuple[Tensor, Tensor, Tensor]:
    shape, draw = config.networks.appearance, torch.Generator().manual_seed(1)
    volume = torch.randn(
        size, shape.volume_channels, shape.volume_depth, shape.volume_px, shape.volume_px, generator=draw
    )
    source = 0.3 * torch.randn(size, 21, 3, generator=draw)
    return volume, source, source + 0.05 * torch.randn(size, 21, 3, generator=draw)


def first(image: Tensor) -> Tensor:
    """Channels last to (B, C, h, w)."""
    return image[:, 0].permute(0, 3, 1, 2)


def last(image: Tensor) -> Tensor:
    """(B, C, h, w) to channels last."""
    return image.permute(0, 2, 3, 1)[:, None].contiguous()


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_the_rewritten_decoder_is_the_decoder(name: str) -> None:
    config = CONFIGS[name]
    _, decoder = networks(config, DOUBLE)
    feature = torch.randn(2, config.networks.decoder.feature_channels, 8, 8, dtype=DOUBLE)
    expected = decoder(feature)
    painted = FastDecoder(decoder, OPERATORS)(last(feature))
    assert expected.std() > 0.01
    torch.testing.assert_close(painted, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_the_rewritten_warp_is_the_warp(name: str) -> None:
    config = CONFIGS[name]
    warp, _ = networks(config, torch.float32)
    batch = inputs(config, 2)
    expected = warp(*batch)
    assert expected.std() > 0.01
    fast = FastWarp(warp, OPERATORS)
    torch.testing.assert_close(first(fast(*batch)), expected, atol=2e-5, rtol=0)
    torch.testing.assert_close(first(fast(*(part[1:] for part in batch))), expected[1:], atol=2e-5, rtol=0)


@torch.no_grad()
def test_the_core_follows_its_inputs_and_leaves_the_networks_alone() -> None:
    warp, decoder = networks(TINY, torch.float32)
    before = {key: value.clone() for key, value in [*warp.state_dict().items(), *decoder.state_dict().items()]}
    core = FastCore(warp, decoder, OPERATORS)
    batch = inputs(TINY, 3)
    swapped = tuple(part.flip(0) for part in batch)
    for given in (batch, swapped, batch):
        torch.testing.assert_close(core(*given), decoder(warp(*given)), atol=2e-5, rtol=0)
    after = dict([*warp.state_dict().items(), *decoder.state_dict().items()])
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("factor", [2, 4])
@torch.no_grad()
def test_a_convolution_after_an_enlargement_runs_on_the_small_picture(factor: int) -> None:
    weight, bias = torch.randn(5, 3, 3, 3, dtype=DOUBLE), torch.randn(5, dtype=DOUBLE)
    small = torch.randn(2, 3, 6, 4, dtype=DOUBLE)
    large = functional.interpolate(small, scale_factor=float(factor))
    expected = functional.conv2d(large, weight, bias, padding=1)
    axes = (DOUBLED,) if factor == 2 else FOURFOLD
    out = torch.full((2, 1, 6 * factor, 4 * factor, 5), float("nan"), dtype=DOUBLE)
    taps = 0
    for y in axes:
        for x in axes:
            kernel = enlarged_kernel(weight, y, x)
            taps += kernel.y.taps * kernel.y.phases * kernel.x.taps * kernel.x.phases
            OPERATORS.convolve([last(small)], Convolution((kernel,), bias), out)
    torch.testing.assert_close(first(out), expected, atol=1e-12, rtol=0)
    assert taps == {2: 16, 4: 25}[factor]


@torch.no_grad()
def test_a_volume_is_enlarged_in_height_and_width_only() -> None:
    weight, small = torch.randn(4, 3, 3, 3, 3, dtype=DOUBLE), torch.randn(1, 3, 5, 4, 2, dtype=DOUBLE)
    large = functional.interpolate(small, scale_factor=(1.0, 2.0, 2.0))
    expected = functional.conv3d(large, weight, padding=1)
    out = torch.empty(1, 5, 8, 4, 4, dtype=DOUBLE)
    kernel = enlarged_kernel(weight, DOUBLED, DOUBLED)
    OPERATORS.convolve([small.permute(0, 2, 3, 4, 1)], Convolution((kernel,)), out)
    torch.testing.assert_close(out.permute(0, 4, 1, 2, 3), expected, atol=1e-12, rtol=0)


@torch.no_grad()
def test_a_pixel_shuffle_is_part_of_the_convolution_before_it() -> None:
    weight, x = torch.randn(12, 5, 3, 3, dtype=DOUBLE), torch.randn(2, 5, 4, 6, dtype=DOUBLE)
    expected = functional.pixel_shuffle(functional.conv2d(x, weight, padding=1), 2)
    out = torch.empty(2, 1, 8, 12, 3, dtype=DOUBLE)
    OPERATORS.convolve([last(x)], Convolution((shuffled_kernel(weight),)), out)
    torch.testing.assert_close(first(out), expected, atol=1e-12, rtol=0)


@torch.no_grad()
def test_the_taps_of_a_row_are_channels_of_overlapping_windows() -> None:
    weight, x = torch.randn(3, 4, 3, 5, 5, dtype=DOUBLE), torch.randn(2, 4, 6, 7, 8, dtype=DOUBLE)
    expected = functional.conv3d(x, weight, padding=(1, 2, 2))
    padded = functional.pad(x, (2, 2)).permute(0, 2, 3, 4, 1).contiguous()
    out = torch.empty(2, 6, 7, 8, 3, dtype=DOUBLE)
    OPERATORS.convolve([windows(padded, 5)], Convolution((widen(plain_kernel(weight)),)), out)
    torch.testing.assert_close(out.permute(0, 4, 1, 2, 3), expected, atol=1e-12, rtol=0)


@torch.no_grad()
def test_norms_and_1x1_convolutions_fold_into_their_neighbours() -> None:
    x = torch.randn(2, 3, 6, 6, dtype=DOUBLE)
    inner, outer = nn.Conv2d(3, 5, 3, padding=1).double(), nn.Conv2d(5, 4, 1, bias=False).double()
    norm = nn.BatchNorm2d(5).double().eval()
    unsettle(norm)
    weight, bias = fold_norm(inner.weight, inner.bias, norm)
    torch.testing.assert_close(functional.conv2d(x, weight, bias, padding=1), norm(inner(x)), atol=1e-12, rtol=0)
    composed = functional.conv2d(
        x, compose(outer.weight, inner.weight), outer.weight[:, :, 0, 0] @ inner.bias, padding=1
    )
    torch.testing.assert_close(composed, outer(inner(x)), atol=1e-12, rtol=0)


def test_which_networks_the_kernels_fit() -> None:
    assert misfit(OFFICIAL.networks) is None
    assert misfit(shuffling().networks) is None
    assert "picture" in (misfit(MINI.networks) or "")
    odd = replace(OFFICIAL.networks.warp, volume_depth=12)
    appearance = replace(OFFICIAL.networks.appearance, volume_depth=12)
    assert "volume_depth 12" in (misfit(replace(OFFICIAL.networks, warp=odd, appearance=appearance)) or "")
    narrow = replace(OFFICIAL.networks.decoder, hidden_channels=20)
    assert "20" in (misfit(replace(OFFICIAL.networks, decoder=narrow)) or "")
