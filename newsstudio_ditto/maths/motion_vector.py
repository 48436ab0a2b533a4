"""Motion of N frames: named parts, and the 265-number rows that the diffusion model speaks."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.units import MOTION_DIM, NUM_KEYPOINTS, NUM_POSE_BINS
from newsstudio_ditto.units import MOTION_KEYS as MOTION_KEYS
from newsstudio_ditto.units import MotionKey as MotionKey

POSE_KEYS: tuple[MotionKey, ...] = ("pitch", "yaw", "roll")
_WIDTHS: dict[str, int] = {
    "scale": 1,
    "pitch": NUM_POSE_BINS,
    "yaw": NUM_POSE_BINS,
    "roll": NUM_POSE_BINS,
    "translation": 3,
    "expression": 3 * NUM_KEYPOINTS,
}
assert sum(_WIDTHS.values()) == MOTION_DIM
EXPRESSION_START = MOTION_DIM - _WIDTHS["expression"]


@dataclass(frozen=True)
class MotionSequence:
    """Motion of N frames, float32.

    Args:
        scale: (N, 1).
        pitch: (N, 66) logits.
        yaw: (N, 66) logits.
        roll: (N, 66) logits.
        translation: (N, 3).
        expression: (N, 63) = 21 points, xyz.
        canonical: (N, 63) keypoints without pose and expression, if known.

    Raises:
        UsageError: a part has another shape.
    """

    scale: Tensor
    pitch: Tensor
    yaw: Tensor
    roll: Tensor
    translation: Tensor
    expression: Tensor
    canonical: Tensor | None = None

    def __post_init__(self) -> None:
        """Check that all parts have N rows of their own width."""
        for key in MOTION_KEYS:
            _expect_shape(key, self.part(key), (self.num_frames, _WIDTHS[key]))
        if self.canonical is not None:
            _expect_shape("canonical", self.canonical, (self.num_frames, 3 * NUM_KEYPOINTS))

    @property
    def num_frames(self) -> int:
        """N."""
        return len(self.scale)

    def part(self, key: MotionKey) -> Tensor:
        """One part by its name, (N, width)."""
        part: Tensor = getattr(self, key)
        return part

    def map(self, function: Callable[[Tensor], Tensor]) -> "MotionSequence":
        """Apply ``function`` to every part, canonical keypoints included."""
        canonical = None if self.canonical is None else function(self.canonical)
        scale, pitch, yaw, roll, translation, expression = (function(self.part(key)) for key in MOTION_KEYS)
        return MotionSequence(scale, pitch, yaw, roll, translation, expression, canonical)

    def rows(self, index: Tensor | slice) -> "MotionSequence":
        """Frames picked by an index tensor or a slice."""
        return self.map(lambda part: part[index])

    def to(self, device: torch.device | str) -> "MotionSequence":
        """The same motion on another device."""
        return self.map(lambda part: send(part, device))


def send(part: Tensor, device: torch.device | str) -> Tensor:
    """The same numbers on another device; what goes to a CUDA device waits for nothing that it has still to do."""
    return part.to(device, non_blocking=torch.device(device).type == "cuda")


def pack_motion(motion: MotionSequence) -> Tensor:
    """Rows for the diffusion model: scale less 1, pitch, yaw, roll, translation, expression.

    Returns:
        (N, 265).
    """
    return torch.cat([motion.scale - 1.0, *(motion.part(key) for key in MOTION_KEYS[1:])], dim=1)


def unpack_motion(vectors: Tensor, canonical: Tensor | None = None) -> MotionSequence:
    """Undo :func:`pack_motion`.

    Args:
        vectors: (N, 265).
        canonical: (N, 63) or ``None``; the rows do not hold it.

    Raises:
        UsageError: the rows are not 265 wide.
    """
    _expect_shape("motion vectors", vectors, (len(vectors), MOTION_DIM))
    widths = list(_WIDTHS.values())
    scale, pitch, yaw, roll, translation, expression = torch.split(vectors, widths, dim=1)
    return MotionSequence(scale + 1.0, pitch, yaw, roll, translation, expression, canonical)


def clip_motion(vectors: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Bound finished motion rows (N, 265) by ``low`` and ``high`` (265,), given in packed form (scale less 1)."""
    return torch.minimum(torch.maximum(vectors, low), high)


def _expect_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise UsageError(f"{name}: expected {shape}, got {tuple(tensor.shape)}", "pass one row per frame")
