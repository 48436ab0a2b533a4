"""What the golden scenarios cannot show: places where we differ from the reference on purpose, and refusals."""

from typing import Any

import numpy as np
import pytest
import torch

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.controls import FrameControls
from newsstudio_ditto.maths.keypoints import decode_head_pose
from newsstudio_ditto.maths.motion_stitch import Blinks, MotionStitchOptions, StitchedMotion, stitch_motion
from newsstudio_ditto.maths.motion_vector import MotionSequence, pack_motion, unpack_motion
from tests.golden_rules import N, f32
from tests.maths.motions import named_motion, tensor

SOURCE = named_motion("stitch/source")
DRIVING = tensor(f32(0.1 * N("stitch/driving", (4, 265))))
LIPS = torch.zeros(21, 3, dtype=torch.bool)
LIPS[[6, 12, 14, 17, 19, 20]] = True


def clip_of(num_frames: int) -> MotionSequence:
    vectors = tensor(f32(0.1 * N("stitch/clip", (num_frames, 265))))
    canonical = SOURCE.canonical
    assert canonical is not None
    return unpack_motion(vectors, canonical.expand(num_frames, -1))


def stitch(controls: FrameControls | None = None, **options: Any) -> StitchedMotion:
    return stitch_motion(SOURCE, DRIVING, MotionStitchOptions(**options), controls)


def test_voice_fades_the_lips_only() -> None:
    voiced, silent = stitch(), stitch(FrameControls(voice=torch.zeros(4)))
    lips = LIPS.reshape(-1)
    torch.testing.assert_close(silent.expression[:, lips], SOURCE.expression[:, lips].expand(4, -1))
    assert torch.equal(silent.expression[:, ~lips], voiced.expression[:, ~lips])


def test_pose_gain_multiplies_the_angle() -> None:
    gain = torch.tensor([1.0, 0.5, 0.0, 2.0])
    plain, scaled = stitch(), stitch(FrameControls(pose_gain={"yaw": gain}))
    torch.testing.assert_close(scaled.head_pose_deg[:, 1], plain.head_pose_deg[:, 1] * gain)


def test_voice_may_fade_other_points() -> None:
    voiced, silent = stitch(), stitch(FrameControls(voice=torch.zeros(4)), voice_points=(6,))
    other_lips = LIPS.clone()
    other_lips[6] = False
    assert torch.equal(silent.expression[:, other_lips.reshape(-1)], voiced.expression[:, other_lips.reshape(-1)])
    torch.testing.assert_close(silent.expression[:, 18:21], SOURCE.expression[:, 18:21].expand(4, -1))


def test_fade_after_a_gain_blends_degrees() -> None:
    gain, weight = torch.tensor([1.0, 0.5, 2.0, 3.0]), torch.tensor([1.0, 0.75, 0.5, 0.25])
    controls = FrameControls(fade={"roll": weight}, pose_gain={"roll": gain})
    faded = stitch(controls, fade_to="source").head_pose_deg[:, 2]
    expected = stitch().head_pose_deg[:, 2] * gain * weight + decode_head_pose(SOURCE.roll) * (1 - weight)
    torch.testing.assert_close(faded, expected)


def test_fade_after_an_offset_blends_degrees() -> None:
    delta = torch.tensor([torch.nan, 10.0, 10.0, 10.0])
    weight = torch.tensor([1.0, 1.0, 0.5, 0.0])
    controls = FrameControls(fade={"pitch": weight}, pose_delta_deg={"pitch": delta})
    faded = stitch(controls, fade_to="source").head_pose_deg[:, 0]
    driven = stitch().head_pose_deg[:, 0]
    source = decode_head_pose(SOURCE.pitch)
    expected = (driven + delta.nan_to_num(0)) * weight + source * (1 - weight)
    torch.testing.assert_close(faded, expected)


def test_limits_clip_driving_rows_and_what_they_are_measured_from() -> None:
    limits = torch.stack([torch.full((265,), -0.3), torch.full((265,), 0.2)])
    bounded = stitch_motion(SOURCE, DRIVING, MotionStitchOptions(limits=limits), None, DRIVING[2])
    clipped = DRIVING.clamp(-0.3, 0.2)
    assert not torch.equal(clipped, DRIVING)
    expected = stitch_motion(SOURCE, clipped, MotionStitchOptions(), None, clipped[2])
    assert torch.equal(bounded.driving_keypoints, expected.driving_keypoints)


