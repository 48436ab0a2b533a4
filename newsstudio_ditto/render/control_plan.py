"""What the controls of a speech mean for one bundle and one avatar: options and per-frame arrays of the maths."""

import random
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.controls import ControlOptions, Curve, Emotion, Relative
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.blink import blink_closing
from newsstudio_ditto.maths.conditions import EMOTIONS, emotion_rows
from newsstudio_ditto.maths.controls import FrameControls, fade_weights
from newsstudio_ditto.maths.curves import sample_curve
from newsstudio_ditto.maths.eye_rig import EYE_RIGS, EyeRig, gaze_offsets, shut_offsets
from newsstudio_ditto.maths.keypoints import decode_head_pose, pose_keypoints, rotation_matrix
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.motion_stitch import Blinks, MotionStitchOptions
from newsstudio_ditto.maths.motion_vector import POSE_KEYS, MotionKey, MotionSequence
from newsstudio_ditto.networks.config import BundleConfig, MotionDiffusionConfig
from newsstudio_ditto.units import FRAME_RATE_HZ, MOTION_KEYS, NUM_KEYPOINTS

NEUTRAL = EMOTIONS.index("neutral")
"""The emotion a newsreader speaks with."""


@dataclass(frozen=True)
class ControlPlan:
    """Controls ready for :func:`~newsstudio_ditto.maths.motion_stitch.stitch_motion`.

    Args:
        options: what drives what.
        frames: per-frame arrays.
    """

    options: MotionStitchOptions
    frames: FrameControls


def plan_controls(
    controls: ControlOptions,
    plain: MotionStitchOptions,
    config: BundleConfig,
    source: MotionSequence,
    num_frames: int,
) -> ControlPlan:
    """Turn controls into options and per-frame arrays.

    Args:
        controls: of the speech.
        plain: what the bundle does without controls.
        config: of the bundle.
        source: motion of the source frames with canonical keypoints.
        num_frames: T.

    Raises:
        UsageError: the bundle cannot do what a control asks for.
    """
    rig = EYE_RIGS.get(config.eye_points)
    gaze_points = _gaze_points(controls, plain, rig, is_still=source.num_frames == 1)
    drive_eyes = True if controls.blink.is_scheduled and controls.drive_eyes is None else controls.drive_eyes
    options = replace(
        plain,
        gaze_points=gaze_points,
        driven_keys=plain.driven_keys if controls.driven_parts is None else _driven(controls, config),
        relative=plain.relative if controls.relative is None else _relative(controls.relative, config),
        drive_eyes=drive_eyes,
        blinks=_blinks(controls, rig, source, num_frames),
        fade_to=controls.fade_to,
    )
    return ControlPlan(options, _frame_controls(controls, rig, num_frames))


def emotion_condition(emotion: Emotion | None, parts: MotionDiffusionConfig, num_frames: int) -> Tensor | None:
    """Emotion columns of the condition rows.

    Args:
        emotion: of the controls; None is neutral.
        parts: whether the denoiser takes emotion.
        num_frames: T.

    Returns:
        (1 or T, 8) probabilities, or None where the denoiser takes none.

    Raises:
        UsageError: an emotion is asked for and the denoiser takes none.
    """
    if not parts.use_emotion:
        if emotion is not None:
            raise UsageError(
                "emotion: this model was trained without emotions", "leave it out, or take a model with emotions"
            )
        return None
    if emotion is None:
        return emotion_rows(NEUTRAL)
    if isinstance(emotion, str):
        return emotion_rows(EMOTIONS.index(emotion))
    if isinstance(emotion, tuple):
        return emotion_rows([EMOTIONS.index(label) for label in emotion])
    weights = torch.zeros(num_frames, len(EMOTIONS))
    for label, curve in emotion.items():
        weights[:, EMOTIONS.index(label)] += sample_curve(curve, num_frames)
    total = weights.sum(dim=1)
    weights[:, NEUTRAL] += (1 - total).clamp(min=0)
    weights /= weights.sum(dim=1, keepdim=True)
    return weights @ torch.cat([emotion_rows(index) for index in range(len(EMOTIONS))])


def require_eye_condition(controls: ControlOptions, parts: MotionDiffusionConfig) -> None:
    """Raise :class:`UsageError` if eyes are to be frozen in a condition that has none."""
    if controls.freeze_eyes and not (parts.use_eye_open or parts.use_eye_ball):
        raise UsageError("freeze_eyes: the motion of this model does not depend on the source's eyes", "leave it out")


def _gaze_points(
    controls: ControlOptions, plain: MotionStitchOptions, rig: EyeRig | None, *, is_still: bool
) -> tuple[int, int] | None:
    """The eyes of a clip already look where they should, so they follow the head only when asked to."""
    if controls.gaze_follows_head is None:
        return plain.gaze_points if is_still or not controls.blink.is_scheduled else None
    if not controls.gaze_follows_head:
        return None
    if rig is None or not rig.follows_head:
        raise UsageError("gaze_follows_head: the head of this model does not turn the eyes", "leave it out")
    return rig.pupils


