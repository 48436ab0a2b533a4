"""Small networks that grow into larger ones compute what they did before."""

import pytest
import torch
from torch import Tensor

from newsstudio_ditto.networks.build import seeded_network
from newsstudio_ditto.networks.motion_extractor import MotionExtractor, MotionExtractorConfig
from training.growth import grow_into, with_picture
from training.renderer_model import Renderer
from training.smoke import PLAIN_TOY_NETWORKS, TOY_NETWORKS


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    points = torch.rand(1, 21, 3, generator=draw) - 0.5
    return torch.rand(1, 3, 256, 256, generator=draw), points, points + 0.05


@torch.no_grad()
def test_a_renderer_that_carries_the_picture_starts_as_it_was_without() -> None:
    torch.manual_seed(0)
    small, large = Renderer(PLAIN_TOY_NETWORKS).eval(), Renderer(TOY_NETWORKS).eval()
    before = large(*inputs())
    for name in ("appearance", "warp", "decoder"):
        grow_into(large.get_submodule(name), small.get_submodule(name).state_dict())
    assert (before - small(*inputs())).abs().max() > 1e-3
    torch.testing.assert_close(large(*inputs()), small(*inputs()), atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_deeper_motion_extractor_starts_as_the_shallow_one() -> None:
    small = seeded_network(PLAIN_TOY_NETWORKS, "motion_extractor", 1)
    widths = PLAIN_TOY_NETWORKS.motion_extractor.widths
    large = MotionExtractor(MotionExtractorConfig(depths=(2, 1, 3, 1), widths=widths)).eval()
    grow_into(large, small.state_dict())
    for mine, wanted in zip(large(inputs()[0]), small(inputs()[0]), strict=True):
        torch.testing.assert_close(mine, wanted)


def test_carrying_the_picture_twice_changes_nothing_more() -> None:
    assert with_picture(TOY_NETWORKS) == TOY_NETWORKS


def test_a_network_that_lacks_a_part_is_refused() -> None:
    renderer = Renderer(PLAIN_TOY_NETWORKS)
    with pytest.raises(ValueError, match="no picture"):
        grow_into(renderer.decoder, Renderer(TOY_NETWORKS).decoder.state_dict())
    with pytest.raises(ValueError, match="does not fit into"):
        grow_into(torch.nn.Linear(2, 2), {"weight": torch.zeros(3, 2), "bias": torch.zeros(2)})
