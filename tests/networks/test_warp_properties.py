"""The warp's algebra against the plain way of doing the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from newsstudio_ditto.networks.config import MINI_NETWORKS, WarpConfig
from newsstudio_ditto.networks.warp import DenseMotionNetwork, WarpingNetwork, interpolation_matrix
from tests.networks.sizes import TINY_NETWORKS

CONFIG = TINY_NETWORKS.warp


def motion(config: WarpConfig = CONFIG) -> DenseMotionNetwork:
    torch.manual_seed(0)
    return DenseMotionNetwork(config).eval()


def keypoints(seed: int, batch: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    source = 0.5 * torch.randn(batch, 21, 3, generator=generator)
    return source, source + 0.2 * torch.randn(batch, 21, 3, generator=generator)


def identity_grid(depth: int, size: int) -> Tensor:
    z, y, x = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in (depth, size, size)), indexing="ij")
    return torch.stack([x, y, z], dim=-1)


def candidate_grids(source: Tensor, driving: Tensor, depth: int, size: int) -> Tensor:
    grid = identity_grid(depth, size)
    moved = grid - driving[:, :, None, None, None] + source[:, :, None, None, None]
    return torch.cat([grid.expand(len(source), 1, -1, -1, -1, -1), moved], dim=1)


@given(st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=9), st.integers(1, 9))
@settings(max_examples=100)
def test_interpolation_matrix_reads_as_grid_sample_does(coordinates: list[float], num_cells: int) -> None:
    line = torch.arange(1.0, num_cells + 1) ** 2
    x = torch.tensor(coordinates)
    grid = torch.stack([x, torch.zeros_like(x)], dim=-1)[None, None]
    sampled = functional.grid_sample(line[None, None, None], grid, align_corners=False)[0, 0, 0]
    torch.testing.assert_close(interpolation_matrix(x, num_cells) @ line, sampled, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_deformed_volumes_equal_sampling_at_22_grids(seed: int) -> None:
    source, driving = keypoints(seed)
    size = CONFIG.dense_motion.motion_grid_px
    compressed = torch.randn(2, 2, CONFIG.volume_depth, size, size, generator=torch.Generator().manual_seed(seed))
    grids = candidate_grids(source, driving, CONFIG.volume_depth, size)
    expected = torch.stack(
        [functional.grid_sample(compressed, grids[:, k], align_corners=False) for k in range(22)], dim=1
    )
    torch.testing.assert_close(motion().deform(compressed, source, driving), expected, atol=2e-4, rtol=0)


def test_heat_maps_are_differences_of_gaussians() -> None:
    source, driving = keypoints(1)
    grid = identity_grid(CONFIG.volume_depth, CONFIG.dense_motion.motion_grid_px)

    def gaussians(points: Tensor) -> Tensor:
        return torch.exp(-((grid - points[:, :, None, None, None]) ** 2).sum(-1) / 0.02)

    heat = motion().heat_maps(source, driving)
    assert not heat[:, 0].any()
    torch.testing.assert_close(heat[:, 1:], gaussians(driving) - gaussians(source), atol=1e-6, rtol=0)


@pytest.mark.parametrize("chosen", [0, 1, 21])
def test_flow_of_a_mask_that_chooses_one_motion_is_that_motion(chosen: int) -> None:
    source, driving = keypoints(2)
    size = CONFIG.dense_motion.motion_grid_px
    mask = torch.zeros(2, 22, CONFIG.volume_depth, size, size)
    mask[:, chosen] = 1
    expected = candidate_grids(source, driving, CONFIG.volume_depth, size)[:, chosen]
    torch.testing.assert_close(motion().flow(mask, source, driving), expected, atol=1e-6, rtol=0)


def test_equal_keypoints_give_the_identity_flow_whatever_the_mask() -> None:
    source, _ = keypoints(3)
    volume = torch.randn(2, CONFIG.volume_channels, CONFIG.volume_depth, CONFIG.volume_px, CONFIG.volume_px)
    flow, occlusion = motion()(volume, source, source)
    torch.testing.assert_close(flow, identity_grid(CONFIG.volume_depth, CONFIG.volume_px).expand_as(flow))
    assert ((occlusion > 0) & (occlusion < 1)).all()


def test_flow_of_a_small_motion_grid_is_enlarged_to_the_volume() -> None:
    config = MINI_NETWORKS.warp
    source, driving = keypoints(4, batch=1)
    flow, occlusion = motion(config)(torch.randn(1, 16, 8, 64, 64), source, driving)
    assert flow.shape == (1, 8, 64, 64, 3)
    assert occlusion.shape == (1, 1, 64, 64)


def test_grids_keep_float32_when_the_network_is_cast() -> None:
    network = WarpingNetwork(CONFIG).eval().half()
    dense = network.dense_motion_network
    torch.testing.assert_close(dense.axis_px, torch.linspace(-1, 1, 32), rtol=0, atol=0)
    torch.testing.assert_close(dense.axis_depth, torch.linspace(-1, 1, 4), rtol=0, atol=0)
    assert network.fourth.weight.dtype == torch.float16


def test_flow_keeps_float32_under_autocast_and_stays_close() -> None:
    network = motion()
    source, driving = keypoints(5)
    volume = torch.randn(2, CONFIG.volume_channels, CONFIG.volume_depth, CONFIG.volume_px, CONFIG.volume_px)
    flow, _ = network(volume, source, driving)
    with torch.autocast("cpu", torch.bfloat16):
        cast_flow, occlusion = network(volume, source, driving)
    assert cast_flow.dtype == occlusion.dtype == torch.float32
    torch.testing.assert_close(cast_flow, flow, atol=2e-2, rtol=0)


def test_volume_of_another_dtype_is_cast() -> None:
    torch.manual_seed(0)
    network = WarpingNetwork(CONFIG).eval()
    volume = torch.randn(1, 3, 4, 32, 32).half()
    source, driving = keypoints(6, batch=1)
    torch.testing.assert_close(network(volume, source, driving), network(volume.float(), source, driving))
