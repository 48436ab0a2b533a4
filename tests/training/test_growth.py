"""Small networks that grow into larger ones compute what they did before."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from newsstudio_ditto.networks.audio_encoder import AudioEncoder
from newsstudio_ditto.networks.build import seeded_network
from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.motion_extractor import MotionExtractor, MotionExtractorConfig
from newsstudio_ditto.networks.picture import PictureSkip, fold_picture
from training.growth import OPEN_GATE, grow_into, with_finer_picture, with_picture
from training.renderer_model import Renderer
from training.smoke import PLAIN_TOY_NETWORKS, TOY_NETWORKS


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    points = torch.rand(1, 21, 3, generator=draw) - 0.5
    return torch.rand(1, 3, 512, 512, generator=draw), points, points + 0.05


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
    face = torch.rand(1, 3, 256, 256, generator=torch.Generator().manual_seed(0))
    for mine, wanted in zip(large(face), small(face), strict=True):
        torch.testing.assert_close(mine, wanted)


@torch.no_grad()
def test_a_deeper_audio_encoder_starts_as_the_shallow_one() -> None:
    config = PLAIN_TOY_NETWORKS.audio_encoder
    small, large = (AudioEncoder(replace(config, num_layers=num)).eval() for num in (1, 3))
    windows = torch.randn(2, 6480, generator=torch.Generator().manual_seed(0)) * 0.1
    assert (large(windows) - small(windows)).abs().max() > 1e-3
    grow_into(large, small.state_dict())
    torch.testing.assert_close(large(windows), small(windows))


def test_carrying_the_picture_twice_changes_nothing_more() -> None:
    assert with_picture(TOY_NETWORKS) == TOY_NETWORKS


@torch.no_grad()
def test_a_finer_picture_adds_only_what_the_coarse_one_could_not_hold() -> None:
    """Of a picture that is flat in squares of two pixels, the finer decoder makes what the coarse one made."""
    coarse_config, fine_config = (with_picture(PLAIN_TOY_NETWORKS, size).decoder for size in (256, 512))
    torch.manual_seed(0)
    coarse, fine = SpadeDecoder(coarse_config).eval(), SpadeDecoder(fine_config).eval()
    fine.load_state_dict(with_finer_picture(coarse.state_dict()))
    for decoder in (coarse, fine):
        decoder.picture.gate.weight.zero_()
        decoder.picture.gate.bias.fill_(30.0)
    learned = torch.randn(1, coarse_config.learned_features, 64, 64)
    flat = torch.full((1, 3, 256, 256), 0.4)
    enlarged = functional.interpolate(flat, scale_factor=2.0)
    made = [
        decoder(torch.cat([learned, fold_picture(picture, 64)], dim=1))[..., 8:-8, 8:-8]
        for decoder, picture in ((coarse, flat), (fine, enlarged))
    ]
    torch.testing.assert_close(made[0], made[1], atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_finer_picture_brings_its_detail() -> None:
    fine_config = with_picture(PLAIN_TOY_NETWORKS, 512).decoder
    skip = PictureSkip(fine_config.up_channels[1], 2)
    coarse = PictureSkip(fine_config.up_channels[1], 1)
    coarse.last.weight.zero_()
    states = {f"picture.{name}": value for name, value in coarse.state_dict().items()}
    grown = with_finer_picture(states | {"fc.weight": torch.zeros(1, 48, 3, 3)})
    skip.load_state_dict({name.removeprefix("picture."): v for name, v in grown.items() if name.startswith("picture.")})
    assert float(skip.gate.bias[0]) == OPEN_GATE
    skip.gate.bias.fill_(30.0)
    skip.last.bias.zero_()
    checks = 0.5 + 0.2 * ((torch.arange(32)[:, None] + torch.arange(32)) % 2 * 2 - 1).float().expand(1, 3, 32, 32)
    added = functional.pixel_shuffle(skip(torch.zeros(1, fine_config.up_channels[1], 16, 16), checks), 2)
    torch.testing.assert_close(added, torch.logit(checks), atol=1e-5, rtol=0)


def test_a_network_that_lacks_a_part_is_refused() -> None:
    renderer = Renderer(PLAIN_TOY_NETWORKS)
    with pytest.raises(ValueError, match="no picture"):
        grow_into(renderer.decoder, Renderer(TOY_NETWORKS).decoder.state_dict())
    with pytest.raises(ValueError, match="does not fit into"):
        grow_into(torch.nn.Linear(2, 2), {"weight": torch.zeros(3, 2), "bias": torch.zeros(2)})
