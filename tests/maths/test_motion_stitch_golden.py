"""The 36 motion-stitch scenarios of the golden data, each as one vectorised pass."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from newsstudio_ditto.maths.blink import blink_table
from newsstudio_ditto.maths.controls import FrameControls
from newsstudio_ditto.maths.motion_stitch import Blinks, MotionStitchOptions, stitch_motion
from newsstudio_ditto.maths.motion_vector import POSE_KEYS, MotionKey
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import load_golden, load_json, make_weights
from tests.maths.motions import REFERENCE_NAMES, golden_motion, tensor

ARRAYS, FACTS = load_golden("prepost/motion_stitch")
CASES: dict[str, dict[str, Any]] = FACTS["cases"]
WEIGHTS = {
    key: tensor(value) for key, value in make_weights(load_json("manifest/stitching_network.json"), "stitch").items()
}
OUR_NAMES: dict[str, MotionKey] = {theirs: ours for ours, theirs in REFERENCE_NAMES.items()}  # type: ignore[misc]


def stitching_network(source: Tensor, driving: Tensor) -> Tensor:
    hidden = torch.cat([source.flatten(1), driving.flatten(1)], dim=1)
    for layer in (0, 2, 4, 6):
        hidden = hidden @ WEIGHTS[f"mlp.{layer}.weight"].T + WEIGHTS[f"mlp.{layer}.bias"]
        hidden = hidden.relu() if layer < 6 else hidden
    shift = torch.nn.functional.pad(hidden[:, None, 63:], (0, 1))
    return driving + hidden[:, :63].reshape(-1, 21, 3) + shift


def gains(use_d_keys: Any) -> dict[MotionKey, float] | None:
    if use_d_keys is None:
        return None
    pairs = use_d_keys.items() if isinstance(use_d_keys, dict) else ((key, 1.0) for key in use_d_keys)
    return {OUR_NAMES[key]: gain for key, gain in pairs}


def options_of(case: dict[str, Any]) -> MotionStitchOptions:
    setup = case.get("setup", {})
    options = MotionStitchOptions(
        driven_keys=gains(setup.get("use_d_keys")),
        relative="first" if setup.get("relative_d", True) else "off",
        drive_eyes=setup.get("drive_eye"),
        fade_to="source" if setup.get("fade_type") == "s" else "first",
        character_scale=float(ARRAYS["in/ch_info_scale"][0, 0]) if case.get("ch") else None,
        # The reference keeps two bugs in its numbers: voice fades the whole expression, and gains multiply logits.
        voice_points=tuple(range(21)),
        pose_gain_on="logits",
    )
    if "delta_eye_arr" in setup:
        table = blink_table(case["Nd"], 15, setup["delta_eye_open_n"], random.Random(0))
        options = replace(options, blinks=Blinks(tensor(ARRAYS["in/delta_eye_arr"]), tensor(table)))
    return options


def frame_controls(case: dict[str, Any]) -> list[dict[str, Any]]:
    overall = case.get("setup", {}).get("overall_ctrl_info", {})
    controls = case.get("ctrl", {})
    return [{**overall, **controls.get("*", controls.get(str(frame), {}))} for frame in range(case["frames"])]


def controls_of(case: dict[str, Any]) -> FrameControls:
    frames = frame_controls(case)
    setup = case.get("setup", {})

    def column(name: str, default: float) -> Tensor:
        return torch.tensor([float(frame.get(name, default)) for frame in frames])

    fade: dict[MotionKey, Tensor] = {}
    for index, frame in enumerate(frames):
        if setup.get("fade_type") and "fade_alpha" in frame:  # without a type the reference ignores the weight
            for key in frame.get("fade_out_keys", setup.get("fade_out_keys", ["exp"])):
                fade.setdefault(OUR_NAMES[key], torch.ones(len(frames)))[index] = frame["fade_alpha"]
    used = {name for frame in frames for name in frame}
    return FrameControls(
        fade=fade,
        pose_delta_deg={key: column(f"delta_{key}", np.nan) for key in POSE_KEYS if f"delta_{key}" in used},
        pose_gain={key: column(f"alpha_{key}", 1.0) for key in POSE_KEYS if f"alpha_{key}" in used},
        expression_delta=tensor(ARRAYS["in/delta_exp"]) if "delta_exp" in used else None,
        voice=column("vad_alpha", 1.0) if "vad_alpha" in used else None,
    )


@pytest.mark.parametrize("name", CASES)
def test_scenario_equals_golden(name: str) -> None:
    case = CASES[name]
    source = golden_motion(ARRAYS, "in/x_s")
    source = source if case.get("video") else source.rows(slice(0, 1))
    driving = tensor(ARRAYS["in/driving"])[torch.arange(case["frames"]) % 8]
    first = tensor(ARRAYS["in/d0"]) if case.get("d0") else None

    result = stitch_motion(source, driving, options_of(case), controls_of(case), first)

    driven = result.driving_keypoints
    if case.get("setup", {}).get("flag_stitching", True):
        driven = stitching_network(result.source_keypoints, driven)
    expected = {key: ARRAYS[f"{name}/{key}"] for key in ("x_s", "x_d", "exp", "t", "scale", "pose_deg")}
    for actual, key, tolerance in (
        (result.expression, "exp", tolerances.MOTION_STITCH),
        (result.translation, "t", tolerances.MOTION_STITCH),
        (result.scale, "scale", tolerances.MOTION_STITCH),
        (result.head_pose_deg, "pose_deg", tolerances.DEGREES),
        (result.source_keypoints, "x_s", tolerances.MOTION_STITCH),
        (driven, "x_d", tolerances.MOTION_STITCH),
    ):
        group = "motion stitching, degrees" if key == "pose_deg" else "motion stitching"
        assert_golden(group, f"{name}/{key}", actual, expected[key], tolerance)


def test_all_scenarios_are_here() -> None:
    assert len(CASES) == 36
