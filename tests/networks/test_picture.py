"""The source picture that mini's volumes carry: folding, copying, and moving it."""

import pytest
import torch
from torch import Tensor

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.config import NetworkConfig, WarpConfig
from newsstudio_ditto.networks.picture import PictureWarp, fold_picture, unfold_picture


def picture(seed: int = 0, size: int = 32) -> Tensor:
    return torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(seed))


def silent_warp(depth: int = 4) -> PictureWarp:
    warp = PictureWarp(5, depth).eval()
    torch.nn.init.zeros_(warp.last.weight)
    torch.nn.init.zeros_(warp.last.bias)
    return warp


def shift_by(across: float, down: float, depth: int = 4, cells: int = 8) -> Tensor:
    return torch.tensor([float(across), float(down)]).expand(2, depth, cells, cells, 2)


def test_unfolding_undoes_folding() -> None:
    values = fold_picture(picture(), 8)
    assert values.shape == (2, 48, 8, 8)
    assert torch.equal(unfold_picture(values), picture())


def test_a_cell_holds_the_pixels_under_it() -> None:
    image = torch.zeros(1, 3, 32, 32)
    image[:, :, 4:8, 8:12] = 1
    values = fold_picture(image, 8)
    assert values[0, :, 1, 2].min() == 1
    assert values.sum() == 48


def test_no_shift_copies_every_pixel() -> None:
    moved = silent_warp()(picture(), torch.randn(2, 5, 8, 8), shift_by(0, 0))
    torch.testing.assert_close(moved, picture(), atol=1e-6, rtol=0)


def test_a_shift_of_whole_pixels_moves_the_picture_that_far() -> None:
    pixels = 2 / 32
    moved = silent_warp()(picture(), torch.randn(2, 5, 8, 8), shift_by(3 * pixels, -2 * pixels))
    torch.testing.assert_close(moved[:, :, 2:, :-3], picture()[:, :, :-2, 3:], atol=1e-5, rtol=0)


def test_depth_shares_and_correction_choose_the_shift() -> None:
    warp = silent_warp(depth=2)
    shift = torch.stack([shift_by(4 / 32, 0, 1)[:, 0], shift_by(-4 / 32, 0, 1)[:, 0]], 1)
    with torch.no_grad():
        warp.last.bias.copy_(torch.tensor([30.0, 0.0, -2 / 32, 0.0]))
    moved = warp(picture(), torch.randn(2, 5, 8, 8), shift)
    torch.testing.assert_close(moved[..., :-1], picture()[..., 1:], atol=1e-4, rtol=0)


def test_networks_that_disagree_about_carrying_are_refused() -> None:
    with pytest.raises(BundleError, match="picture_px of appearance and warp differ"):
        NetworkConfig(warp=WarpConfig(picture_px=512))
