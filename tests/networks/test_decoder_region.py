"""A decoder that is asked for a part of the picture paints that part as if it painted everything."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newsstudio_ditto.maths.paste import CropRegion, region_read
from newsstudio_ditto.networks.config import CROP_SIZE_PX, FEATURE_CELLS, DecoderConfig, picture_values
from newsstudio_ditto.networks.decoder import SpadeDecoder

LEARNED, CELL_PX = 5, CROP_SIZE_PX // FEATURE_CELLS
PLACES = st.floats(-1.2, 1.2)


def config(picture_px: int | None, upsampling: str) -> DecoderConfig:
    carried = 0 if picture_px is None else picture_values(picture_px, FEATURE_CELLS)
    return DecoderConfig(
        feature_channels=LEARNED + carried,
        channels=6,
        hidden_channels=4,
        num_middle_blocks=1,
        up_channels=(6, 4),
        upsampling=upsampling,
        picture_px=picture_px,
    )


@cache
def painted(picture_px: int | None, upsampling: str) -> tuple[SpadeDecoder, Tensor, Tensor]:
    """Decoder, feature image, and the whole picture of it."""
    torch.manual_seed(3)
    decoder = SpadeDecoder(config(picture_px, upsampling)).eval()
    feature = torch.rand(1, decoder.config.feature_channels, FEATURE_CELLS, FEATURE_CELLS)
    with torch.no_grad():
        for part in decoder.modules():
            if isinstance(part, torch.nn.Conv2d):
                part.weight.mul_(3)  # so that what one pixel says is heard several pixels away
        return decoder, feature, decoder(feature)


def grid(region: CropRegion) -> Tensor:
    down = torch.linspace(region.top, region.bottom, 60)
    across = torch.linspace(region.left, region.right, 70)
    return torch.stack(torch.meshgrid(across, down, indexing="xy"), -1)[None]


@pytest.mark.parametrize("picture_px", [None, CROP_SIZE_PX])
@settings(max_examples=15)
@given(top=PLACES, left=PLACES, height=st.floats(0, 1), width=st.floats(0, 1))
def test_a_region_is_painted_as_in_the_whole_picture(
    picture_px: int | None, top: float, left: float, height: float, width: float
) -> None:
    decoder, feature, whole = painted(picture_px, "pixel_shuffle")
    grids = grid(CropRegion(top, left, top + height, left + width))
    with torch.no_grad():
        part = decoder(feature, region_read(grids))
    assert part.shape == whole.shape
    read = [torch.nn.functional.grid_sample(one, grids, align_corners=False) for one in (part, whole)]
    torch.testing.assert_close(read[0], read[1], atol=1e-5, rtol=0)


def test_what_lies_far_from_the_region_is_not_painted() -> None:
    decoder, feature, whole = painted(CROP_SIZE_PX, "pixel_shuffle")
    with torch.no_grad():
        part = decoder(feature, CropRegion(-0.1, -0.1, 0.1, 0.1))
    assert whole.amin() > 0
    painted_share = (part > 0).float().mean().item()
    assert 0.01 < painted_share < 0.15


def test_spade_upsampling_paints_everything() -> None:
    decoder, feature, whole = painted(None, "spade")
    with torch.no_grad():
        torch.testing.assert_close(decoder(feature, CropRegion(-0.1, -0.1, 0.1, 0.1)), whole)


def test_a_region_holds_every_pixel_that_a_grid_reads() -> None:
    torch.manual_seed(0)
    picture, cells = torch.rand(1, 3, 64, 64), 8
    for _ in range(200):
        low, high = torch.rand(2, 2).mul(2.4).sub(1.2).sort(0).values
        grids = torch.rand(1, 9, 9, 2) * (high - low) + low
        rows, columns = region_read(grids).cells(cells, 64 // cells, 0)
        kept = torch.zeros_like(picture)
        inside = (..., slice(rows.start * 8, rows.stop * 8), slice(columns.start * 8, columns.stop * 8))
        kept[inside] = picture[inside]
        expected, got = (torch.nn.functional.grid_sample(one, grids, align_corners=False) for one in (picture, kept))
        assert torch.equal(expected, got)
