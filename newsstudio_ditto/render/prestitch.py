"""Pre-stitching: source and driving keypoints of every output frame, in one vectorised pass before any is rendered."""

from dataclasses import replace

import torch
from torch import Tensor

from newsstudio_ditto.maths.controls import FrameControls
from newsstudio_ditto.maths.motion_stitch import CLIP_KEYS, MotionStitchOptions, StitchedMotion, stitch_motion
from newsstudio_ditto.maths.motion_vector import MotionSequence
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.networks.release_defaults import ReleaseDefaults
from newsstudio_ditto.networks.stitching import StitchingNetwork
from newsstudio_ditto.units import MOTION_KEYS


def stitch_options(config: BundleConfig) -> MotionStitchOptions:
    """How generated motion drives the source, for a bundle's own keypoints.

    A bundle whose motion starts from rest generates expression alone, so the head keeps the source's pose; and the
    gaze correction is tied to keypoints of the official model. What came with the weights of any other bundle, such as
    limits and a reference character, is in use.
    """
    if config.relative == "rest":
        return MotionStitchOptions(
            lip_points=config.lip_points,
            eye_points=config.eye_points,
            gaze_points=None,
            driven_keys=CLIP_KEYS,
            relative="rest",
        )
    own = config.defaults or ReleaseDefaults()
    gains = own.driven_parts
    return MotionStitchOptions(
        lip_points=config.lip_points,
        eye_points=config.eye_points,
        relative=config.relative,
        driven_keys=None if gains is None else {key: gains[key] for key in MOTION_KEYS if key in gains},
        drive_eyes=own.drive_eyes,
        character_scale=own.tables.character_scale,
        limits=own.tables.motion_limits,
    )


def stitching_of(bundle: ModelBundle, wanted: bool | None) -> StitchingNetwork | None:
    """The stitching network if it is to be applied; ``wanted`` None asks the bundle, whose plain default is yes."""
    own = bundle.config.defaults
    is_on = (own is None or own.stitch) if wanted is None else wanted
    return bundle.stitching if is_on else None


@torch.no_grad()
def prestitch(
    source: MotionSequence,
    motion: Tensor,
    options: MotionStitchOptions,
    stitching: StitchingNetwork | None,
    controls: FrameControls | None = None,
) -> StitchedMotion:
    """Pose every frame's keypoints and run the stitching network once over all of them.

    Args:
        source: N source frames with canonical keypoints; a clip is played back and forth.
        motion: (T, 265) float32 driving motion; the result lives on its device.
        options: what drives what, such as :func:`stitch_options`.
        stitching: the network; None leaves it out.
        controls: per-frame fades and offsets.

    Returns:
        Keypoints (T, 21, 3) float32 of source and driving; the driving ones are stitched.
    """
    posed = stitch_motion(source, motion, options, controls)
    if stitching is None:
        return posed
    dtype = next(stitching.parameters()).dtype
    driving: Tensor = stitching(posed.source_keypoints.to(dtype), posed.driving_keypoints.to(dtype))
    return replace(posed, driving_keypoints=driving.float())
