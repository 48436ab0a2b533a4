"""What each control does to the motion: how much, where, and nowhere else."""

import itertools
from typing import Any

import pytest
import torch

from newsstudio_ditto.controls import BlinkOptions, PointOffset
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.keypoints import decode_head_pose
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.render.prestitch import prestitch, stitch_options
from tests.controls.plans import MINI, NO_RIG, OFFICIAL, STILL, clip, coordinates, driving, stitched

POSES = (STILL.pitch, STILL.yaw, STILL.roll)
SOURCE_POSE = torch.stack([decode_head_pose(logits) for logits in POSES], dim=1)
BOTH = pytest.mark.parametrize("config", [OFFICIAL, MINI], ids=["official", "mini"])
EYES = (11, 13, 15, 16, 18)


@BOTH
@pytest.mark.parametrize("source", [STILL, clip(3)], ids=["still", "clip"])
def test_no_controls_change_nothing(config: BundleConfig, source: Any) -> None:
    plain = prestitch(source, driving(12), stitch_options(config), None)
    assert torch.equal(stitched(source=source, config=config).driving_keypoints, plain.driving_keypoints)


@BOTH
def test_mouth_amplitude_scales_the_change_of_the_lips_alone(config: BundleConfig) -> None:
    lips = coordinates(*config.lip_points)
    plain = stitched(config=config).expression - STILL.expression
    for amplitude in (0.5, 2.0, 3.0):
        changed = stitched(config=config, mouth_amplitude=amplitude).expression - STILL.expression
        torch.testing.assert_close(changed[:, lips], amplitude * plain[:, lips], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(changed[:, ~lips], plain[:, ~lips])
    closed = stitched(config=config, mouth_amplitude=0.0).expression
    assert torch.equal(closed[:, lips], STILL.expression[:, lips].expand(12, -1))
    assert plain[1:, lips].abs().min() > 0


def test_mouth_amplitude_follows_its_curve() -> None:
    lips = coordinates(*OFFICIAL.lip_points)
    plain = stitched().expression[:, lips] - STILL.expression[:, lips]
    curve = ((0.08, 0.0), (0.16, 2.0))
    changed = stitched(mouth_amplitude=curve).expression[:, lips] - STILL.expression[:, lips]
    weights = torch.tensor([0.0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2])[:, None]
    torch.testing.assert_close(changed, plain * weights, atol=1e-6, rtol=1e-4)


def test_head_amplitude_scales_turn_and_shift_since_the_source() -> None:
    plain = stitched()
    turned, shifted = plain.head_pose_deg - SOURCE_POSE, plain.translation - STILL.translation
    assert turned[1:].abs().min() > 0
    for amplitude in (0.0, 0.5, 2.0):
        moved = stitched(head_amplitude=amplitude)
        torch.testing.assert_close(moved.head_pose_deg - SOURCE_POSE, amplitude * turned, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(moved.translation - STILL.translation, amplitude * shifted, atol=1e-6, rtol=1e-4)


def test_head_amplitude_scales_a_clips_own_head_as_well() -> None:
    """The embedded model generates no head motion; what the head does is the clip's."""
    source = clip(3)
    plain, still = (stitched(source=source, config=MINI, head_amplitude=a) for a in (1.0, 0.0))
    assert (plain.head_pose_deg - plain.head_pose_deg[0]).abs().max() > 0
    assert (still.head_pose_deg - plain.head_pose_deg[0]).abs().max() < 1e-4
    assert torch.equal(still.scale, plain.scale[:1].expand(12, -1))
    assert torch.equal(still.expression, plain.expression)


@BOTH
@pytest.mark.parametrize(("axis", "name"), list(enumerate(("pitch_deg", "yaw_deg", "roll_deg"))))
def test_pose_offsets_are_degrees_of_their_axis(config: BundleConfig, axis: int, name: str) -> None:
    plain = stitched(config=config).head_pose_deg
    for degrees in (-10.0, 4.0):
        moved = stitched(config=config, **{name: degrees}).head_pose_deg - plain
        expected = torch.zeros(12, 3)
        expected[:, axis] = degrees
        torch.testing.assert_close(moved, expected, atol=1e-4, rtol=0)


def test_pose_factors_multiply_the_whole_angle() -> None:
    plain = stitched().head_pose_deg
    torch.testing.assert_close(stitched(roll_factor=2.0).head_pose_deg[:, 2], 2 * plain[:, 2])
    assert torch.equal(stitched(yaw_factor=0.0, yaw_deg=9.0).head_pose_deg[:, 1], torch.zeros(12))


def test_directions_are_those_of_the_manual() -> None:
    """For keypoints with z towards the camera: yaw turns to the right of the picture, pitch up, roll clockwise."""
    nose, ear = torch.zeros(21, 3), torch.zeros(21, 3)
    nose[:, 2], ear[:, 0] = 1.0, 1.0
    for name, points, axis, sign in (("yaw_deg", nose, 0, 1), ("pitch_deg", nose, 1, -1), ("roll_deg", ear, 1, 1)):
        source = STILL.map(torch.zeros_like)
        source = type(source)(**{**vars(source), "canonical": points.reshape(1, 63), "scale": torch.ones(1, 1)})
        base, moved = (
            stitched(source=source, config=MINI, mouth_amplitude=0.0, **{name: degrees}).driving_keypoints
            for degrees in (0.0, 10.0)
        )
        assert (sign * (moved - base)[:, 0, axis] > 0.1).all()


def test_only_driven_parts_move() -> None:
    moved = stitched(driven_parts={"yaw": 1.0})
    assert torch.equal(moved.translation, STILL.translation.expand(12, -1))
    torch.testing.assert_close(moved.head_pose_deg[:, 1], stitched().head_pose_deg[:, 1])
    assert (moved.head_pose_deg[:, [0, 2]] - SOURCE_POSE[:, [0, 2]]).abs().max() == 0
    half = stitched(driven_parts={"translation": 0.5}).translation - STILL.translation
    torch.testing.assert_close(half, 0.5 * (stitched().translation - STILL.translation))


def test_motion_that_is_not_relative_replaces_the_sources() -> None:
    lips = coordinates(*OFFICIAL.lip_points)
    assert torch.equal(stitched(relative="off").expression[:, lips], driving(12)[:, 202:][:, lips])
    assert torch.equal(stitched().expression[:1, lips], STILL.expression[:, lips])


@pytest.mark.parametrize("fade_in_s", [0.2, 0.48, 30.0], ids=["short", "exact", "longer than the speech"])
@BOTH
def test_fades_start_at_the_source_and_rise(config: BundleConfig, fade_in_s: float) -> None:
    loud = {"mouth_amplitude": 2.0, "yaw_deg": 8.0, "expression_offsets": (PointOffset(14, y=0.1),)}
    plain = stitched(config=config, **loud)
    faded = stitched(config=config, fade_in_s=fade_in_s, **loud)
    torch.testing.assert_close(faded.driving_keypoints[0], faded.source_keypoints[0], atol=1e-6, rtol=0)
    assert (plain.driving_keypoints[0] - plain.source_keypoints[0]).abs().max() > 0.01
    yaw = faded.head_pose_deg[:6, 1] - SOURCE_POSE[:, 1]
    share = (torch.arange(6) / (25 * fade_in_s)).clamp(max=1)
    torch.testing.assert_close(yaw, share * (plain.head_pose_deg[:6, 1] - SOURCE_POSE[:, 1]), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("fade_out_s", [0.2, 30.0])
def test_fades_end_at_their_target(fade_out_s: float) -> None:
    loud = {"mouth_amplitude": 2.0, "yaw_deg": 8.0, "fade_out_s": fade_out_s}
    to_source, to_first = stitched(**loud), stitched(**loud, fade_to="first")
    torch.testing.assert_close(to_source.driving_keypoints[-1], to_source.source_keypoints[-1], atol=1e-6, rtol=0)
    torch.testing.assert_close(to_first.driving_keypoints[-1], to_first.driving_keypoints[0], atol=1e-6, rtol=0)
    assert (to_first.driving_keypoints[0] - to_first.source_keypoints[0]).abs().max() > 0.01


def test_a_head_with_an_amplitude_fades_in_degrees() -> None:
    plain, faded = (stitched(head_amplitude=2.0, fade_in_s=seconds).head_pose_deg for seconds in (0.0, 0.4))
    share = (torch.arange(12) / 10).clamp(max=1)[:, None]
    torch.testing.assert_close(faded - SOURCE_POSE, share * (plain - SOURCE_POSE), atol=1e-4, rtol=1e-4)


def test_only_fade_parts_fade() -> None:
    plain, faded = stitched(yaw_deg=8.0), stitched(yaw_deg=8.0, fade_in_s=1.0, fade_parts=("expression",))
    assert torch.equal(faded.head_pose_deg, plain.head_pose_deg)
    assert not torch.equal(faded.expression[1:], plain.expression[1:])


@BOTH
def test_gaze_moves_the_pupils_to_its_side_and_further_with_more(config: BundleConfig) -> None:
    plain = stitched(config=config).expression
    right = [stitched(config=config, gaze_right=g).expression - plain for g in (-1.0, -0.5, 0.5, 1.0)]
    pupils = [point for point in config.eye_points if right[3][:, 3 * point].abs().min() > 1e-3]
    assert len(pupils) == 2
    for low, high in itertools.pairwise(right):
        assert (high[:, 3 * pupils[0]] > low[:, 3 * pupils[0]]).all()
    up = stitched(config=config, gaze_up=0.7).expression - plain
    assert (up[:, [3 * point + 1 for point in pupils]] < -0.005).all()
    assert up[:, ~coordinates(*pupils)].abs().max() < 1e-7


def test_the_eye_on_the_side_looked_to_turns_further() -> None:
    """As when the eyes follow a turned head: 0.0010 on that side, 0.0007 on the other."""
    plain = stitched().expression
    for right, on_left, on_right in ((1.0, 0.021, 0.03), (-1.0, -0.03, -0.021)):
        shift = (stitched(gaze_right=right).expression - plain)[:, [33, 45]]
        torch.testing.assert_close(shift, torch.tensor([[on_left, on_right]]).expand(12, -1), atol=1e-6, rtol=0)


def test_gaze_follows_a_turned_head_only_when_it_may() -> None:
    pupils = coordinates(11, 15)
    on, off = stitched(yaw_deg=20.0), stitched(yaw_deg=20.0, gaze_follows_head=False)
    assert (on.expression[:, pupils] - off.expression[:, pupils]).abs().max() > 1e-3
    assert torch.equal(on.expression[:, ~pupils], off.expression[:, ~pupils])


def test_expression_offsets_shift_their_point() -> None:
    plain = stitched().expression
    offset = PointOffset(14, x=0.01, y=((0.0, 0.0), (0.44, 0.11)))
    moved = stitched(expression_offsets=(offset, PointOffset(14, x=0.02))).expression - plain
    torch.testing.assert_close(moved[:, 42], torch.full((12,), 0.03), atol=1e-6, rtol=0)
    torch.testing.assert_close(moved[:, 43], torch.arange(12) * 0.01, atol=1e-6, rtol=0)
    assert moved[:, ~coordinates(14)].abs().max() == 0


@pytest.mark.parametrize(
    ("config", "controls", "message"),
    [
        (MINI, {"driven_parts": {"yaw": 1.0}}, "yaw: this model generates the expression alone"),
        (MINI, {"relative": "off"}, "rest and first"),
        (OFFICIAL, {"relative": "rest"}, "first and off"),
        (MINI, {"gaze_follows_head": True}, "gaze_follows_head"),
        (NO_RIG, {"gaze_up": 0.5}, "gaze_right and gaze_up"),
        (NO_RIG, {"blink": BlinkOptions("random")}, "give blink 'model' or 'off'"),
    ],
)
def test_what_a_model_cannot_do_is_refused(config: BundleConfig, controls: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        stitched(config=config, **controls)
