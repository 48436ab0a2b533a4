"""Paste-back against OpenCV 4.10 goldens: exact coordinates (ours), and OpenCV's rounding to 1/32 pixel."""

import numpy as np
import numpy.typing as npt
import pytest

from newsstudio_ditto.maths.affine import invert_affine
from newsstudio_ditto.maths.feather import feather_mask
from newsstudio_ditto.maths.paste import (
    full_window,
    mask_support,
    paste_back,
    paste_grid,
    sample_crop,
    tight_window,
    warped_alpha,
)
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import U, f32, load_golden

ARRAYS, FACTS = load_golden("prepost/paste")
FRAME = load_golden("prepost/prepost")[0]["frame/a"]
FRAME_SIZE = (360, 480)
MASK = feather_mask(512, 512)
STORED = (slice(None, None, 4), slice(None, None, 4))
Singles = npt.NDArray[np.float32]


def smooth_render() -> Singles:
    y, x, c = np.meshgrid(np.arange(512), np.arange(512), np.arange(3), indexing="ij")
    waves = np.sin(2 * np.pi * x / (90 + 20 * c) + c) * np.cos(2 * np.pi * y / (120 - 15 * c))
    return f32(127.5 + 100 * waves)


RENDERS = {"smooth": smooth_render(), "noise": f32(255 * U("paste/render/noise", (512, 512, 3)))}
EXACT_LEVELS = {"smooth": tolerances.PASTE_EXACT_SMOOTH_LEVELS, "noise": tolerances.PASTE_EXACT_NOISE_LEVELS}
RESULT_STEP = {"smooth": 1, "noise": 2}


def grid_of(name: str) -> Singles:
    original_to_crop = invert_affine(ARRAYS[f"{name}/M_c2o"].astype(np.float64))
    return paste_grid(original_to_crop, full_window(FRAME_SIZE), 512)


def rounded_grid_of(name: str) -> Singles:
    """Coordinates as OpenCV 4 makes them."""
    matrix = invert_affine(ARRAYS[f"{name}/M_c2o"].astype(np.float64))[:2]
    x, y = np.arange(480.0)[None, :], np.arange(360.0)[:, None]
    fixed = [np.rint((b * y + c) * 1024) + 16 + np.rint(a * x * 1024) for a, b, c in matrix]
    crop = np.stack([np.floor(axis / 32) / 32 for axis in fixed], axis=-1)
    return f32((2 * crop + 1) / 512 - 1)


@pytest.mark.parametrize("name", FACTS["cases"])
@pytest.mark.parametrize("render", RENDERS)
def test_opencv_coordinates_reproduce_opencv(name: str, render: str) -> None:
    grid = rounded_grid_of(name)
    weight = np.clip(sample_crop(MASK[..., None], grid), 0, 1)
    warped = sample_crop(RENDERS[render], grid)
    blend = np.clip(weight * warped + (1 - weight) * FRAME, 0, 255)
    mask, levels = f"{name}/mask_warped", tolerances.PASTE_LEVELS
    assert_golden("paste, 1/32 px", mask, weight[STORED][..., 0], ARRAYS[mask], levels / 255)
    for part, values in (("frame_warped", warped), ("blend_float", blend)):
        stored = f"{name}/{render}/{part}"
        assert_golden("paste, 1/32 px", stored, values[STORED], ARRAYS[stored], levels)


@pytest.mark.parametrize("name", FACTS["cases"])
@pytest.mark.parametrize("render", RENDERS)
def test_exact_coordinates_stay_within_the_table(name: str, render: str) -> None:
    grid = grid_of(name)
    weight = np.clip(sample_crop(MASK[..., None], grid), 0, 1)
    warped = sample_crop(RENDERS[render], grid)
    blend = weight * warped + (1 - weight) * FRAME
    inside = weight[STORED][..., 0] > 0
    group, levels, of_mask = f"paste, exact, {render}", EXACT_LEVELS[render], tolerances.PASTE_EXACT_MASK
    for part, values, tolerance in (
        ("mask_warped", weight[STORED][..., 0], of_mask),
        ("mask_warped_row180", weight[180, :, 0], of_mask),
        (f"{render}/blend_float", blend[STORED], levels + 255 * of_mask),
    ):
        assert_golden(group, f"{name}/{part}", values, ARRAYS[f"{name}/{part}"], tolerance)
    stored = f"{name}/{render}/frame_warped"
    assert_golden(group, stored, warped[STORED][inside], ARRAYS[stored][inside], levels)


@pytest.mark.parametrize("name", FACTS["cases"])
@pytest.mark.parametrize("stored_alpha", ["float", "uint8"])
def test_smooth_result(name: str, stored_alpha: str) -> None:
    grid = grid_of(name)
    exact = np.moveaxis(np.clip(sample_crop(MASK[..., None], grid), 0, 1), -1, 0)
    alpha = warped_alpha(grid, MASK) if stored_alpha == "uint8" else exact
    result = paste_back(FRAME, RENDERS["smooth"], grid, alpha).astype(int)
    expected = ARRAYS[f"{name}/smooth/result_u8"]
    assert_golden("paste, uint8", f"{name}/smooth, {stored_alpha} mask", result, expected, tolerances.PASTE_UINT8)
    if stored_alpha == "float":
        assert (result == expected).mean() >= tolerances.PASTE_EQUAL_SHARE


@pytest.mark.parametrize("name", FACTS["cases"])
@pytest.mark.parametrize("render", RENDERS)
def test_uint8_result_with_opencv_coordinates(name: str, render: str) -> None:
    grid = rounded_grid_of(name)
    alpha = np.moveaxis(np.clip(sample_crop(MASK[..., None], grid), 0, 1), -1, 0)
    step = RESULT_STEP[render]
    result = paste_back(FRAME, RENDERS[render], grid, alpha)[::step, ::step].astype(int)
    stored = f"{name}/{render}/result_u8"
    assert_golden("paste, uint8", stored, result, ARRAYS[stored], tolerances.PASTE_UINT8)


@pytest.mark.parametrize("name", FACTS["cases"])
def test_tight_window_pastes_like_the_whole_frame(name: str) -> None:
    crop_to_original = ARRAYS[f"{name}/M_c2o"].astype(np.float64)
    window = tight_window([mask_support(crop_to_original, FRAME_SIZE, MASK)], FRAME_SIZE)
    part = paste_grid(invert_affine(crop_to_original), window, 512)
    whole = grid_of(name)
    np.testing.assert_array_equal(part, whole[window.slices])
    alpha = warped_alpha(whole, MASK)
    outside = alpha[0].copy()
    outside[window.slices] = 0
    assert outside.max() == 0
    expected = paste_back(FRAME, RENDERS["smooth"], whole, alpha)
    np.testing.assert_array_equal(
        paste_back(FRAME, RENDERS["smooth"], part, warped_alpha(part, MASK), window), expected
    )
