"""What a speech may ask of the presenter: emotion, mouth, head, eyes and fades. ``docs/controls.md`` shows effects."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.ranges import require_range
from newsstudio_ditto.units import EMOTIONS, MOTION_KEYS, NUM_KEYPOINTS

Curve = float | tuple[tuple[float, float], ...]
"""A value for the whole speech, or ``(t_seconds, value)`` points: straight lines between, held before and after."""

Emotion = str | tuple[str, ...] | Mapping[str, Curve]
"""A label, labels in equal parts, or weights by label; what weights leave to 1 is neutral."""

BlinkMode = Literal["model", "generated", "off", "fixed", "random"]
Relative = Literal["first", "rest", "off"]

LONGEST_FADE_S = 600.0
LARGEST_GAIN = 3.0
LARGEST_ANGLE_DEG = 45.0
LARGEST_OFFSET = 0.2
_EXACT_FLOAT = 2**53
_LIVELY = 0.5
_SHORT_FADES_S = 2.0

_CURVE_RANGES: dict[str, tuple[float, float]] = {
    "mouth_amplitude": (0.0, LARGEST_GAIN),
    "head_amplitude": (0.0, LARGEST_GAIN),
    "pitch_deg": (-LARGEST_ANGLE_DEG, LARGEST_ANGLE_DEG),
    "yaw_deg": (-LARGEST_ANGLE_DEG, LARGEST_ANGLE_DEG),
    "roll_deg": (-LARGEST_ANGLE_DEG, LARGEST_ANGLE_DEG),
    "pitch_factor": (0.0, LARGEST_GAIN),
    "yaw_factor": (0.0, LARGEST_GAIN),
    "roll_factor": (0.0, LARGEST_GAIN),
    "gaze_right": (-1.0, 1.0),
    "gaze_up": (-1.0, 1.0),
}


def require_curve(name: str, curve: Curve, low: float, high: float) -> None:
    """Raise :class:`UsageError` unless every value lies in the range and the times rise from 0 or later."""
    if not isinstance(curve, Sequence):
        require_range(name, curve, low, high)
        return
    if not curve:
        raise UsageError(f"{name} is an empty curve", "give a number or [[t_seconds, value], ...]")
    times = [time_s for time_s, _ in curve]
    if times[0] < 0 or not all(early < late for early, late in pairwise(times)):
        raise UsageError(f"{name}: times {times} do not rise", "give times in seconds that rise from 0 or later")
    for time_s, value in curve:
        require_range(f"{name} at {time_s:g} s", value, low, high)


@dataclass(frozen=True)
class BlinkOptions:
    """When the eyes blink.

    Args:
        mode: ``model`` blinks as the model's makers meant it, or not at all; ``generated`` leaves the eyes to the
            generated motion, or to the clip; ``off`` keeps the source's eyes open as they are; ``fixed`` blinks at
            even distances; ``random`` at distances of 75 to 125 % of that.
        per_minute: blinks a minute of ``fixed`` and ``random``, 1 to 40. A speech too short for one full distance
            still gets one blink, if it lasts as long as a blink (0.44 s, or what the model's makers say).
        seed: of random distances, 0 to 2**63 - 1; equal seeds blink at equal times.
        closing: how far the lids close, 0.1 to 1.5; 1 is shut.
    """

    mode: BlinkMode = "model"
    per_minute: float = 16.0
    seed: int = 0
    closing: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        if self.mode not in get_args(BlinkMode):
            raise UsageError(f"blink mode is {self.mode!r}", "give model, generated, off, fixed or random")
        require_range("blink per_minute", self.per_minute, 1.0, 40.0)
        require_range("blink seed", self.seed, 0, 2**63 - 1)
        require_range("blink closing", self.closing, 0.1, 1.5)

    @property
    def is_scheduled(self) -> bool:
        """Blinks are laid over the eyes."""
        return self.mode in ("fixed", "random")


@dataclass(frozen=True)
class PointOffset:
    """A shift of one keypoint of the expression, in keypoint units (2 is the side of the face crop, before scale).

    Args:
        point: index of the keypoint, 0 to 20.
        x: to the right of the picture, -0.2 to 0.2.
        y: downwards, -0.2 to 0.2.
        z: towards the camera, -0.2 to 0.2.
    """

    point: int
    x: Curve = 0.0
    y: Curve = 0.0
    z: Curve = 0.0

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        require_range("expression_offsets point", self.point, 0, NUM_KEYPOINTS - 1)
        for axis in ("x", "y", "z"):
            name = f"expression_offsets {axis} of point {self.point}"
            require_curve(name, getattr(self, axis), -LARGEST_OFFSET, LARGEST_OFFSET)


@dataclass(frozen=True)
class ControlOptions:
    """Controls of one speech; the defaults change nothing. A :data:`Curve` may change with time.

    None is what the model's makers chose, where its bundle says so (``networks.release_defaults``), or else what is
    said below. A value wins over theirs.

    Args:
        emotion: label, labels in equal parts, or weights (0 to 1) by label, of ``units.EMOTIONS``; None is neutral.
            Only bundles whose denoiser was trained with emotion take any.
        mouth_amplitude: factor of the speech's change to the source's lips, 0 to 3; 0 keeps the source's lips.
        head_amplitude: factor of the head's turn, shift and scale since the first source frame, 0 to 3.
        pitch_deg: added to the head's pitch, -45 to 45 degrees; None adds nothing.
        yaw_deg: the same for yaw.
        roll_deg: the same for roll.
        pitch_factor: factor of the whole angle after the offset, 0 to 3; 0 is no pitch at all.
        yaw_factor: the same for yaw.
        roll_factor: the same for roll.
        driven_parts: parts of the motion that the model drives, of ``units.MOTION_KEYS``, with a gain of 0 to 3
            each; None takes the model's own (a still: all but scale, a clip: the expression).
        relative: what generated motion is relative to; None takes the model's own. ``first``: its first frame;
            ``off``: nothing, it replaces the source's; ``rest``: a face at rest, for models trained that way.
        drive_eyes: let motion or blinks move the eyes; None does so for a still, and wherever blinks are laid.
        freeze_eyes: condition the motion on the eyes of the first source frame alone; None does not.
        reference_character: condition and scale motion by the character of the model's makers, where there is one.
        limit_motion: keep generated motion within the limits of the model's makers, where there are any.
        blink: when the eyes blink.
        gaze_follows_head: let the eyes turn with a turned head; None does so for a still, where the model has it.
        gaze_right: shift of the gaze to the right of the picture, -1 to 1; 1 is the farthest that looks natural.
        gaze_up: shift of the gaze upwards, -1 to 1.
        expression_offsets: shifts of single keypoints.
        fade_in_s: seconds in which motion rises from the fade's target, 0 to 600; may be longer than the speech.
        fade_out_s: seconds in which motion returns to the target, which the last frame reaches, 0 to 600.
        fade_to: target: the ``source`` frame (None), or the ``first`` frame of the result.
        fade_parts: parts of the motion that fade, of ``units.MOTION_KEYS``; None lets all of them fade.
    """

    emotion: Emotion | None = None
    mouth_amplitude: Curve = 1.0
    head_amplitude: Curve = 1.0
    pitch_deg: Curve | None = None
    yaw_deg: Curve | None = None
    roll_deg: Curve | None = None
    pitch_factor: Curve = 1.0
    yaw_factor: Curve = 1.0
    roll_factor: Curve = 1.0
    driven_parts: Mapping[str, float] | None = None
    relative: Relative | None = None
    drive_eyes: bool | None = None
    freeze_eyes: bool | None = None
    reference_character: bool = True
    limit_motion: bool = True
    blink: BlinkOptions = field(default_factory=BlinkOptions)
    gaze_follows_head: bool | None = None
    gaze_right: Curve = 0.0
    gaze_up: Curve = 0.0
    expression_offsets: tuple[PointOffset, ...] = ()
    fade_in_s: float = 0.0
    fade_out_s: float = 0.0
    fade_to: Literal["source", "first"] | None = None
    fade_parts: tuple[str, ...] | None = None

    @property
    def moves_beyond_mouth(self) -> bool:
        """Whether head, gaze or eyelids are asked to move, which a packet that blends only the mouth cannot show."""
        factors = (self.head_amplitude, self.pitch_factor, self.yaw_factor, self.roll_factor)
        shifts = (self.pitch_deg or 0.0, self.yaw_deg or 0.0, self.roll_deg or 0.0, self.gaze_right, self.gaze_up)
        return (
            self.blink.is_scheduled or any(value != 1.0 for value in factors) or any(value != 0.0 for value in shifts)
        )

    @property
    def holds_lips(self) -> bool:
        """Whether the lips are asked to move less than half as far as the speech would move them, or are faded."""
        mouth = self.mouth_amplitude
        factors = [factor for _, factor in mouth] if isinstance(mouth, tuple) else [mouth]
        expression = 1.0 if self.driven_parts is None else self.driven_parts.get("expression", 0.0)
        is_faded = self.fade_in_s + self.fade_out_s > _SHORT_FADES_S
        return min(*factors, expression) < _LIVELY or is_faded

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        for name, (low, high) in _CURVE_RANGES.items():
            curve = getattr(self, name)
            if curve is not None:
                require_curve(name, curve, low, high)
        require_range("fade_in_s", self.fade_in_s, 0.0, LONGEST_FADE_S)
        require_range("fade_out_s", self.fade_out_s, 0.0, LONGEST_FADE_S)
        if self.fade_to not in (None, "source", "first"):
            raise UsageError(f"fade_to is {self.fade_to!r}", "give source or first")
        if self.relative not in (None, "first", "rest", "off"):
            raise UsageError(f"relative is {self.relative!r}", "give first, rest or off")
        _require_names("fade_parts", self.fade_parts or (), MOTION_KEYS)
        _require_names("driven_parts", tuple(self.driven_parts or ()), MOTION_KEYS)
        for part, gain in (self.driven_parts or {}).items():
            require_range(f"driven_parts {part}", gain, 0.0, LARGEST_GAIN)
        if self.drive_eyes is False and self.blink.is_scheduled:
            raise UsageError(
                f"drive_eyes is off and blink is {self.blink.mode}", "leave drive_eyes out, or give blink 'model'"
            )
        _check_emotion(self.emotion)


def plain_values(value: Any) -> Any:
    """Dataclasses, mappings and sequences as plain values for JSON; whole numbers become floats."""
    if is_dataclass(value):
        return {part.name: plain_values(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(inner) for inner in value]
    is_count = isinstance(value, bool) or (isinstance(value, int) and abs(value) >= _EXACT_FLOAT)
    return float(value) if isinstance(value, int) and not is_count else value


def hash_values(value: Any) -> str:
    """SHA-256 of :func:`plain_values`, 64 hexadecimal digits: equal for equal values, however they were given."""
    return hashlib.sha256(json.dumps(plain_values(value), sort_keys=True).encode()).hexdigest()


def _require_names(name: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    unknown = [entry for entry in given if entry not in known]
    if unknown:
        raise UsageError(f"{name}: {', '.join(map(repr, unknown))} unknown", f"give some of {', '.join(known)}")


def _check_emotion(emotion: Emotion | None) -> None:
    if emotion is None:
        return
    labels = (emotion,) if isinstance(emotion, str) else tuple(emotion)
    if not labels:
        raise UsageError("emotion names no label", f"give some of {', '.join(EMOTIONS)}")
    _require_names("emotion", labels, EMOTIONS)
    if isinstance(emotion, Mapping):
        for label, weight in emotion.items():
            require_curve(f"emotion {label}", weight, 0.0, 1.0)
