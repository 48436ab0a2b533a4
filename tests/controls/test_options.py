"""Refusals with their range, and the hash."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.config import RenderOptions, SamplingOptions
from newsstudio_ditto.controls import BlinkOptions, ControlOptions, PointOffset
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.curves import sample_curve

REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"mouth_amplitude": -0.1}, r"mouth_amplitude is -0.1 .*from 0 to 3"),
    ({"head_amplitude": 3.1}, r"head_amplitude .*from 0 to 3"),
    ({"pitch_deg": 46.0}, r"pitch_deg .*from -45 to 45"),
    ({"yaw_deg": float("nan")}, r"yaw_deg is nan .*from -45 to 45"),
    ({"roll_deg": ((0.0, 0.0), (1.0, -46.0))}, r"roll_deg at 1 s .*from -45 to 45"),
    ({"pitch_factor": -0.1}, r"pitch_factor .*from 0 to 3"),
    ({"yaw_factor": 3.1}, r"yaw_factor .*from 0 to 3"),
    ({"roll_factor": 4.0}, r"roll_factor .*from 0 to 3"),
    ({"gaze_right": 1.5}, r"gaze_right .*from -1 to 1"),
    ({"gaze_up": ((0.0, 0.0), (2.0, -2.0))}, r"gaze_up at 2 s is -2.0 .*from -1 to 1"),
    ({"mouth_amplitude": ()}, r"empty curve"),
    ({"mouth_amplitude": ((1.0, 1.0), (1.0, 2.0))}, r"do not rise"),
    ({"mouth_amplitude": ((-1.0, 1.0),)}, r"do not rise"),
    ({"fade_in_s": -1.0}, r"fade_in_s .*from 0 to 600"),
    ({"fade_out_s": 601.0}, r"fade_out_s .*from 0 to 600"),
    ({"fade_to": "last"}, r"source or first"),
    ({"fade_parts": ("exp",)}, r"fade_parts: 'exp' unknown .*expression"),
    ({"driven_parts": {"nose": 1.0}}, r"driven_parts: 'nose' unknown .*expression"),
    ({"driven_parts": {"yaw": 9.0}}, r"driven_parts yaw .*from 0 to 3"),
    ({"relative": "last"}, r"first, rest or off"),
    ({"emotion": "glad"}, r"'glad' unknown .*happy"),
    ({"emotion": ()}, r"no label"),
    ({"emotion": {"happy": 1.5}}, r"emotion happy .*from 0 to 1"),
    ({"drive_eyes": False, "blink": BlinkOptions("random")}, r"drive_eyes"),
]


@pytest.mark.parametrize(("values", "message"), REFUSALS)
def test_values_outside_their_range_are_refused_with_the_range(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ControlOptions(**values)


SWITCHES = {"freeze_eyes", "reference_character", "limit_motion", "gaze_follows_head"}
BY_THEMSELVES = {"blink", "expression_offsets"}


def test_every_control_that_has_a_range_is_refused_above() -> None:
    refused = {name for values, _ in REFUSALS for name in values}
    assert {part.name for part in fields(ControlOptions)} - refused - SWITCHES == BY_THEMSELVES - refused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_steps": 0}, "num_steps .*from 1 to 1000"),
        ({"guidance_scale": -0.1}, "guidance_scale .*from 0 to 10"),
        ({"guidance_scale": 10.5}, "guidance_scale .*from 0 to 10"),
        ({"overlap_frames": 0}, "overlap_frames .*from 1 to 79"),
        ({"overlap_frames": 80}, "overlap_frames .*from 1 to 79"),
        ({"smoothing_frames": 0}, "smoothing_frames .*from 1 to 999"),
        ({"seed": -1}, "seed .*from 0 to"),
    ],
)
def test_sampling_outside_its_range_is_refused_with_the_range(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SamplingOptions(**values)


@pytest.mark.parametrize(
    ("values", "is_beyond"),
    [
        ({}, False),
        ({"mouth_amplitude": 2.0, "pitch_deg": 0.0, "blink": BlinkOptions("generated", seed=3)}, False),
        ({"blink": BlinkOptions("random")}, True),
        ({"yaw_deg": ((0.0, 0.0), (1.0, 1.0))}, True),
        ({"head_amplitude": 0.5}, True),
        ({"gaze_up": 0.1}, True),
    ],
)
def test_which_controls_move_more_than_the_mouth(values: dict[str, Any], is_beyond: bool) -> None:
    assert ControlOptions(**values).moves_beyond_mouth is is_beyond


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mode": "often"}, "model, generated, off, fixed or random"),
        ({"per_minute": 41.0}, "from 1 to 40"),
        ({"seed": -1}, "blink seed"),
        ({"closing": 0.0}, "from 0.1 to 1.5"),
    ],
)
def test_impossible_blinks_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        BlinkOptions(**values)


@pytest.mark.parametrize("values", [{"point": 21}, {"point": 0, "y": 0.3}])
def test_impossible_offsets_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="expression_offsets"):
        PointOffset(**values)


def test_curves_are_straight_between_points_and_held_outside() -> None:
    values = sample_curve(((0.04, 1.0), (0.12, 3.0)), 6)
    torch.testing.assert_close(values, torch.tensor([1.0, 1.0, 2.0, 3.0, 3.0, 3.0]))
    assert sample_curve(2, 3).tolist() == [2.0, 2.0, 2.0]


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 3, width=32)), min_size=1, unique_by=lambda p: p[0]))
def test_curves_stay_within_their_points(points: list[tuple[int, float]]) -> None:
    curve = tuple((time_s / 25, value) for time_s, value in sorted(points))
    values = sample_curve(curve, 501)
    low, high = (f(value for _, value in curve) for f in (min, max))
    assert low - 1e-5 <= values.min() <= values.max() <= high + 1e-5
    for index, value in points:
        assert values[index].item() == pytest.approx(value, abs=1e-5)


def test_the_hash_is_that_of_the_values() -> None:
    plain = RenderOptions()
    assert len(plain.controls_hash) == 64
    assert RenderOptions(controls=ControlOptions(mouth_amplitude=1)).controls_hash == plain.controls_hash
    one, other = (
        RenderOptions(controls=ControlOptions(emotion=emotion))
        for emotion in ({"happy": 0.5, "sad": 0.1}, {"sad": 0.1, "happy": 0.5})
    )
    assert one.controls_hash == other.controls_hash
    changed = [
        replace(plain, controls=ControlOptions(mouth_amplitude=1.5)),
        replace(plain, controls=ControlOptions(blink=BlinkOptions("random", seed=2**60))),
        replace(plain, controls=ControlOptions(blink=BlinkOptions("random", seed=2**60 + 1))),
        replace(plain, sampling=SamplingOptions(guidance_scale=1.5)),
        replace(plain, stitch=False),
    ]
    assert len({options.controls_hash for options in (plain, *changed)}) == 6
    assert replace(plain, batch_size=3).controls_hash == plain.controls_hash


@pytest.mark.parametrize(
    ("values", "is_held"),
    [
        ({}, False),
        ({"mouth_amplitude": 0.5, "driven_parts": {"expression": 0.5, "yaw": 0.0}, "fade_in_s": 2.0}, False),
        ({"mouth_amplitude": 0.4}, True),
        ({"mouth_amplitude": ((0.0, 1.0), (2.0, 0.0))}, True),
        ({"driven_parts": {"yaw": 1.0}}, True),
        ({"driven_parts": {}}, True),
        ({"fade_in_s": 1.5, "fade_out_s": 1.0}, True),
    ],
)
def test_lips_that_are_asked_to_rest_are_known(values: dict[str, Any], is_held: bool) -> None:
    assert ControlOptions(**values).holds_lips is is_held
