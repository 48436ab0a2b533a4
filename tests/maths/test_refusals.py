"""Inputs that have no meaning, and the edges of those that do."""

import numpy as np
import pytest
import torch

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.errors import EmptyAudioError, UsageError
from newsstudio_ditto.maths.audio_windows import cut_stream_windows, cut_windows
from newsstudio_ditto.maths.clips import ClipOptions, generate_motion, stream_motion
from newsstudio_ditto.maths.colour import rgb_to_yuv420
from newsstudio_ditto.maths.conditions import Conditioning, condition_rows, emotion_rows
from newsstudio_ditto.maths.crop import anchors_106, anchors_478, crop_transform
from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.maths.eyes import eye_openness
from newsstudio_ditto.maths.feather import feather_mask
from newsstudio_ditto.maths.motion_vector import MotionSequence, unpack_motion
from newsstudio_ditto.maths.paste import PasteWindow, full_window, mask_support, paste_grid, tight_window, warped_alpha
from tests.maths.motions import named_motion


@pytest.mark.parametrize("cut", [cut_windows, cut_stream_windows])
def test_empty_speech(cut: object) -> None:
    assert callable(cut)
    with pytest.raises(EmptyAudioError):
        cut(torch.zeros(0))


@pytest.mark.parametrize("value", [float("nan"), 5.0])
def test_landmarks_without_extent(value: float) -> None:
    points = np.full((478, 3), value, dtype=np.float32)
    with pytest.raises(UsageError, match="no area"):
        crop_transform(*anchors_478(points), size_px=512, crop=CropConfig())


def test_landmarks_of_another_set() -> None:
    with pytest.raises(UsageError, match="106"):
        anchors_106(np.zeros((203, 2), dtype=np.float32))
    with pytest.raises(UsageError, match="478"):
        eye_openness(np.zeros((478, 3), dtype=np.float32))


def test_a_face_without_a_direction_counts_as_upright() -> None:
    points = np.array([[0, 0], [10, 20]], dtype=np.float32)
    middle = points.mean(axis=0)
    transform = crop_transform(points, middle, middle, size_px=100, crop=CropConfig(1.0, 0.0))
    np.testing.assert_allclose(transform.original_to_crop, [[5, 0, 25], [0, 5, 0], [0, 0, 1]], atol=1e-4)


def test_anchors_of_478_landmarks_lie_between_the_eyes_and_on_the_mouth() -> None:
    landmarks = np.zeros((478, 3), dtype=np.float32)
    landmarks[[33, 133, 144, 145, 153, 158, 159, 160]] = (10, 20, 5)
    landmarks[[263, 362, 373, 374, 380, 385, 386, 387]] = (30, 22, 5)
    landmarks[[61, 291]] = (20, 40, 5)
    anchors = anchors_478(landmarks)
    np.testing.assert_allclose(anchors.eyes, [20, 21])
    np.testing.assert_allclose(anchors.mouth, [20, 40])


def test_mask_off_the_frame_has_no_support() -> None:
    shift = np.array([[1, 0, 500], [0, 1, 0], [0, 0, 1]], dtype=np.float64)
    assert mask_support(shift, (100, 100), feather_mask(64, 64)) == PasteWindow(0, 0, 0, 0)
    assert mask_support(np.eye(3), (100, 100), np.zeros((8, 8), dtype=np.float32)) == PasteWindow(0, 0, 0, 0)
    assert tight_window([PasteWindow(0, 0, 0, 0)], (100, 100)) == PasteWindow(0, 0, 2, 2)


def test_window_is_the_even_hull_of_all_supports() -> None:
    supports = [PasteWindow(3, 5, 4, 4), PasteWindow(0, 0, 0, 0), PasteWindow(9, 1, 2, 2)]
    assert tight_window(supports, (20, 20)) == PasteWindow(2, 0, 10, 10)


