"""What the makers of a set of weights chose for a session: the defaults of every render with their bundle."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

import torch
from torch import Tensor

from newsstudio_ditto.config import CropConfig, require_range
from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.units import EMOTIONS, MOTION_DIM, MOTION_KEYS, NUM_KEYPOINTS, WINDOW_FRAMES

NOT_IN_MANIFEST = "not in manifest"
"""Metadata of a field that lies in a file of its own."""

_POINTS = 3 * NUM_KEYPOINTS
_SHAPES: Mapping[str, tuple[int | None, ...]] = {
    "emotion": (None, len(EMOTIONS)),
    "motion_limits": (2, MOTION_DIM),
    "blink_offsets": (None, _POINTS),
    "character_motion": (MOTION_DIM,),
    "character_canonical": (_POINTS,),
    "character_eye_open": (None, 2),
    "character_eye_ball": (None, 6),
}


@dataclass(frozen=True, eq=False)
class DefaultTables:
    """Numbers of the release that are too many for the manifest; float32, each may be absent.

    Args:
        emotion: (m, 8) probabilities, a row for each frame, repeated over time.
        motion_limits: (2, 265) lowest and highest value of each entry of the motion vector, scale less 1.
        blink_offsets: (n, 63) expression offsets of the n frames of one blink.
        character_motion: (265,) motion vector of a reference character, which then starts every window chain.
        character_canonical: (63,) canonical keypoints of that character.
        character_eye_open: (k, 2) its eye openness.
        character_eye_ball: (k, 6) its gaze.

    Raises:
        BundleError: a table has another shape or type, or values that are not finite.
    """

    emotion: Tensor | None = None
    motion_limits: Tensor | None = None
    blink_offsets: Tensor | None = None
    character_motion: Tensor | None = None
    character_canonical: Tensor | None = None
    character_eye_open: Tensor | None = None
    character_eye_ball: Tensor | None = None

    def __post_init__(self) -> None:
        """Compare shapes and types."""
        for name, table in self.present().items():
            _check_table(name, table)

    def present(self) -> dict[str, Tensor]:
        """The tables that are there, by name."""
        tables = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: table for name, table in tables.items() if table is not None}

    @property
    def character_scale(self) -> float | None:
        """Scale of the reference character; None without one."""
        return None if self.character_motion is None else float(self.character_motion[0]) + 1.0

    @property
    def sha256(self) -> str | None:
        """Hash of names, shapes and values, 64 hexadecimal digits; None if there is no table."""
        tables = self.present()
        if not tables:
            return None
        digest = hashlib.sha256()
        for name, table in sorted(tables.items()):
            digest.update(f"{name} {tuple(table.shape)}\n".encode())
            digest.update(table.contiguous().numpy().astype("<f4").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class ReleaseDefaults:
    """Settings of a release for sampling and driving. A control of the speech wins over each of them.

    Args:
        crop: of the release's own landmarks.
        overlap_frames: frames that two windows of motion share.
        smoothing_frames: width of the mean filter over generated head motion; 1 is off.
        reset_every: condition every so many windows on the source instead of the window before; 0 never does.
        carried_dims: start and stop of the motion entries that keep the value of the window before at a reset.
        stitch: apply the stitching network.
        driven_parts: part of the motion -> gain; None drives all but scale for a still, the expression for a clip.
        drive_eyes: let motion or blinks move the eyes; None does so for a still.
        freeze_eyes: condition every frame on the eyes of the first one.
        fade_to: target of fades; None is the product's own.
        fade_parts: what fades.
        pitch_deg: added to the head's pitch.
        yaw_deg: added to the head's yaw.
        roll_deg: added to the head's roll.
        blink_spacing_frames: frames between blinks, used cyclically; (-1,) none at all, (0,) random ones, 60 to 100.
        tables: emotion, limits, blink and reference character.

    Raises:
        UsageError: a number outside its range.
        BundleError: a name or a span that does not exist.
    """

    crop: CropConfig = field(default_factory=CropConfig)
    overlap_frames: int = 10
    smoothing_frames: int = 3
    reset_every: int = 0
    carried_dims: tuple[int, ...] = (0, 0)
    stitch: bool = True
    driven_parts: dict[str, float] | None = None
    drive_eyes: bool | None = None
    freeze_eyes: bool = False
    fade_to: Literal["first", "source"] | None = None
    fade_parts: tuple[str, ...] = ("expression",)
    pitch_deg: float = 0.0
    yaw_deg: float = 0.0
    roll_deg: float = 0.0
    blink_spacing_frames: tuple[int, ...] = (0,)
    tables: DefaultTables = field(default_factory=DefaultTables, compare=False, metadata={NOT_IN_MANIFEST: True})

    def __post_init__(self) -> None:
        """Refuse values that the maths would refuse later, with their names here."""
        require_range("overlap_frames", self.overlap_frames, 1, WINDOW_FRAMES - 1)
        require_range("smoothing_frames", self.smoothing_frames, 1, 999)
        require_range("reset_every", self.reset_every, 0, 10**6)
        for name in ("pitch_deg", "yaw_deg", "roll_deg"):
            require_range(name, getattr(self, name), -45.0, 45.0)
        if len(self.carried_dims) != 2 or not 0 <= self.carried_dims[0] <= self.carried_dims[1] <= MOTION_DIM:
            raise BundleError(f"carried_dims is {self.carried_dims}", f"give 0 <= start <= stop <= {MOTION_DIM}")
        for part in (*self.fade_parts, *(self.driven_parts or ())):
            if part not in MOTION_KEYS:
                raise BundleError(f"{part!r} is no part of the motion", f"known are {', '.join(MOTION_KEYS)}")
        _check_spacing(self.blink_spacing_frames)


def _check_table(name: str, table: Tensor) -> None:
    expected = _SHAPES[name]
    fits = len(table.shape) == len(expected) and all(
        wanted in (None, found) for wanted, found in zip(expected, table.shape, strict=True)
    )
    if not fits or not len(table) or table.dtype is not torch.float32:
        shape = ", ".join("n" if axis is None else str(axis) for axis in expected)
        raise BundleError(
            f"table {name}: expected float32 ({shape}), got {table.dtype} {tuple(table.shape)}",
            "convert the release again: newsstudio-ditto models fetch ditto",
        )
    if not table.isfinite().all():
        raise BundleError(f"table {name} has values that are not finite", "convert the release again")


def _check_spacing(spacing: tuple[int, ...]) -> None:
    if spacing not in ((-1,), (0,)) and (not spacing or min(spacing) < 1):
        raise BundleError(f"blink_spacing_frames is {spacing}", "give (-1,), (0,), or distances of 1 frame or more")
