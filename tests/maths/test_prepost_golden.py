"""Crops, eyes, masks, keypoint maths, smoothing, layout, conditions and blinks against the golden data."""

import random
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.maths.affine import apply_affine
from newsstudio_ditto.maths.blink import blink_table
from newsstudio_ditto.maths.conditions import EMOTIONS, Conditioning, condition_rows, emotion_rows
from newsstudio_ditto.maths.crop import anchors_106, anchors_203, crop_transform, halve_image
from newsstudio_ditto.maths.eyes import eye_ball_direction, eye_openness
from newsstudio_ditto.maths.feather import feather_mask
from newsstudio_ditto.maths.keypoints import decode_head_pose, pose_keypoints, rotation_matrix
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.motion_vector import MOTION_KEYS, MotionSequence, clip_motion, pack_motion, unpack_motion
from newsstudio_ditto.maths.smoothing import smooth_driving, smooth_source
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import N, f32, load_golden
from tests.maths.motions import REFERENCE_NAMES, golden_motion, tensor

ARRAYS, FACTS = load_golden("prepost/prepost")
GROUPS = {
    **dict.fromkeys(("crop", "chain", "resize"), "crops"),
    "eye": "eyes",
    "mask": "blend mask",
    **dict.fromkeys(("bin66", "keypoint"), "keypoints"),
    **dict.fromkeys(("smooth_s", "smo_d"), "smoothing"),
    "layout": "motion vector",
    "cond": "conditions",
}
ANCHORS = {106: anchors_106, 203: anchors_203}


def close(actual: Any, stored: str, tolerance: float = 0.0) -> None:
    golden = ARRAYS[stored]
    assert_golden(GROUPS[stored.partition("/")[0]], stored, actual, golden, tolerance)


@pytest.mark.parametrize("name", FACTS["crop"])
def test_crop(name: str) -> None:
    arguments = FACTS["crop"][name]["kwargs"]
    points = ARRAYS[f"crop/{name.split('/')[0]}/pts"]
    # vx_ratio has no effect in the reference and is no option of ours
    crop = CropConfig(arguments["scale"], arguments["vy_ratio"], arguments.get("flag_do_rot", True))
    transform = crop_transform(*ANCHORS[len(points)](points), size_px=arguments["dsize"], crop=crop)
    close(transform.original_to_crop, f"crop/{name}/M_o2c", tolerances.CROP)
    close(transform.crop_to_original, f"crop/{name}/M_c2o", tolerances.CROP)
    close(apply_affine(transform.original_to_crop, points), f"crop/{name}/pt_crop", tolerances.CROP)
    assert transform.original_to_crop.dtype == np.float32


@pytest.mark.parametrize("name", [name for name in FACTS["crop"] if f"crop/{name}/img_stride4" in ARRAYS])
def test_crop_image_is_exact(name: str) -> None:
    size = FACTS["crop"][name]["kwargs"]["dsize"]
    matrix = ARRAYS[f"crop/{name}/M_o2c"][:2]
    image = cv2.warpAffine(ARRAYS["frame/a"], matrix, (size, size), flags=cv2.INTER_LINEAR)
    close(image[::4, ::4], f"crop/{name}/img_stride4")


def test_chain_of_two_crops() -> None:
    first = ARRAYS["crop/106_17/A224/M_c2o"]
    landmarks = apply_affine(first, ARRAYS["chain/net203_out"].reshape(203, 2) * 224)
    close(landmarks, "chain/lmk203", tolerances.CROP)


def test_halving_is_exact() -> None:
    halved = halve_image(ARRAYS["resize/in512_row0_63"])
    close(halved, "resize/out256_row0_31")


def test_halving_equals_opencv_on_noise() -> None:
    """The stored rows have block sums that are multiples of 4 only, so they cannot see the rounding."""
    image = np.random.default_rng(3).integers(0, 256, (64, 48, 3), dtype=np.uint8)
    np.testing.assert_array_equal(halve_image(image), cv2.resize(image, (24, 32), interpolation=cv2.INTER_AREA))


def test_eyes() -> None:
    landmarks = ARRAYS["eye/lmk478"]
    close(eye_openness(landmarks), "eye/open", tolerances.EYE_OPEN)
    close(eye_ball_direction(landmarks), "eye/ball_move", tolerances.EYE_BALL)


@pytest.mark.parametrize(("width", "height"), [(256, 200), (64, 48)])
def test_mask_of_other_sizes(width: int, height: int) -> None:
    close(feather_mask(width, height), f"mask/{width}x{height}", tolerances.MASK)


def test_mask_of_512() -> None:
    mask = feather_mask(512, 512)
    for index in (10, 256):
        close(mask[index], f"mask/512/row{index}", tolerances.MASK)
        close(mask[:, index], f"mask/512/col{index}", tolerances.MASK)
    close(mask[0], "mask/512/row0", tolerances.MASK)
    close(mask[:32, :32], "mask/512/corner32", tolerances.MASK)
    close(np.diag(mask), "mask/512/diag", tolerances.MASK)


def test_decode_head_pose() -> None:
    close(decode_head_pose(tensor(ARRAYS["bin66/in"])), "bin66/out", tolerances.DEGREES)


