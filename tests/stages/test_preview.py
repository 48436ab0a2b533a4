import cv2
import numpy as np
import pytest
import torch

from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.stages import preview

GENERATOR = np.random.default_rng(5)


def decode(encoded: bytes) -> preview.Picture:
    picture = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    return picture


@pytest.mark.parametrize("shape", [(40, 60, 3), (900, 1600, 3)])
def test_any_picture_fits_into_an_event_row(shape: tuple[int, ...]) -> None:
    noise = GENERATOR.integers(0, 256, shape, np.uint8)
    encoded = preview.encode_picture(noise)
    assert len(encoded) <= preview.MOST_BYTES
    assert min(decode(encoded).shape[:2]) >= 40


def test_a_sheet_shows_frames_from_the_whole_clip() -> None:
    frames = torch.zeros(100, 3, 32, 32, dtype=torch.uint8)
    frames[0, 0], frames[99, 2] = 255, 255
    sheet = preview.frame_sheet(frames)
    assert sheet[80, 80].tolist() == [255, 0, 0]
    assert sheet[80, -80].tolist() == [0, 0, 255]


def test_the_mask_tints_only_its_window() -> None:
    frames = torch.zeros(1, 3, 160, 160, dtype=torch.uint8)
    sheet = preview.mask_sheet(frames, torch.full((1, 1, 80, 80), 255, dtype=torch.uint8), PasteWindow(0, 80, 80, 80))
    assert sheet[40, 120, 1] > 80
    assert not sheet[100:, :].any()
    assert not sheet[:, :80].any()


def test_mouth_opening_is_the_vertical_pull_of_the_lips() -> None:
    motion = torch.zeros(3, 265)
    expression = motion[:, 202:].view(3, 21, 3)
    expression[1, 4, 1], expression[2, 5, 1] = 0.5, 9.0
    np.testing.assert_allclose(preview.mouth_opening(motion, [3, 4]), [0.0, 0.5, 0.0])


def test_curves_of_one_step_and_of_no_range_are_drawn() -> None:
    plot = preview.curve_plot({"flat": np.zeros(1, np.float32)}, seconds_per_step=0.04)
    assert (plot != 255).any()
