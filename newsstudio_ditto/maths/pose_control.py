"""Head angles of generated motion under per-frame controls: gain, offset, fade."""

from typing import Literal

import torch
from torch import Tensor

from newsstudio_ditto.maths.controls import FrameControls
from newsstudio_ditto.maths.keypoints import decode_head_pose
from newsstudio_ditto.maths.motion_vector import MotionKey, send


def blend(driven: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Rows (T, n) between ``target`` (weight 0) and ``driven`` (weight 1), or beyond it; ``weight`` is (T,)."""
    weight = send(weight, driven.device).to(driven)[:, None]
    return driven * weight + target * (1 - weight)


def control_pose(
    key: MotionKey,
    logits: Tensor,
    base: Tensor,
    origin_deg: Tensor,
    controls: FrameControls,
    *,
    gain_on: Literal["degrees", "logits"],
    fade_to: Literal["first", "source"],
) -> Tensor:
    """Angle of one axis after head gain, offset, gain and fade.

    A fade blends logits like the official code, but degrees on frames where a control has made either side an angle.

    Args:
        key: axis.
        logits: (T, 66) of the driven motion.
        base: (T, 66) of the source.
        origin_deg: () angle of the first source frame, which the head gain leaves where it is.
        controls: of T frames.
        gain_on: what a pose gain multiplies.
        fade_to: target of the fade.

    Returns:
        (T,) degrees.
    """
    no_delta = logits.new_full((len(logits),), torch.nan)
    delta = send(controls.pose_delta_deg.get(key, no_delta), logits.device).to(logits)
    gain = send(controls.pose_gain.get(key, torch.ones_like(delta)), logits.device).to(logits)
    head_gain = torch.ones_like(delta) if controls.head_gain is None else controls.head_gain.to(logits)
    is_angle = ~delta.isnan() | (head_gain != 1)
    if gain_on == "logits":
        logits = torch.where(is_angle[:, None], logits, logits * gain[:, None])
        gain = torch.where(is_angle, gain, torch.ones_like(gain))
    else:
        is_angle = is_angle | (gain != 1)
    turned = decode_head_pose(logits)
    turned = torch.where(head_gain == 1, turned, origin_deg + (turned - origin_deg) * head_gain)
    angle = (turned + delta.nan_to_num(0.0)) * gain
    weight = controls.fade.get(key)
    if weight is None:
        return angle
    to_first = fade_to == "first"
    target_angle = angle[:1] if to_first else decode_head_pose(base)
    of_logits = decode_head_pose(blend(logits, logits[:1] if to_first else base, weight))
    of_angles = blend(angle[:, None], target_angle[:, None], weight)[:, 0]
    return torch.where(is_angle | (is_angle[:1] & to_first), of_angles, of_logits)
