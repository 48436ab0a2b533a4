import av
import numpy as np
import pytest
from av.video.reformatter import Colorspace
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from newsstudio_ditto.errors import UnsupportedMediaError
from newsstudio_ditto.media.colour import RgbConverter, choose_matrix, lay_over, require_sdr
from newsstudio_ditto.media.facts import ColourTags

WEIGHTS = {1: (0.2126, 0.0722), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}


def tags(matrix: int = 2, *, transfer: int = 2, full_range: bool | None = None) -> ColourTags:
    return ColourTags(matrix, 2, transfer, full_range)


def yuv_frame(planes: list[NDArray[np.uint8]], pixel_format: str) -> av.VideoFrame:
    height, width = planes[0].shape
    frame = av.VideoFrame(width, height, pixel_format)
    for plane, values in zip(frame.planes, planes, strict=True):
        rows = np.zeros((values.shape[0], plane.line_size), np.uint8)
        rows[:, : values.shape[1]] = values
        plane.update(rows.tobytes())
    return frame


@pytest.mark.parametrize("pixel_format", ["yuv444p", "yuv420p"])
@pytest.mark.parametrize("matrix", [1, 6, 9])
@pytest.mark.parametrize("full_range", [False, True])
def test_rgb_is_what_the_equations_say(pixel_format: str, matrix: int, full_range: bool) -> None:
    red_weight, blue_weight = WEIGHTS[matrix]
    rng = np.random.default_rng(3)
    rgb = (rng.integers(30, 226, (8, 8, 3)) / 255).repeat(8, 0).repeat(8, 1)
    luma = rgb @ (red_weight, 1 - red_weight - blue_weight, blue_weight)
    blue, red = (rgb[..., 2] - luma) / (2 - 2 * blue_weight), (rgb[..., 0] - luma) / (2 - 2 * red_weight)
    low, luma_span, chroma_span = (0, 255, 255) if full_range else (16, 219, 224)
    stored = [
        np.round(v).astype(np.uint8)
        for v in (luma * luma_span + low, blue * chroma_span + 128, red * chroma_span + 128)
    ]
    y, u, v = (stored[0] - low) / luma_span, (stored[1] - 128.0) / chroma_span, (stored[2] - 128.0) / chroma_span
    r, b = y + (2 - 2 * red_weight) * v, y + (2 - 2 * blue_weight) * u
    g = (y - red_weight * r - blue_weight * b) / (1 - red_weight - blue_weight)
    step = 2 if pixel_format == "yuv420p" else 1
    frame = yuv_frame([stored[0], stored[1][::step, ::step], stored[2][::step, ::step]], pixel_format)
    found = RgbConverter(tags(matrix, full_range=full_range)).convert(frame)
    assert np.abs(found - np.stack([r, g, b], -1).clip(0, 1) * 255).max() < 0.6


def test_full_range_formats_need_no_tag() -> None:
    planes = [np.full((4, 4), 255, np.uint8), np.full((2, 2), 128, np.uint8), np.full((2, 2), 128, np.uint8)]
    white = RgbConverter(tags()).convert(yuv_frame(planes, "yuvj420p"))
    assert (white == 255).all()
    planes[0][:] = 0
    assert (RgbConverter(tags()).convert(yuv_frame(planes, "yuvj420p")) == 0).all()


def test_untagged_matrix_depends_on_lines() -> None:
    assert choose_matrix(tags(), 719) == Colorspace.ITU601
    assert choose_matrix(tags(), 720) == Colorspace.ITU709
    assert choose_matrix(tags(1), 64) == Colorspace.ITU709
    with pytest.raises(UnsupportedMediaError, match="matrix 14"):
        choose_matrix(tags(14), 720)


@pytest.mark.parametrize(("transfer", "name"), [(16, "smpte2084"), (18, "arib-std-b67")])
def test_hdr_is_refused_by_name_with_the_way_out(transfer: int, name: str) -> None:
    with pytest.raises(UnsupportedMediaError, match=name) as caught:
        require_sdr(tags(9, transfer=transfer), "clip.mov")
    assert "tonemap" in caught.value.hint


pixels = st.integers(0, 255)


@given(pixels, pixels, pixels, pixels)
def test_laying_over_is_exact(colour: int, hidden: int, ground: int, alpha: int) -> None:
    background = np.array([ground] * 3, np.uint16)
    rgba = np.array([[[colour] * 3 + [alpha], [hidden] * 3 + [0], [colour] * 3 + [255]]], np.uint8)
    mixed = lay_over(rgba, background)[0, :, 0]
    assert mixed[0] == round((colour * alpha + ground * (255 - alpha)) / 255)
    assert mixed[1] == ground
    assert mixed[2] == colour
