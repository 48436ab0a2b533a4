"""How lids close and pupils turn, for the keypoints of a model family; other families have no rig."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from newsstudio_ditto.units import NUM_KEYPOINTS


@dataclass(frozen=True)
class EyeRig:
    """What moves the eyes. Shifts are in keypoint units before scale: x right, y down.

    Args:
        pupils: the points that look left or right, the one on the left of the picture first if ``inner`` differs.
        across: shift in x at a gaze of 1: of the pupil on the side looked to, and of the other one.
        upward: shift in y at a gaze of 1, negative.
        lids: (upper, lower) points on the edges of the lids; the upper one comes down over the gap.
        overlap: share of the gap that a shut upper lid moves.
        closing: point -> shift in y when shut, where the points do not lie on the lids.
        follows_head: the eyes may turn with a turned head.
    """

    pupils: tuple[int, int]
    across: tuple[float, float]
    upward: float
    lids: tuple[tuple[int, int], ...] = ()
    overlap: float = 1.0
    closing: tuple[tuple[int, float], ...] = ()
    follows_head: bool = False


OFFICIAL_RIG = EyeRig(
    pupils=(11, 15),
    across=(0.03, 0.021),
    upward=-0.03,
    closing=((11, 0.03), (13, -0.009), (15, 0.03), (16, -0.009)),
    follows_head=True,
)
"""The released keypoints are learnt; these are the directions and reach of the usual portrait editors for them."""

MESH_RIG = EyeRig(pupils=(20, 19), across=(0.021, 0.021), upward=-0.012, lids=((9, 10), (11, 12)), overlap=1.15)
"""Keypoints that are points of the face: a shut upper lid crosses the gap by 115 %, as on the training heads."""

_YAW_GAIN, _PITCH_GAIN = 0.26, 0.28
_GAZE_NEAR, _GAZE_FAR, _GAZE_DOWN = 0.0007, 0.001, 0.001

EYE_RIGS: Mapping[tuple[int, ...], EyeRig] = {(11, 13, 15, 16, 18): OFFICIAL_RIG, (9, 10, 11, 12, 19, 20): MESH_RIG}
"""Rig by the ``eye_points`` of a bundle."""


def shut_offsets(rig: EyeRig, posed: Tensor, scale: Tensor) -> Tensor:
    """Expression offsets that shut open lids.

    Args:
        rig: of the model family.
        posed: (N, 21, 3) keypoints of the source frames.
        scale: (N, 1) scale of the source frames.

    Returns:
        (N, 63); where the lids are points, a half-shut eye needs a smaller offset.
    """
    offsets = torch.zeros_like(posed)
    for point, down in rig.closing:
        offsets[:, point, 1] = down
    for upper, lower in rig.lids:
        gap = (posed[:, lower] - posed[:, upper]) / scale
        offsets[:, upper, :2] = rig.overlap * gap[:, :2]
    return offsets.flatten(1)


def gaze_offsets(rig: EyeRig, right: Tensor, up: Tensor) -> Tensor:
    """Expression offsets of a turned gaze.

    Args:
        rig: of the model family.
        right: (T,) -1 to 1, to the right of the picture.
        up: (T,) -1 to 1.

    Returns:
        (T, 63).
    """
    offsets = right.new_zeros((len(right), NUM_KEYPOINTS, 3))
    near, far = rig.across
    on_left, on_right = rig.pupils
    offsets[:, on_left, 0] = right * torch.where(right > 0, far, near)
    offsets[:, on_right, 0] = right * torch.where(right > 0, near, far)
    offsets[:, list(rig.pupils), 1] = rig.upward * up[:, None]
    return offsets.flatten(1)


def follow_head(expression: Tensor, turned_deg: Tensor, pupils: tuple[int, int]) -> Tensor:
    """Let the eyes turn with the head, as the official pipeline does (golden section 8).

    Args:
        expression: (T, 63).
        turned_deg: (T, 3) pitch, yaw, roll since the first source frame, degrees.
        pupils: the points that look left or right.

    Returns:
        (T, 63), a new tensor.
    """
    across = _YAW_GAIN * turned_deg[:, 1]
    down = _PITCH_GAIN * turned_deg[:, 0]
    left, right = (3 * point for point in pupils)
    result = expression.clone()
    result[:, left] += across * torch.where(across > 0, _GAZE_NEAR, _GAZE_FAR)
    result[:, right] += across * torch.where(across > 0, _GAZE_FAR, _GAZE_NEAR)
    result[:, [left + 1, right + 1]] -= _GAZE_DOWN * down[:, None]
    return result