@pytest.mark.parametrize("name", ["bins0", "bins1", "bins2", "deg0", "deg1", "deg2"])
def test_keypoints(name: str) -> None:
    parts = {key: tensor(ARRAYS[f"keypoint/{name}/in/{key}"]) for key in REFERENCE_NAMES.values()}
    pose = [parts[key] if name.startswith("deg") else decode_head_pose(parts[key]) for key in ("pitch", "yaw", "roll")]
    rotation = rotation_matrix(*pose)
    close(rotation, f"keypoint/{name}/R", tolerances.KEYPOINTS)
    canonical, expression = (parts[key].reshape(1, 21, 3) for key in ("kp", "exp"))
    posed = pose_keypoints(canonical, rotation, expression, parts["scale"], parts["t"])
    close(posed, f"keypoint/{name}/out", tolerances.KEYPOINTS)


@pytest.mark.parametrize(
    ("case", "inputs"), [("n1_k13", "n1_k13"), ("n5_k13", "n5_k13"), ("n20_k13", "n20_k13"), ("n20_k4", "n20_k13")]
)
def test_source_smoothing(case: str, inputs: str) -> None:
    width = int(case.split("k")[1])
    smoothed = smooth_source(golden_motion(ARRAYS, f"smooth_s/{inputs}/in"), width)
    for ours, theirs in REFERENCE_NAMES.items():
        close(getattr(smoothed, ours), f"smooth_s/{case}/out/{theirs}", tolerances.SMOOTHING)


@pytest.mark.parametrize(("width", "start", "stop"), [(1, 0, 40), (3, 0, 40), (3, 10, 21), (4, 0, 40), (5, 0, 40)])
def test_driving_smoothing(width: int, start: int, stop: int) -> None:
    smoothed = smooth_driving(tensor(ARRAYS["smo_d/in"][0]), width, start, stop)
    close(smoothed[None], f"smo_d/k{width}_s{start}_e{stop}", tolerances.SMOOTHING)


def assert_parts(motion: MotionSequence, prefix: str) -> None:
    for key in MOTION_KEYS:
        close(motion.part(key), f"{prefix}/{REFERENCE_NAMES[key]}", tolerances.MOTION_VECTOR)


def test_layout() -> None:
    close(pack_motion(golden_motion(ARRAYS, "layout/x_s"))[0], "layout/x_s_vec", tolerances.MOTION_VECTOR)
    vectors = tensor(ARRAYS["layout/vec"][0])
    low, high = tensor(ARRAYS["layout/v_min_max"])[:2]
    for row in range(3):
        assert_parts(unpack_motion(vectors[row : row + 1]), f"layout/plain/{row}")
        assert_parts(unpack_motion(clip_motion(vectors[row : row + 1], low, high)), f"layout/clipped/{row}")


@pytest.mark.parametrize("count", FACTS["mirror_index"])
def test_mirror_index(count: str) -> None:
    expected = FACTS["mirror_index"][count]
    assert_golden("mirror index", count, mirror_index(np.arange(len(expected)), int(count)), expected)


def test_emotions() -> None:
    assert [name.capitalize() for name in EMOTIONS] == FACTS["emo_names"]
    for index, expected in FACTS["emo_avg"].items():
        assert_golden("conditions", f"emo {index}", emotion_rows(int(index))[0], expected, tolerances.CONDITIONS)
    mixed = FACTS["emo_avg_list"]["[3,4]"]
    assert_golden("conditions", "emo [3, 4]", emotion_rows([3, 4])[0], mixed, tolerances.CONDITIONS)


def conditioning_of(case: dict[str, Any]) -> Conditioning:
    flags = case.get("flags", {})
    emotion = case["emo"]
    if isinstance(emotion, str):  # arr600 and arr1 stand for an array and its first row
        table: Tensor = tensor(ARRAYS["cond/emo600"])[: int(emotion.removeprefix("arr"))]
    else:
        table = emotion_rows(emotion)
    if case.get("ch"):
        parts = {name: tensor(ARRAYS[f"cond/ch_info/{name}"]) for name in ("eye_open", "eye_ball", "sc")}
    else:
        parts = {
            name: torch.cat([tensor(ARRAYS[f"cond/{name}/{frame}"]) for frame in range(case["n"])])
            for name in ("eye_open", "eye_ball")
        }
        parts["sc"] = tensor(ARRAYS["cond/sc"])
    conditioning = Conditioning(
        emotion=table if flags.get("use_emo", True) else None,
        eye_open=parts["eye_open"] if flags.get("use_eye_open", True) else None,
        eye_ball=parts["eye_ball"] if flags.get("use_eye_ball", True) else None,
        identity=parts["sc"] if flags.get("use_sc", True) else None,
    )
    return conditioning.freeze_eyes() if case.get("f0") else conditioning


@pytest.mark.parametrize("name", FACTS["cond_cases"])
def test_condition_rows(name: str) -> None:
    conditioning = conditioning_of(FACTS["cond_cases"][name])
    for count, first_index in FACTS["cond_calls"]:
        audio = tensor(f32(N(f"cond/aud/{count}", (count, 4))))
        rows = condition_rows(audio, conditioning, first_index)
        close(rows, f"cond/{name}/n{count}_i{first_index}", tolerances.CONDITIONS)


@pytest.mark.parametrize("name", FACTS["blink"])
def test_blinks(name: str) -> None:
    case = FACTS["blink"][name]
    rng = random.Random(case.get("python_random_seed"))
    table = blink_table(case["N"], case["blink_n"], case["open_n"], rng)
    assert_golden("blinks", name, table, case["idx"])