def test_fade_to_a_first_frame_with_an_offset_blends_degrees() -> None:
    delta = torch.tensor([10.0, torch.nan, torch.nan, torch.nan])
    weight = torch.tensor([1.0, 0.5, 0.25, 0.0])
    faded = stitch(FrameControls(fade={"yaw": weight}, pose_delta_deg={"yaw": delta})).head_pose_deg[:, 1]
    angle = stitch().head_pose_deg[:, 1] + delta.nan_to_num(0)
    torch.testing.assert_close(faded, angle * weight + angle[0] * (1 - weight))


def test_motion_from_rest_is_added_to_the_source() -> None:
    """The bundled model generates offsets from rest: expression = source + gain * driven on the driven points."""
    result = stitch(relative="rest", driven_keys={"expression": 0.5}, eye_points=(), gaze_points=None)
    lips = LIPS.reshape(-1)
    expected = SOURCE.expression + 0.5 * DRIVING[:, 202:]
    torch.testing.assert_close(result.expression[:, lips], expected[:, lips])
    torch.testing.assert_close(result.expression[:, ~lips], SOURCE.expression[:, ~lips].expand(4, -1))


def test_driving_may_be_a_sequence_and_is_not_changed() -> None:
    driving, before = unpack_motion(DRIVING), DRIVING.clone()
    source_before = pack_motion(SOURCE)
    as_sequence = stitch_motion(SOURCE, driving, MotionStitchOptions())
    assert torch.equal(as_sequence.driving_keypoints, stitch().driving_keypoints)
    assert torch.equal(DRIVING, before)
    assert torch.equal(pack_motion(SOURCE), source_before)


def test_a_clip_plays_back_and_forth() -> None:
    clip = clip_of(3)
    result = stitch_motion(clip, DRIVING, MotionStitchOptions(driven_keys={}))
    np.testing.assert_array_equal(result.scale, clip.scale[[0, 1, 2, 2]])


def test_a_clip_keeps_its_eyes_and_a_still_gets_driven_ones() -> None:
    eyes = torch.zeros(21, 3, dtype=torch.bool)
    eyes[[13, 16, 18]] = True
    clip = clip_of(4)
    kept = stitch_motion(clip, DRIVING, MotionStitchOptions()).expression[:, eyes.reshape(-1)]
    assert torch.equal(kept, clip.expression[:, eyes.reshape(-1)])
    driven = stitch().expression[1:, eyes.reshape(-1)]
    assert not torch.isclose(driven, SOURCE.expression[:, eyes.reshape(-1)]).any()


def test_blinks_repeat_when_the_table_is_short() -> None:
    offsets = torch.stack([torch.zeros(63), torch.ones(63)])
    blinks = Blinks(offsets, torch.tensor([0, 1]))
    eyes = stitch(blinks=blinks, gaze_points=None).expression[:, 3 * 13] - SOURCE.expression[0, 3 * 13]
    torch.testing.assert_close(eyes, torch.tensor([0.0, 1.0, 0.0, 1.0]))


def test_expression_offsets_may_change_with_time() -> None:
    offsets = torch.arange(4.0)[:, None].expand(4, 63)
    shifted = stitch(FrameControls(expression_delta=offsets))
    torch.testing.assert_close(shifted.expression, stitch().expression + offsets)


@pytest.mark.parametrize(
    "controls",
    [
        FrameControls(voice=torch.ones(3)),
        FrameControls(fade={"expression": torch.ones(5)}),
        FrameControls(expression_delta=torch.zeros(2, 63)),
    ],
)
def test_controls_of_another_length_are_refused(controls: FrameControls) -> None:
    with pytest.raises(UsageError, match="frames"):
        stitch(controls)


def test_pose_controls_of_other_parts_are_refused() -> None:
    with pytest.raises(UsageError, match="'expression' is no pose"):
        FrameControls(pose_gain={"expression": torch.ones(4)})


def test_a_source_without_canonical_keypoints_is_refused() -> None:
    with pytest.raises(UsageError, match="canonical"):
        stitch_motion(unpack_motion(DRIVING), DRIVING, MotionStitchOptions())


@pytest.mark.parametrize(
    "options",
    [{"relative": "last"}, {"fade_to": "end"}, {"driven_keys": {"exp": 1.0}}, {"lip_points": (21,)}],
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        MotionStitchOptions(**options)