def _driven(controls: ControlOptions, config: BundleConfig) -> dict[MotionKey, float]:
    given = controls.driven_parts or {}
    gains = {key: given[key] for key in MOTION_KEYS if key in given}
    silent = [part for part in gains if part != "expression"]
    if config.relative == "rest" and silent:
        raise UsageError(
            f"driven_parts {', '.join(silent)}: this model generates the expression alone",
            "give expression, or use head_amplitude and pitch_deg, yaw_deg, roll_deg",
        )
    return gains


def _relative(wanted: Relative, config: BundleConfig) -> Relative:
    allowed: tuple[Relative, ...] = ("rest", "first") if config.relative == "rest" else ("first", "off")
    if wanted not in allowed:
        raise UsageError(f"relative is {wanted!r}", f"this model can do {' and '.join(allowed)}")
    return wanted


def _blinks(controls: ControlOptions, rig: EyeRig | None, source: MotionSequence, num_frames: int) -> Blinks | None:
    blink = controls.blink
    if blink.mode == "model":
        return None
    if blink.mode == "off":
        return Blinks(torch.zeros(1, 3 * NUM_KEYPOINTS), torch.zeros(num_frames, dtype=torch.int64))
    if rig is None:
        raise UsageError(
            f"blink {blink.mode}: how the eyes of this model close is not known", "give blink 'model' or 'off'"
        )
    rng = random.Random(blink.seed) if blink.mode == "random" else None
    closing = torch.from_numpy(blink_closing(num_frames, blink.per_minute, rng)) * blink.closing
    rows = torch.from_numpy(mirror_index(np.arange(num_frames, dtype=np.int64), source.num_frames))
    shut = shut_offsets(rig, _posed(source), source.scale)[rows]
    return Blinks(shut * closing[:, None], torch.arange(num_frames))


def _posed(source: MotionSequence) -> Tensor:
    if source.canonical is None:
        raise UsageError("the source motion has no canonical keypoints", "read them from the packet's keypoints")
    rotation = rotation_matrix(*(decode_head_pose(source.part(key)) for key in POSE_KEYS))
    shape = (-1, NUM_KEYPOINTS, 3)
    canonical, expression = source.canonical.reshape(shape), source.expression.reshape(shape)
    return pose_keypoints(canonical, rotation, expression, source.scale, source.translation)


def _frame_controls(controls: ControlOptions, rig: EyeRig | None, num_frames: int) -> FrameControls:
    def sampled(curve: Curve, neutral: float) -> Tensor | None:
        return None if curve == neutral else sample_curve(curve, num_frames)

    delta = {key: sampled(getattr(controls, f"{key}_deg"), 0.0) for key in POSE_KEYS}
    gain = {key: sampled(getattr(controls, f"{key}_factor"), 1.0) for key in POSE_KEYS}
    return FrameControls(
        fade=_fades(controls, num_frames),
        pose_delta_deg={key: values for key, values in delta.items() if values is not None},
        pose_gain={key: values for key, values in gain.items() if values is not None},
        expression_delta=_expression_delta(controls, rig, num_frames),
        voice=sampled(controls.mouth_amplitude, 1.0),
        head_gain=sampled(controls.head_amplitude, 1.0),
    )


def _fades(controls: ControlOptions, num_frames: int) -> dict[MotionKey, Tensor]:
    fade_in, fade_out = (_count_frames(seconds) for seconds in (controls.fade_in_s, controls.fade_out_s))
    if fade_in == 0 and fade_out == 0:
        return {}
    weights = fade_weights(num_frames, fade_in=fade_in, fade_out=fade_out)
    return {key: weights for key in MOTION_KEYS if key in controls.fade_parts}


def _count_frames(seconds: float) -> int:
    """Frames of a fade; any fade at all is at least one."""
    return max(round(seconds * FRAME_RATE_HZ), 1) if seconds > 0 else 0


def _expression_delta(controls: ControlOptions, rig: EyeRig | None, num_frames: int) -> Tensor | None:
    turns_gaze = not (controls.gaze_right == 0 and controls.gaze_up == 0)
    if turns_gaze and rig is None:
        raise UsageError("gaze_right and gaze_up: what turns the eyes of this model is not known", "leave them out")
    if not turns_gaze and not controls.expression_offsets:
        return None
    offsets = torch.zeros(num_frames, NUM_KEYPOINTS, 3)
    for offset in controls.expression_offsets:
        for axis, curve in enumerate((offset.x, offset.y, offset.z)):
            offsets[:, offset.point, axis] += sample_curve(curve, num_frames)
    delta = offsets.flatten(1)
    if not turns_gaze or rig is None:
        return delta
    right, up = (sample_curve(curve, num_frames) for curve in (controls.gaze_right, controls.gaze_up))
    return delta + gaze_offsets(rig, right, up)
