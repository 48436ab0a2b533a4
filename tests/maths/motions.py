"""Motion made by the golden rule."""

import torch
from torch import Tensor

from newsstudio_ditto.maths.motion_vector import MotionSequence
from tests.golden_rules import Arrays, N, f32

REFERENCE_NAMES = {
    "scale": "scale",
    "pitch": "pitch",
    "yaw": "yaw",
    "roll": "roll",
    "translation": "t",
    "expression": "exp",
    "canonical": "kp",
}


def tensor(array: object) -> Tensor:
    return torch.as_tensor(array)


def named_motion(name: str) -> MotionSequence:
    """One frame of motion, as the goldens name it."""
    return MotionSequence(
        scale=tensor(f32(1.2 + 0.05 * N(f"{name}/scale", (1, 1)))),
        pitch=tensor(f32(2 * N(f"{name}/pitch", (1, 66)))),
        yaw=tensor(f32(2 * N(f"{name}/yaw", (1, 66)))),
        roll=tensor(f32(2 * N(f"{name}/roll", (1, 66)))),
        translation=tensor(f32(0.05 * N(f"{name}/t", (1, 3)))),
        expression=tensor(f32(0.05 * N(f"{name}/exp", (1, 63)))),
        canonical=tensor(f32(0.3 * N(f"{name}/kp", (1, 63)))),
    )


def golden_motion(arrays: Arrays, prefix: str, *, canonical: bool = True) -> MotionSequence:
    """Motion stored under ``prefix`` with the reference's names."""
    names = dict(REFERENCE_NAMES)
    if not canonical:
        del names["canonical"]
    return MotionSequence(**{ours: tensor(arrays[f"{prefix}/{theirs}"]) for ours, theirs in names.items()})
