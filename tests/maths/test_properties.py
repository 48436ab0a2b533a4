"""Properties that hold for every input."""

import random
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.maths.affine import apply_affine, invert_affine
from newsstudio_ditto.maths.audio_windows import WINDOW_SAMPLES, cut_windows, merge_rows
from newsstudio_ditto.maths.blink import blink_table
from newsstudio_ditto.maths.clips import ClipOptions, generate_motion, iterate_motion, stream_motion
from newsstudio_ditto.maths.colour import rgb_to_yuv420, yuv420_to_rgb
from newsstudio_ditto.maths.controls import fade_weights
from newsstudio_ditto.maths.crop import crop_transform
from newsstudio_ditto.maths.diffusion import ddim_schedule, ddim_step, guide, predict_noise
from newsstudio_ditto.maths.feather import blend_mask, feather_mask, mouth_mask
from newsstudio_ditto.maths.keypoints import decode_head_pose, pose_keypoints, rotation_matrix
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.motion_stitch import MotionStitchOptions, stitch_motion
from newsstudio_ditto.maths.motion_vector import pack_motion, unpack_motion
from newsstudio_ditto.maths.paste import mask_support, paste_back, paste_grid, tight_window, warped_alpha
from newsstudio_ditto.maths.smoothing import smooth_driving, smooth_rows
from newsstudio_ditto.units import SAMPLES_PER_FRAME, count_frames
from tests.maths.motions import named_motion