def test_window_of_an_upright_mask_is_tight() -> None:
    shift = np.array([[1, 0, 10], [0, 1, 20], [0, 0, 1]], dtype=np.float64)
    # The outermost ring of a feather mask has no weight, and OpenCV-style taps add less than a pixel around the rest.
    assert mask_support(shift, (100, 100), feather_mask(40, 30)) == PasteWindow(20, 10, 30, 40)


def test_alpha_is_rounded_to_the_nearest_level() -> None:
    levels = np.array([[0.0, 0.49, 0.51], [1.49, 1.51, 254.0], [254.4, 254.6, 255.0]], dtype=np.float32)
    window = PasteWindow(0, 0, 3, 3)
    alpha = warped_alpha(paste_grid(np.eye(3), window, 3), levels / 255)
    assert alpha[0].tolist() == [[0, 0, 1], [1, 2, 254], [254, 255, 255]]


@pytest.mark.parametrize("size", [(101, 100), (100, 101)])
def test_odd_frames(size: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="odd"):
        full_window(size)


def test_mask_that_keeps_everything() -> None:
    np.testing.assert_array_equal(feather_mask(6, 4, 1.0), np.ones((4, 6)))


@pytest.mark.parametrize("shape", [(1, 3, 5, 4), (1, 3, 4, 5), (1, 1, 4, 4)])
def test_images_that_have_no_planes(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        rgb_to_yuv420(torch.zeros(shape))


@pytest.mark.parametrize(
    ("rgb", "yuv"),
    [
        ((0, 0, 0), (16, 128, 128)),
        ((255, 255, 255), (235, 128, 128)),
        ((255, 0, 0), (63, 102, 240)),
        ((0, 255, 0), (173, 42, 26)),
        ((0, 0, 255), (32, 240, 118)),
        ((300, -20, 0), (63, 102, 240)),
    ],
)
def test_bt709_primaries(rgb: tuple[int, int, int], yuv: tuple[int, int, int]) -> None:
    image = torch.tensor(rgb, dtype=torch.float32)[None, :, None, None].expand(1, 3, 2, 2)
    assert rgb_to_yuv420(image)[0].tolist() == [yuv[0]] * 4 + [yuv[1], yuv[2]]


@pytest.mark.parametrize("num_steps", [0, 1001])
def test_impossible_step_counts(num_steps: int) -> None:
    with pytest.raises(UsageError, match="num_steps"):
        ddim_schedule(num_steps)


@pytest.mark.parametrize("emotion", [8, -1, [], [[]], [1, [2]], [[0], [9]]])
def test_impossible_emotions(emotion: int) -> None:
    with pytest.raises(UsageError, match="emotion"):
        emotion_rows(emotion)


def test_conditions_without_anything_else_are_the_audio() -> None:
    audio = torch.rand(3, 4)
    assert torch.equal(condition_rows(audio, Conditioning().freeze_eyes()), audio)


def test_impossible_clip_options() -> None:
    for overlap in (-1, 80):
        with pytest.raises(UsageError, match="overlap"):
            ClipOptions(overlap_frames=overlap)
    for reset_every, carried in ((-1, (0, 0)), (1, (5, 4)), (1, (0, 266))):
        with pytest.raises(UsageError, match="reset_every"):
            ClipOptions(reset_every=reset_every, carried_dims=carried)


def test_nothing_to_generate() -> None:
    with pytest.raises(UsageError, match="nothing"):
        generate_motion(torch.zeros(0, 3), torch.zeros(265), lambda _, window: window, ClipOptions())


def test_a_stream_with_a_short_overlap_is_refused_at_once() -> None:
    options = ClipOptions(overlap_frames=39)
    with pytest.raises(UsageError, match="streaming"):
        stream_motion([], torch.zeros(3), lambda rows, _: rows, torch.zeros(265), lambda _, window: window, options)


def test_motion_of_another_shape() -> None:
    with pytest.raises(UsageError, match="265"):
        unpack_motion(torch.zeros(2, 264))
    one = named_motion("shape")
    for broken in ("yaw", "canonical"):
        parts = {**vars(one), broken: torch.zeros(2, 63)}
        with pytest.raises(UsageError, match=broken):
            MotionSequence(**parts)
