"""From source motion and generated motion to keypoints: every frame in one vectorised pass (golden section 8)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.controls import FrameControls
from newsstudio_ditto.maths.eye_rig import follow_head
from newsstudio_ditto.maths.keypoints import decode_head_pose, pose_keypoints, rotation_matrix
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.motion_vector import (
    MOTION_KEYS,
    POSE_KEYS,
    MotionKey,
    MotionSequence,
    clip_motion,
    send,
    unpack_motion,
)
from newsstudio_ditto.maths.pose_control import blend, control_pose
from newsstudio_ditto.units import MOTION_DIM, NUM_KEYPOINTS

STILL_KEYS: Mapping[MotionKey, float] = {"expression": 1.0, "pitch": 1.0, "yaw": 1.0, "roll": 1.0, "translation": 1.0}
CLIP_KEYS: Mapping[MotionKey, float] = {"expression": 1.0}
_CHARACTER_KEYS: tuple[MotionKey, ...] = ("expression", *POSE_KEYS)
_PLAIN_KEYS: tuple[MotionKey, ...] = ("scale", "translation", "expression")


@dataclass(frozen=True)
class Blinks:
    """Blinks laid over the source's eyes.

    Args:
        offsets: (n, 63) expression offsets of one blink.
        index: (M,) int64 row of ``offsets`` for each frame, repeated when the video is longer.
    """

    offsets: Tensor
    index: Tensor


@dataclass(frozen=True)
class MotionStitchOptions:
    """How generated motion drives the source; defaults are those of the official pipeline.

    Args:
        lip_points: keypoints that the speech drives.
        eye_points: keypoints of lids and gaze.
        gaze_points: left and right eye point that follow a turned head; ``None`` leaves the gaze alone.
        driven_keys: part of the motion -> gain; ``None`` drives all but scale for a still, the expression for a clip.
        relative: ``first`` adds the change since the first generated frame to the source, ``rest`` adds the
            generated motion itself, ``off`` puts it in the source's place.
        drive_eyes: let generated motion (or blinks) move the eyes; ``None`` does so for a still.
        blinks: blinks instead of generated eye motion.
        fade_to: target of fades: the first frame of the result, or the source.
        character_scale: scale of another character whose motion this is; gains of expression and pose follow.
        voice_points: keypoints that ``FrameControls.voice`` fades; ``None`` means ``lip_points``.
        pose_gain_on: what a pose gain multiplies. The official code multiplies logits, which bends the angle.
        limits: (2, 265) lowest and highest value of driving rows, which are clipped before anything else.
    """

    lip_points: tuple[int, ...] = (6, 12, 14, 17, 19, 20)
    eye_points: tuple[int, ...] = (11, 13, 15, 16, 18)
    gaze_points: tuple[int, int] | None = (11, 15)
    driven_keys: Mapping[MotionKey, float] | None = None
    relative: Literal["first", "rest", "off"] = "first"
    drive_eyes: bool | None = None
    blinks: Blinks | None = None
    fade_to: Literal["first", "source"] = "first"
    character_scale: float | None = None
    voice_points: tuple[int, ...] | None = None
    pose_gain_on: Literal["degrees", "logits"] = "degrees"
    limits: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse unknown choices, keys and points."""
        if self.relative not in ("first", "rest", "off") or self.fade_to not in ("first", "source"):
            raise UsageError(f"relative {self.relative!r}, fade_to {self.fade_to!r}", "see MotionStitchOptions")
        unknown = [key for key in self.driven_keys or () if key not in MOTION_KEYS]
        if unknown:
            raise UsageError(f"driven_keys {unknown} are unknown", f"give some of {', '.join(MOTION_KEYS)}")
        points = (*self.lip_points, *self.eye_points, *(self.gaze_points or ()), *(self.voice_points or ()))
        if not all(0 <= point < NUM_KEYPOINTS for point in points):
            raise UsageError(f"points {points} are not all keypoints", f"give indices 0 to {NUM_KEYPOINTS - 1}")


@dataclass(frozen=True)
class StitchedMotion:
    """Result for T frames, before the stitching network.

    Args:
        source_keypoints: (T, 21, 3).
        driving_keypoints: (T, 21, 3).
        scale: (T, 1).
        head_pose_deg: (T, 3) pitch, yaw, roll.
        translation: (T, 3).
        expression: (T, 63).
    """

    source_keypoints: Tensor
    driving_keypoints: Tensor
    scale: Tensor
    head_pose_deg: Tensor
    translation: Tensor
    expression: Tensor


