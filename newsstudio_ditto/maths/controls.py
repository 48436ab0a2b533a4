"""Per-frame controls of the motion: fades, pose offsets and gains, expression offsets; arrays of length T."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.motion_vector import POSE_KEYS, MotionKey


@dataclass(frozen=True)
class FrameControls:
    """Controls of T frames; an absent entry leaves that part alone.

    Args:
        fade: part of the motion -> (T,) weight, 1 = driven, 0 = fade target.
        pose_delta_deg: pose key -> (T,) degrees to add; NaN means none on that frame.
        pose_gain: pose key -> (T,) factor of the pose.
        expression_delta: (T, 63) or (1, 63), added to the expression.
        voice: (T,) factor of the change to the source's lips: 0 = lips of the source, 1 = driven, 2 = twice as far.
        head_gain: (T,) factor of the change of pose, translation and scale since the first source frame.
    """

    fade: Mapping[MotionKey, Tensor] = field(default_factory=dict)
    pose_delta_deg: Mapping[MotionKey, Tensor] = field(default_factory=dict)
    pose_gain: Mapping[MotionKey, Tensor] = field(default_factory=dict)
    expression_delta: Tensor | None = None
    voice: Tensor | None = None
    head_gain: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse pose controls of parts that are no pose."""
        for key in (*self.pose_delta_deg, *self.pose_gain):
            if key not in POSE_KEYS:
                raise UsageError(f"{key!r} is no pose", f"give one of {', '.join(POSE_KEYS)}")

    def rows(self, index: Tensor) -> "FrameControls":
        """The controls of some frames, picked by an index tensor."""
        delta = self.expression_delta
        return FrameControls(
            fade={key: weights[index] for key, weights in self.fade.items()},
            pose_delta_deg={key: angles[index] for key, angles in self.pose_delta_deg.items()},
            pose_gain={key: factors[index] for key, factors in self.pose_gain.items()},
            expression_delta=delta if delta is None or len(delta) == 1 else delta[index],
            voice=None if self.voice is None else self.voice[index],
            head_gain=None if self.head_gain is None else self.head_gain[index],
        )

    def check_length(self, num_frames: int) -> None:
        """Raise :class:`UsageError` unless every per-frame array has ``num_frames`` entries."""
        arrays = [*self.fade.values(), *self.pose_delta_deg.values(), *self.pose_gain.values()]
        arrays += [array for array in (self.voice, self.head_gain) if array is not None]
        lengths = {len(array) for array in arrays} - {num_frames}
        if self.expression_delta is not None:
            lengths |= {len(self.expression_delta)} - {1, num_frames}
        if lengths:
            raise UsageError(f"controls of {sorted(lengths)} frames", f"give one value for each of {num_frames} frames")


def fade_weights(num_frames: int, *, fade_in: int = 0, fade_out: int = 0) -> Tensor:
    """Weights of the driven motion for a fade at either end.

    Args:
        num_frames: T.
        fade_in: the first so many frames rise from 0 towards 1.
        fade_out: the last frames fall from 1 to 0 in so many steps; the last frame is 0.

    Returns:
        (T,) float32; where both fades meet, the smaller weight.
    """
    index = torch.arange(num_frames, dtype=torch.float32)
    weights = torch.ones(num_frames)
    if fade_in > 0:
        weights = torch.minimum(weights, index / fade_in)
    if fade_out > 0:
        weights = torch.minimum(weights, (num_frames - 1 - index) / fade_out)
    return weights
