"""Which blinks are laid over the eyes: those that a speech asks for, or those that came with the weights."""

import random

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.controls import BlinkOptions
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.blink import blink_closing, blink_rows, blink_table
from newsstudio_ditto.maths.eye_rig import EyeRig, shut_offsets
from newsstudio_ditto.maths.keypoints import decode_head_pose, pose_keypoints, rotation_matrix
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.motion_stitch import Blinks
from newsstudio_ditto.maths.motion_vector import POSE_KEYS, MotionSequence
from newsstudio_ditto.networks.release_defaults import ReleaseDefaults
from newsstudio_ditto.units import NUM_KEYPOINTS


def plan_blinks(
    blink: BlinkOptions,
    defaults: ReleaseDefaults | None,
    rig: EyeRig | None,
    source: MotionSequence,
    num_frames: int,
) -> Blinks | None:
    """Blinks of a speech.

    Args:
        blink: of the controls.
        defaults: of the bundle; its offsets show how eyes close, and ``model`` takes its spacing.
        rig: how eyes close where the bundle has no offsets; None is not known.
        source: motion of the source frames with canonical keypoints.
        num_frames: T.

    Returns:
        None leaves the eyes to the generated motion.

    Raises:
        UsageError: blinks are asked for, and how the eyes close is not known.
    """
    offsets = None if defaults is None else defaults.tables.blink_offsets
    if blink.mode == "generated" or (blink.mode == "model" and offsets is None):
        return None
    if blink.mode == "off":
        return Blinks(torch.zeros(1, 3 * NUM_KEYPOINTS), torch.zeros(num_frames, dtype=torch.int64))
    if defaults is not None and offsets is not None:
        spacing = defaults.blink_spacing_frames
        return Blinks(offsets * blink.closing, _rows(blink, spacing, len(offsets), num_frames))
    if rig is None:
        raise UsageError(
            f"blink {blink.mode}: how the eyes of this model close is not known", "give blink 'model' or 'off'"
        )
    return _rigged(blink, rig, source, num_frames)


def _rows(blink: BlinkOptions, spacing: tuple[int, ...], blink_frames: int, num_frames: int) -> Tensor:
    rng = random.Random(blink.seed)
    if blink.mode == "model":
        own = spacing[0] if len(spacing) == 1 else spacing
        return torch.from_numpy(blink_table(num_frames, blink_frames, own, rng))
    return torch.from_numpy(
        blink_rows(num_frames, blink.per_minute, rng if blink.mode == "random" else None, blink_frames)
    )


def _rigged(blink: BlinkOptions, rig: EyeRig, source: MotionSequence, num_frames: int) -> Blinks:
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
