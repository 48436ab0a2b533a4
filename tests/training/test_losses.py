import math

import pytest
import torch

from training.losses import edge_energy_loss, relative_square_loss


def test_edge_strength_is_compared_picture_by_picture() -> None:
    wanted = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    soft = torch.nn.functional.avg_pool2d(wanted, 5, 1, 2)
    given = torch.stack([wanted[0], soft[1]])
    same, softer = edge_energy_loss(given, wanted)
    assert same == 0
    assert softer > 0.1


def test_edges_of_equal_strength_elsewhere_cost_nothing() -> None:
    wanted = torch.zeros(1, 3, 64, 64)
    wanted[..., 2::8, :] = 1.0
    moved = wanted.roll(2, dims=2)
    assert edge_energy_loss(moved, wanted) < 0.05 * edge_energy_loss(torch.zeros_like(wanted), wanted)


def test_a_tenth_of_the_error_counts_the_same_for_easy_and_hard_pictures() -> None:
    draw = torch.Generator().manual_seed(1)
    target, noise = torch.rand(2, 3, 128, 128, generator=draw), torch.randn(2, 3, 128, 128, generator=draw)
    keypoints = torch.zeros(2, 21, 3)
    hard, easy = (torch.stack([0.3 * noise[0], level * noise[1]]) for level in (0.3, 0.1))
    before, after = (relative_square_loss(target + error, target, keypoints) for error in (hard, easy))
    assert float(before - after) == pytest.approx(math.log(9) / 2, rel=1e-3)
