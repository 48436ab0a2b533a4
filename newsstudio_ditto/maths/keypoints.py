"""Implicit 3D keypoints: decoding the head pose and posing canonical points. Batched, on any device."""

import torch
from torch import Tensor
from torch.nn import functional

from newsstudio_ditto.units import NUM_POSE_BINS, POSE_BIN_DEG, POSE_OFFSET_DEG


def decode_head_pose(logits: Tensor) -> Tensor:
    """Expected angle of a binned head pose.

    Args:
        logits: (..., 66), bins of 3 degrees from -97.5.

    Returns:
        (...), degrees.
    """
    bins = torch.arange(NUM_POSE_BINS, dtype=logits.dtype, device=logits.device)
    expected_bin = (torch.softmax(logits, dim=-1) * bins).sum(dim=-1)
    return expected_bin * POSE_BIN_DEG + POSE_OFFSET_DEG


def rotation_matrix(pitch_deg: Tensor, yaw_deg: Tensor, roll_deg: Tensor) -> Tensor:
    """Transpose of ``Rz(roll) Ry(yaw) Rx(pitch)``, to be applied to row vectors from the right.

    Args:
        pitch_deg: (...), degrees, about x.
        yaw_deg: (...), degrees, about y.
        roll_deg: (...), degrees, about z.

    Returns:
        (..., 3, 3), orthonormal.
    """
    angles = torch.deg2rad(torch.stack([pitch_deg, yaw_deg, roll_deg], dim=-1))
    (cx, cy, cz), (sx, sy, sz) = angles.cos().unbind(-1), angles.sin().unbind(-1)
    rows = (
        torch.stack([cy * cz, cy * sz, -sy], dim=-1),
        torch.stack([sx * sy * cz - cx * sz, sx * sy * sz + cx * cz, sx * cy], dim=-1),
        torch.stack([cx * sy * cz + sx * sz, cx * sy * sz - sx * cz, cx * cy], dim=-1),
    )
    return torch.stack(rows, dim=-2)


def pose_keypoints(
    canonical: Tensor, rotation: Tensor, expression: Tensor, scale: Tensor, translation: Tensor
) -> Tensor:
    """Turn, deform, scale and shift canonical keypoints; depth is not shifted.

    Args:
        canonical: (..., 21, 3), no pose and no expression.
        rotation: (..., 3, 3) from :func:`rotation_matrix`.
        expression: (..., 21, 3), added after turning.
        scale: (..., 1).
        translation: (..., 3); its z is not used.

    Returns:
        (..., 21, 3).
    """
    posed = scale[..., None] * (canonical @ rotation + expression)
    in_plane = functional.pad(translation[..., :2], (0, 1))
    return posed + in_plane[..., None, :]
