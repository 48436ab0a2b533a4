"""Exact labels of a crop: keypoints, and their split into canonical points, pose, expression, scale and translation.

The split makes ``x = scale * (canonical @ R + expression) + translation`` hold exactly: the expression takes what is
left over, perspective included.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from newsstudio_ditto.maths.keypoints import rotation_matrix
from newsstudio_ditto.units import NUM_POSE_BINS, POSE_BIN_DEG, POSE_OFFSET_DEG

RIGID_KEYPOINTS = (15, 16, 17, 18)
MIRRORED_KEYPOINTS = (0, 1, 3, 2, 4, 5, 6, 8, 7, 11, 12, 9, 10, 14, 13, 15, 17, 16, 18, 20, 19)
"""Which keypoint stands where each one was when a face is seen in a mirror."""


class MotionLabels(NamedTuple):
    """Labels of B crops."""

    keypoints: Tensor
    """(B, 21, 3) crop coordinates."""
    canonical: Tensor
    """(B, 21, 3)."""
    angles_deg: Tensor
    """(B, 3) pitch, yaw, roll."""
    expression: Tensor
    """(B, 21, 3)."""
    scale: Tensor
    """(B, 1)."""
    translation: Tensor
    """(B, 3), z zero."""


def crop_keypoints(keypoints: Tensor, crops: Tensor) -> Tensor:
    """Picture coordinates (B, 21, 3) -> coordinates of crops (B, 4) = centre x, y, half side, angle (radians)."""
    centre, half, angle = crops[:, None, :2], crops[:, 2, None, None], crops[:, 3]
    cos, sin = angle.cos(), angle.sin()
    back = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    plane = (keypoints[..., :2] - centre) / half @ back
    return torch.cat([plane, keypoints[..., 2:] / half], -1)


def split_motion(keypoints: Tensor, canonical: Tensor, angles_deg: Tensor, scale: Tensor) -> MotionLabels:
    """Complete the labels of crops from keypoints in crop coordinates, pose and scale (B,)."""
    turned = canonical @ rotation_matrix(*angles_deg.unbind(-1))
    scale = scale[:, None]
    shift = (keypoints - scale[..., None] * turned)[:, list(RIGID_KEYPOINTS)].mean(1)
    translation = shift * shift.new_tensor([1.0, 1.0, 0.0])
    expression = (keypoints - translation[:, None]) / scale[..., None] - turned
    return MotionLabels(keypoints, canonical, angles_deg, expression, scale, translation)


def crop_labels(keypoints: Tensor, canonical: Tensor, angles_deg: Tensor, scale: Tensor, crops: Tensor) -> MotionLabels:
    """Labels of crops (B, 4) out of labels of the pictures they are cut from."""
    roll_deg = angles_deg[:, 2] - torch.rad2deg(crops[:, 3])
    turned = torch.stack([angles_deg[:, 0], angles_deg[:, 1], roll_deg], -1)
    return split_motion(crop_keypoints(keypoints, crops), canonical, turned, scale / crops[:, 2])


def soft_bins(angle_deg: Tensor) -> Tensor:
    """(B,) degrees -> (B, 66) probabilities on the two bins around it, whose expectation is the angle."""
    position = ((angle_deg - POSE_OFFSET_DEG) / POSE_BIN_DEG).clamp(0, NUM_POSE_BINS - 1)
    bins = torch.arange(NUM_POSE_BINS, device=angle_deg.device, dtype=angle_deg.dtype)
    return (1 - (position[:, None] - bins).abs()).clamp_min(0)
