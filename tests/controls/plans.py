"""Motion under controls, for the official bundle's keypoints and for those of a mesh."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.maths.motion_stitch import StitchedMotion
from newsstudio_ditto.maths.motion_vector import MotionSequence, unpack_motion
from newsstudio_ditto.networks.config import MINI, OFFICIAL, BundleConfig
from newsstudio_ditto.render.control_plan import plan_controls
from newsstudio_ditto.render.prestitch import prestitch, stitch_options
from tests.golden_rules import N, f32
from tests.maths.motions import named_motion, tensor

NO_RIG = replace(OFFICIAL, eye_points=(1, 2))
STILL = named_motion("controls/still")


def driving(num_frames: int) -> Tensor:
    return tensor(f32(0.1 * N("controls/driving", (num_frames, 265))))


def clip(num_frames: int) -> MotionSequence:
    rows = tensor(f32(0.1 * N("controls/clip", (num_frames, 265))))
    canonical = STILL.canonical
    assert canonical is not None
    return unpack_motion(rows, canonical.expand(num_frames, -1))


def stitched(
    num_frames: int = 12, source: MotionSequence = STILL, config: BundleConfig = OFFICIAL, **controls: Any
) -> StitchedMotion:
    plan = plan_controls(ControlOptions(**controls), stitch_options(config), config, source, num_frames)
    return prestitch(source, driving(num_frames), plan.options, None, plan.frames)


def coordinates(*points: int) -> Tensor:
    mask = torch.zeros(21, 3, dtype=torch.bool)
    mask[list(points)] = True
    return mask.flatten()


__all__ = ["MINI", "NO_RIG", "OFFICIAL", "STILL", "clip", "coordinates", "driving", "stitched"]