def stitch_motion(
    source: MotionSequence,
    driving: Tensor | MotionSequence,
    options: MotionStitchOptions,
    controls: FrameControls | None = None,
    first_motion: Tensor | None = None,
) -> StitchedMotion:
    """Let generated motion drive the source.

    Args:
        source: N frames with canonical keypoints; N = 1 is a still, more play back and forth.
        driving: (T, 265) rows or a sequence of T frames.
        options: what drives what.
        controls: per-frame controls of length T.
        first_motion: (265,) motion that changes are measured from instead of row 0; used with ``relative="off"`` too.

    Returns:
        Keypoints and final motion of T frames, on the device of ``driving``.

    Raises:
        UsageError: the source lacks canonical keypoints, or a control has another length.
    """
    driven = driving if isinstance(driving, MotionSequence) else unpack_motion(_within(options.limits, driving))
    controls = controls or FrameControls()
    controls.check_length(driven.num_frames)
    source = source.to(driven.scale.device)
    if source.canonical is None:
        raise UsageError("the source motion has no canonical keypoints", "read them from the packet's keypoints")
    looped = mirror_index(np.arange(driven.num_frames, dtype=np.int64), source.num_frames)
    rows = send(torch.from_numpy(looped), driven.scale.device)
    base = source.rows(rows)
    drive_eyes = source.num_frames == 1 if options.drive_eyes is None else options.drive_eyes
    motion = _drive(source, base, driven, options, first_motion)
    motion["expression"] = _express(motion["expression"], base.expression, drive_eyes, options, controls)
    source_pose = torch.stack([decode_head_pose(source.part(key)) for key in POSE_KEYS], dim=1)
    pose = _pose(motion, base, source_pose[0], options, controls)
    for key in _PLAIN_KEYS:
        if controls.head_gain is not None and key != "expression":
            motion[key] = blend(motion[key], source.part(key)[:1], controls.head_gain)
        motion[key] = _faded(motion[key], base.part(key), options, controls.fade.get(key))
    if drive_eyes and options.gaze_points is not None:
        motion["expression"] = follow_head(motion["expression"], pose - source_pose[:1], options.gaze_points)
    scale, translation, expression = (motion[key] for key in _PLAIN_KEYS)
    still = _keypoints(source.canonical, source_pose, source.expression, source.scale, source.translation)
    return StitchedMotion(
        source_keypoints=still[rows],
        driving_keypoints=_keypoints(source.canonical[rows], pose, expression, scale, translation),
        scale=scale,
        head_pose_deg=pose,
        translation=translation,
        expression=expression,
    )


def _drive(
    source: MotionSequence,
    base: MotionSequence,
    driven: MotionSequence,
    options: MotionStitchOptions,
    first_motion: Tensor | None,
) -> dict[MotionKey, Tensor]:
    gains = options.driven_keys
    if gains is None:
        gains = STILL_KEYS if source.num_frames == 1 else CLIP_KEYS
    ratio: Tensor | float = 1.0 if options.character_scale is None else options.character_scale / source.scale[0]
    origin = _origin(driven, options, first_motion)
    motion: dict[MotionKey, Tensor] = {key: base.part(key) for key in MOTION_KEYS}
    for key, plain_gain in gains.items():
        gain = plain_gain * ratio if key in _CHARACTER_KEYS else plain_gain
        if origin is None:
            motion[key] = driven.part(key) * gain
        else:
            motion[key] = base.part(key) + (driven.part(key) - origin.part(key)) * gain
    return motion


def _origin(driven: MotionSequence, options: MotionStitchOptions, first_motion: Tensor | None) -> MotionSequence | None:
    if options.relative == "rest":
        return unpack_motion(driven.scale.new_zeros((1, MOTION_DIM)))
    if first_motion is not None:
        return unpack_motion(_within(options.limits, first_motion[None].to(driven.scale.device)))
    return driven.rows(slice(0, 1)) if options.relative == "first" else None


def _within(limits: Tensor | None, rows: Tensor) -> Tensor:
    return rows if limits is None else clip_motion(rows, *send(limits, rows.device).to(rows))


def _express(
    driven: Tensor, base: Tensor, drive_eyes: bool, options: MotionStitchOptions, controls: FrameControls
) -> Tensor:
    """Driven expression on lips and eyes, the source's elsewhere; then blinks, voice and offsets."""
    eyes_generated = drive_eyes and options.blinks is None
    points = (*options.lip_points, *options.eye_points) if eyes_generated else options.lip_points
    expression = torch.where(_point_mask(points, base), driven, base)
    if drive_eyes and options.blinks is not None:
        frames = torch.arange(len(base)) % len(options.blinks.index)
        offsets = send(options.blinks.offsets[options.blinks.index[frames]], base.device).to(base)
        expression = expression + offsets * _point_mask(options.eye_points, base)
    if controls.voice is not None:
        voiced = blend(expression, base, controls.voice)
        points = options.lip_points if options.voice_points is None else options.voice_points
        expression = torch.where(_point_mask(points, base), voiced, expression)
    if controls.expression_delta is not None:
        expression = expression + send(controls.expression_delta, base.device).to(base)
    return expression


def _pose(
    motion: Mapping[MotionKey, Tensor],
    base: MotionSequence,
    origin_deg: Tensor,
    options: MotionStitchOptions,
    controls: FrameControls,
) -> Tensor:
    axes = [
        control_pose(
            key, motion[key], base.part(key), origin, controls, gain_on=options.pose_gain_on, fade_to=options.fade_to
        )
        for key, origin in zip(POSE_KEYS, origin_deg, strict=True)
    ]
    return torch.stack(axes, dim=1)


def _faded(part: Tensor, base: Tensor, options: MotionStitchOptions, weight: Tensor | None) -> Tensor:
    if weight is None:
        return part
    return blend(part, part[:1] if options.fade_to == "first" else base, weight)


def _keypoints(canonical: Tensor, pose_deg: Tensor, expression: Tensor, scale: Tensor, translation: Tensor) -> Tensor:
    rotation = rotation_matrix(*pose_deg.unbind(dim=1))
    shape = (-1, NUM_KEYPOINTS, 3)
    return pose_keypoints(canonical.reshape(shape), rotation, expression.reshape(shape), scale, translation)


def _point_mask(points: Sequence[int], like: Tensor) -> Tensor:
    mask = torch.zeros(NUM_KEYPOINTS, 3, dtype=torch.bool)
    mask[list(points)] = True
    return send(mask.reshape(-1), like.device)
