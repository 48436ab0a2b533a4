"""Detector decoding and landmark placement with golden stand-in outputs."""

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from newsstudio_ditto.maths.affine import Floats
from newsstudio_ditto.maths.anchor_detector import (
    DETECTOR_SIZE_PX,
    blaze_anchors,
    decode_detections,
    detector_input_size,
    landmark106_crop,
    landmarks_106,
    landmarks_203,
    largest_box,
)
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import U, f32, load_golden

ARRAYS, FACTS = load_golden("prepost/aux")
PREPOST = load_golden("prepost/prepost")[0]
FRAMES = {"land": PREPOST["frame/a"], "port": np.ascontiguousarray(PREPOST["frame/a"][:, :200])}
COUNTS = {8: 8192, 16: 2048, 32: 512}


def close(actual: object, stored: str, tolerance: float = 0.0) -> None:
    assert_golden("detector and landmarks", stored, actual, ARRAYS[stored], tolerance)


def detector_outputs(tag: str) -> tuple[list[Floats], list[Floats], list[Floats]]:
    scores = [f32(U(f"det/{tag}/score/{s}", (n, 1)) ** 400) for s, n in COUNTS.items()]
    boxes = [f32(3 + 5 * U(f"det/{tag}/box/{s}", (n, 4))) for s, n in COUNTS.items()]
    offsets = [f32(-2 + 4 * U(f"det/{tag}/kps/{s}", (n, 10))) for s, n in COUNTS.items()]
    return [*scores], [*boxes], [*offsets]


def blob(image: npt.NDArray[np.uint8], mean: float, std: float) -> npt.NDArray[np.float32]:
    """As the reference makes it, channels swapped."""
    return np.moveaxis((image[..., ::-1].astype(np.float32) - mean) / std, -1, 0)[None]


@pytest.mark.parametrize("tag", FRAMES)
def test_detector(tag: str) -> None:
    frame = FRAMES[tag]
    height, width, scale = detector_input_size(*frame.shape[:2])
    canvas = np.zeros((DETECTOR_SIZE_PX, DETECTOR_SIZE_PX, 3), dtype=np.uint8)
    canvas[:height, :width] = cv2.resize(frame, (width, height))
    close(blob(canvas, 127.5, 128)[:, :, ::8, ::8], f"det/{tag}/blob_sub", tolerances.DETECTOR_INPUT)
    found = decode_detections(*detector_outputs(tag), scale)
    close(found.boxes, f"det/{tag}/det", tolerances.LANDMARKS)
    close(found.keypoints, f"det/{tag}/kps", tolerances.LANDMARKS)
    best = largest_box(found.boxes)
    close(best, f"det/{tag}/largest_box", tolerances.LANDMARKS)


@pytest.mark.parametrize("tag", FRAMES)
def test_landmarks_106(tag: str) -> None:
    crop = landmark106_crop(ARRAYS[f"det/{tag}/largest_box"])
    close(crop[:2], f"lmk106/{tag}/M", tolerances.LANDMARK_CROP)
    image = cv2.warpAffine(FRAMES[tag], crop[:2], (192, 192))
    close(blob(image, 0, 1)[:, :, ::4, ::4], f"lmk106/{tag}/blob_sub")
    points = landmarks_106(f32(-0.8 + 1.6 * U(f"lmk106/{tag}/out", (1, 212))), crop)
    close(points, f"lmk106/{tag}/pts", tolerances.LANDMARKS)


def test_landmarks_203() -> None:
    points = landmarks_203(f32(U("lmk203/out", (1, 406))), PREPOST["crop/203_17/A224/M_c2o"])
    close(points, "lmk203/pts", tolerances.LANDMARKS)


def test_blaze_anchors() -> None:
    close(blaze_anchors(), "blaze/anchors_xy", tolerances.ANCHORS)


def test_no_face() -> None:
    empty = [np.zeros((n, 1), dtype=np.float32) for n in COUNTS.values()]
    _, boxes, offsets = detector_outputs("land")
    assert len(decode_detections(empty, boxes, offsets, 1.0).boxes) == 0