settings.register_profile("maths", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("maths")

Wide = npt.NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@st.composite
def similarities(draw: st.DrawFn) -> Wide:
    scale, angle = draw(st.floats(0.1, 10)), draw(st.floats(-4, 4))
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    x, y = draw(st.floats(-2000, 2000)), draw(st.floats(-2000, 2000))
    return np.array([[cos, sin, x], [-sin, cos, y], [0, 0, 1]])


@given(similarities(), SEEDS)
def test_inverse_affine_undoes(matrix: Wide, seed: int) -> None:
    points = np.random.default_rng(seed).uniform(-2000, 2000, (7, 2))
    back = apply_affine(invert_affine(matrix), apply_affine(matrix, points))
    np.testing.assert_allclose(back, points, atol=1e-6)


@given(SEEDS, st.integers(1, 5))
def test_inverse_affine_of_a_stack_is_the_stack_of_inverses(seed: int, count: int) -> None:
    matrices = np.tile(np.eye(3), (count, 1, 1))
    matrices[:, :2] += 0.2 * np.random.default_rng(seed).uniform(-1, 1, (count, 2, 3))
    np.testing.assert_array_equal(invert_affine(matrices), [invert_affine(matrix) for matrix in matrices])


@given(SEEDS, st.floats(1, 4), st.floats(-0.5, 0.5), st.booleans())
def test_crop_holds_the_box_and_both_directions_agree(seed: int, scale: float, shift: float, upright: bool) -> None:
    rng = np.random.default_rng(seed)
    points = rng.uniform(100, 900, (20, 2)).astype(np.float32)
    mouth, eyes = rng.uniform(300, 600, (2, 2)).astype(np.float32)
    config = CropConfig(scale, shift, upright)
    transform = crop_transform(points, mouth, eyes, size_px=512, crop=config)
    there = apply_affine(transform.original_to_crop, points)
    np.testing.assert_allclose(apply_affine(transform.crop_to_original, there), points, atol=0.05)
    if upright:
        span = there.max(axis=0) - there.min(axis=0)
        np.testing.assert_allclose(span.max(), 512 / scale, rtol=1e-2)


@given(st.integers(1, 40), st.integers(0, 500))
def test_mirror_index_is_continuous_and_periodic(count: int, start: int) -> None:
    index = mirror_index(np.arange(start, start + 3 * count, dtype=np.int64), count)
    assert index.min() >= 0
    assert index.max() < count
    assert all(abs(after - before) <= 1 for before, after in pairwise(index.tolist()))
    assert mirror_index(start + 2 * count, count) == mirror_index(start, count)


@given(SEEDS, st.integers(0, 12))
def test_pack_undoes_unpack(seed: int, num_frames: int) -> None:
    vectors = normal(seed, num_frames, 265)
    torch.testing.assert_close(pack_motion(unpack_motion(vectors)), vectors, atol=1e-6, rtol=0)


@given(SEEDS, st.floats(-3, 5))
def test_guidance(seed: int, scale: float) -> None:
    conditional, unconditional = normal(seed, 2, 1, 4, 265)
    assert torch.equal(guide(conditional, unconditional, 1.0), conditional)
    assert torch.equal(guide(conditional, unconditional, 0.0), unconditional)
    expected = unconditional + scale * (conditional - unconditional)
    torch.testing.assert_close(guide(conditional, unconditional, scale), expected, atol=1e-5, rtol=1e-5)


@given(SEEDS, st.integers(1, 60))
def test_ddim_ends_at_the_prediction_and_noise_rebuilds_x(seed: int, num_steps: int) -> None:
    x, x0, noise = normal(seed, 3, 1, 4, 265)
    steps = ddim_schedule(num_steps).steps()
    assert torch.equal(ddim_step(x, x0, noise, steps[-1]), x0)
    assert all(np.isfinite([step.c, step.sigma, step.noise_from_x]).all() for step in steps)
    middle = steps[len(steps) // 2]
    alpha = 1 - 1 / middle.noise_from_x**2
    rebuilt = alpha**0.5 * x0 + (1 - alpha) ** 0.5 * predict_noise(x, x0, middle)
    torch.testing.assert_close(rebuilt, x, atol=1e-3, rtol=1e-3)


@given(SEEDS, st.integers(1, 100))
def test_ddim_keeps_unit_variance_and_takes_the_clean_part(seed: int, num_steps: int) -> None:
    schedule = ddim_schedule(num_steps)
    total = schedule.sqrt_alpha_next**2 + schedule.c**2 + schedule.sigma**2
    torch.testing.assert_close(total, torch.ones(schedule.num_steps), atol=1e-6, rtol=0)
    x0, noise = normal(seed, 2, 1, 4, 265)
    for step in schedule.steps()[:-1]:
        alpha = 1 - 1 / step.noise_from_x**2
        x = alpha**0.5 * x0 + (1 - alpha) ** 0.5 * noise
        expected = step.sqrt_alpha_next * x0 + (step.c + step.sigma) * noise
        torch.testing.assert_close(ddim_step(x, x0, noise, step), expected, atol=2e-3, rtol=1e-3)


@given(st.lists(st.floats(-180, 180), min_size=3, max_size=3))
def test_rotation_is_orthonormal(angles: list[float]) -> None:
    rotation = rotation_matrix(*torch.tensor(angles, dtype=torch.float64).unbind())
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(torch.linalg.det(rotation), torch.tensor(1.0, dtype=torch.float64))


@given(SEEDS)
def test_head_pose_stays_in_range_and_ignores_a_constant(seed: int) -> None:
    logits = 5 * normal(seed, 3, 66)
    degrees = decode_head_pose(logits)
    assert degrees.abs().max() <= 97.5
    torch.testing.assert_close(decode_head_pose(logits + 7), degrees, atol=1e-3, rtol=0)


@given(SEEDS)
def test_batched_keypoints_equal_single_ones(seed: int) -> None:
    canonical, expression = normal(seed, 2, 4, 21, 3)
    rotation = rotation_matrix(*(30 * normal(seed + 1, 3, 4)))
    scale, translation = normal(seed + 2, 4, 1), normal(seed + 3, 4, 3)
    batch = pose_keypoints(canonical, rotation, expression, scale, translation)
    single = [pose_keypoints(*parts) for parts in zip(canonical, rotation, expression, scale, translation, strict=True)]
    torch.testing.assert_close(batch, torch.stack(single))


@given(st.integers(1, 40_000))
def test_audio_windows_cover_every_frame_once(num_samples: int) -> None:
    windows = cut_windows(torch.arange(num_samples, dtype=torch.float32))
    assert windows.shape[1] == WINDOW_SAMPLES
    for index, window in enumerate(windows):
        first = 5 * index * SAMPLES_PER_FRAME
        assert window[2000].item() == first
    rows = merge_rows(torch.zeros(len(windows), 20, 3))
    assert 0 <= len(rows) - count_frames(num_samples) < 5


@given(SEEDS, st.integers(1, 40), st.integers(1, 60), st.floats(-1e3, 1e3))
def test_smoothing_preserves_constants_and_range(seed: int, num_frames: int, width: int, value: float) -> None:
    constant = torch.full((num_frames, 3), value)
    torch.testing.assert_close(smooth_rows(constant, width), constant)
    values = normal(seed, num_frames, 3)
    smoothed = smooth_rows(values, width)
    assert smoothed.max() <= values.max() + 1e-6
    assert smoothed.min() >= values.min() - 1e-6


@given(SEEDS, st.integers(1, 30), st.integers(2, 9))
def test_driving_smoothing_never_touches_the_expression(seed: int, num_frames: int, width: int) -> None:
    vectors = normal(seed, num_frames, 265)
    assert torch.equal(smooth_driving(vectors, width)[:, 202:], vectors[:, 202:])


@given(similarities(), st.integers(1, 60), st.integers(1, 60))
def test_tight_window_is_even_inside_the_frame_and_holds_the_mask(matrix: Wide, half_h: int, half_w: int) -> None:
    size = (2 * half_h, 2 * half_w)
    mask = feather_mask(64, 64)
    window = tight_window([mask_support(matrix, size, mask)], size)
    assert not any(value % 2 for value in window)
    assert 0 <= window.top < window.bottom <= size[0]
    assert 0 <= window.left < window.right <= size[1]
    whole = tight_window([], size)._replace(height=size[0], width=size[1])
    alpha = warped_alpha(paste_grid(invert_affine(matrix), whole, 64), mask)[0]
    alpha[window.slices] = 0
    assert alpha.max() == 0


@given(SEEDS, similarities())
def test_paste_with_alpha_zero_returns_the_frame_bit_for_bit(seed: int, matrix: Wide) -> None:
    rng = np.random.default_rng(seed)
    frame = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    image = rng.uniform(0, 255, (16, 16, 3)).astype(np.float32)
    grid = paste_grid(invert_affine(matrix), tight_window([], (20, 30))._replace(height=20, width=30), 16)
    pasted = paste_back(frame, image, grid, np.zeros((1, 20, 30), dtype=np.uint8))
    np.testing.assert_array_equal(pasted, frame)
    assert pasted is not frame


@given(SEEDS)
def test_paste_with_full_alpha_and_no_motion_returns_the_image(seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (16, 16, 3)).astype(np.float32)
    frame = np.zeros((16, 16, 3), dtype=np.uint8)
    grid = paste_grid(np.eye(3), tight_window([], (16, 16))._replace(height=16, width=16), 16)
    pasted = paste_back(frame, image, grid, np.full((1, 16, 16), 255, dtype=np.uint8))
    assert np.abs(pasted - image).max() <= 1  # cut to whole levels after float32 coordinates


@given(SEEDS, st.integers(1, 5), st.integers(1, 5), st.integers(1, 3))
def test_yuv_round_trip_is_bounded_where_chroma_is_constant(seed: int, half_h: int, half_w: int, batch: int) -> None:
    blocks = torch.randint(0, 256, (batch, 3, half_h, half_w), generator=torch.Generator().manual_seed(seed))
    image = blocks.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3).to(torch.uint8)
    planes = rgb_to_yuv420(image)
    assert planes.shape == (batch, 6 * half_h * half_w)
    luma, chroma = planes[:, : 4 * half_h * half_w], planes[:, 4 * half_h * half_w :]
    assert 16 <= luma.min() <= luma.max() <= 235
    assert 16 <= chroma.min() <= chroma.max() <= 240
    back = yuv420_to_rgb(planes, 2 * half_h, 2 * half_w)
    assert (back - image.float()).abs().max() <= 2.0


def zero_sample(kp_cond: Tensor, cond_window: Tensor) -> Tensor:
    return kp_cond.expand(80, -1) * 0.5 + cond_window[:, :1]


@given(SEEDS, st.integers(1, 200), st.integers(0, 79))
@settings(max_examples=15)
def test_whole_speech_gets_one_row_per_condition(seed: int, num_frames: int, overlap: int) -> None:
    source = normal(seed, 265)
    motion = generate_motion(normal(seed, num_frames, 3), source, zero_sample, ClipOptions(overlap_frames=overlap))
    assert motion.shape == (num_frames, 265)
    assert motion.isfinite().all()


@given(SEEDS, st.integers(0, 130), st.integers(40, 79), st.integers(1, 50))
@settings(max_examples=15)
def test_stream_gets_one_row_per_feature(seed: int, num_frames: int, overlap: int, chunk: int) -> None:
    features = normal(seed, num_frames, 3)
    chunks = torch.split(features, chunk) if num_frames else []
    options = ClipOptions(overlap_frames=overlap)
    rows = stream_motion(chunks, torch.zeros(3), lambda part, _: part, normal(seed, 265), zero_sample, options)
    assert sum(len(part) for part in rows) == num_frames


@given(st.integers(1, 400), st.integers(1, 20), st.integers(0, 120), SEEDS)
def test_blinks_run_from_open_to_open(num_frames: int, blink_frames: int, spacing: int, seed: int) -> None:
    table = blink_table(num_frames, blink_frames, spacing, random.Random(seed))
    assert len(table) == num_frames
    assert all(after in (0, before + 1) for before, after in pairwise(table.tolist()))
    assert table.max() < blink_frames
    assert table[-1] in (0, blink_frames - 1)


@given(st.integers(1, 100), st.integers(0, 30), st.integers(0, 30))
def test_fades_stay_in_range_and_reach_zero(num_frames: int, fade_in: int, fade_out: int) -> None:
    weights = fade_weights(num_frames, fade_in=fade_in, fade_out=fade_out)
    assert weights.min() >= 0
    assert weights.max() <= 1
    assert fade_in == 0 or weights[0] == 0
    assert fade_out == 0 or weights[-1] == 0


@given(SEEDS, st.integers(1, 6))
def test_first_driven_frame_is_the_source(seed: int, num_frames: int) -> None:
    source = named_motion("property/source")
    options = MotionStitchOptions(gaze_points=None)
    result = stitch_motion(source, 0.1 * normal(seed, num_frames, 265), options)
    torch.testing.assert_close(result.driving_keypoints[0], result.source_keypoints[0])


@given(SEEDS, st.integers(2, 6))
def test_vectorised_stitching_equals_frame_by_frame(seed: int, num_frames: int) -> None:
    source, driving = named_motion("property/source"), 0.1 * normal(seed, num_frames, 265)
    options = MotionStitchOptions()
    whole = stitch_motion(source, driving, options)
    single = [
        stitch_motion(source, row[None], options, first_motion=driving[0]).driving_keypoints[0] for row in driving
    ]
    torch.testing.assert_close(whole.driving_keypoints, torch.stack(single), atol=1e-5, rtol=1e-5)


@given(st.sampled_from((64, 256, 512)))
def test_the_mouth_mask_is_whole_at_the_mouth_and_nothing_at_eyes_and_border(size_px: int) -> None:
    mask = mouth_mask(size_px)
    assert mask.shape == (size_px, size_px)
    assert mask[int(0.6 * size_px), size_px // 2] == 1
    assert mask[int(0.74 * size_px), size_px // 2] == 1
    assert mask[: int(0.42 * size_px)].max() == 0
    assert max(mask[0].max(), mask[-1].max(), mask[:, 0].max(), mask[:, -1].max()) == 0
    np.testing.assert_array_equal(mask, mask[:, ::-1])


def test_the_blend_mask_is_the_one_that_is_named() -> None:
    np.testing.assert_array_equal(blend_mask("crop", 0.8), feather_mask(512, 512, 0.8))
    np.testing.assert_array_equal(blend_mask("mouth", 0.8), mouth_mask(512))


@given(
    num_frames=st.integers(1, 230),
    overlap=st.integers(0, 79),
    smoothing=st.sampled_from([1, 3, 4, 31]),
    chunk=st.integers(1, 100),
)
@settings(max_examples=40, deadline=None)
def test_motion_does_not_depend_on_how_conditions_arrive(
    num_frames: int, overlap: int, smoothing: int, chunk: int
) -> None:
    draw = torch.Generator().manual_seed(num_frames)
    conditions, source = torch.randn(num_frames, 3, generator=draw), torch.randn(265, generator=draw)
    mixing = torch.randn(3, 265, generator=draw)
    options = ClipOptions(overlap_frames=overlap, smoothing_frames=smoothing, reset_every=1, carried_dims=(0, 202))
    asked: list[int] = []

    def sample(first: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        asked.append(len(rows))
        return torch.tanh(0.5 * first + rows @ mixing)

    whole = generate_motion(conditions, source, sample, options)
    num_windows = len(asked)
    parts = list(iterate_motion(torch.split(conditions, chunk), source, sample, options))
    assert len(asked) == 2 * num_windows == 2 * -(-num_frames // options.stride)
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-5, rtol=0)


def test_the_first_rows_of_motion_need_the_first_window_alone() -> None:
    options, windows = ClipOptions(overlap_frames=10, smoothing_frames=3), []

    def sample(first: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        windows.append(rows)
        return torch.zeros(80, 265)

    first = next(iterate_motion([torch.zeros(500, 3)], torch.zeros(265), sample, options))
    assert len(windows) == 1
    assert len(first) == 80 - 10 - 1
