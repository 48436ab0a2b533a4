"""What the controls of a speech mean for one bundle and one avatar: options and per-frame arrays of the maths."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from newsstudio_ditto.controls import ControlOptions, Curve, Emotion, Relative
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.conditions import EMOTIONS, emotion_rows
from newsstudio_ditto.maths.controls import FrameControls, fade_weights
from newsstudio_ditto.maths.curves import sample_curve
from newsstudio_ditto.maths.eye_rig import EYE_RIGS, EyeRig, gaze_offsets
from newsstudio_ditto.maths.motion_stitch import MotionStitchOptions
from newsstudio_ditto.maths.motion_vector import POSE_KEYS, MotionKey, MotionSequence
from newsstudio_ditto.networks.config import BundleConfig, MotionDiffusionConfig
from newsstudio_ditto.networks.release_defaults import ReleaseDefaults
from newsstudio_ditto.render.blink_plan import plan_blinks
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

    What a control does not say is what the makers of the weights chose, where the bundle knows it.

    Args:
        controls: of the speech.
        plain: what the bundle does without controls, such as ``prestitch.stitch_options``.
        config: of the bundle.
        source: motion of the source frames with canonical keypoints.
        num_frames: T.

    Raises:
        UsageError: the bundle cannot do what a control asks for.
    """
    rig, own = EYE_RIGS.get(config.eye_points), config.defaults
    gaze_points = _gaze_points(controls, plain, rig, is_still=source.num_frames == 1)
    options = replace(
        plain,
        gaze_points=gaze_points,
        driven_keys=plain.driven_keys if controls.driven_parts is None else _driven(controls, config),
        relative=plain.relative if controls.relative is None else _relative(controls.relative, config),
        drive_eyes=_drive_eyes(controls, plain),
        blinks=plan_blinks(controls.blink, own, rig, source, num_frames),
        fade_to=controls.fade_to or (own and own.fade_to) or "source",
        character_scale=plain.character_scale if controls.reference_character else None,
        limits=plain.limits if controls.limit_motion else None,
    )
    return ControlPlan(options, _frame_controls(controls, own, rig, num_frames))


def emotion_condition(
    emotion: Emotion | None, parts: MotionDiffusionConfig, num_frames: int, own: Tensor | None = None
) -> Tensor | None:
    """Emotion columns of the condition rows.

    Args:
        emotion: of the controls; None is the bundle's own.
        parts: whether the denoiser takes emotion.
        num_frames: T.
        own: (m, 8) probabilities of the bundle; None is neutral.

    Returns:
        (1, m or T, 8) probabilities, or None where the denoiser takes none.

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
        return emotion_rows(NEUTRAL) if own is None else own
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


def _drive_eyes(controls: ControlOptions, plain: MotionStitchOptions) -> bool | None:
    if controls.drive_eyes is not None:
        return controls.drive_eyes
    return True if controls.blink.is_scheduled else plain.drive_eyes


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


def _frame_controls(
    controls: ControlOptions, own: ReleaseDefaults | None, rig: EyeRig | None, num_frames: int
) -> FrameControls:
    def sampled(curve: Curve | None, neutral: float) -> Tensor | None:
        return None if curve is None or curve == neutral else sample_curve(curve, num_frames)

    def offset(key: MotionKey) -> Tensor | None:
        asked: Curve | None = getattr(controls, f"{key}_deg")
        return sampled(getattr(own, f"{key}_deg", None) if asked is None else asked, 0.0)

    delta = {key: offset(key) for key in POSE_KEYS}
    gain = {key: sampled(getattr(controls, f"{key}_factor"), 1.0) for key in POSE_KEYS}
    return FrameControls(
        fade=_fades(controls, own, num_frames),
        pose_delta_deg={key: values for key, values in delta.items() if values is not None},
        pose_gain={key: values for key, values in gain.items() if values is not None},
        expression_delta=_expression_delta(controls, rig, num_frames),
        voice=sampled(controls.mouth_amplitude, 1.0),
        head_gain=sampled(controls.head_amplitude, 1.0),
    )


def _fades(controls: ControlOptions, own: ReleaseDefaults | None, num_frames: int) -> dict[MotionKey, Tensor]:
    fade_in, fade_out = (_count_frames(seconds) for seconds in (controls.fade_in_s, controls.fade_out_s))
    if fade_in == 0 and fade_out == 0:
        return {}
    weights = fade_weights(num_frames, fade_in=fade_in, fade_out=fade_out)
    parts = controls.fade_parts
    if parts is None:
        parts = MOTION_KEYS if own is None or own.fade_to is None else own.fade_parts
    return {key: weights for key in MOTION_KEYS if key in parts}


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
