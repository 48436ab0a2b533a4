"""What the anchor does: random faces for training, and the closing idle loop. Plain numpy, no Blender."""

import math
from dataclasses import asdict, dataclass

import numpy as np

FRAME_RATE_HZ = 25
LOOP_FRAMES = 80
BLINK_FRAMES = (23, 61)
BLINK_HALF_WIDTH = 3.2
# Share of the wide frame that the moving head can reach: left, right, bottom, top, from the lower left corner.
MOVING_REGION = (0.18, 0.82, 0.20, 0.93)
HELD_OUT = range(1, 13)
REST_SMILE = 0.18
REST_GAZE_UP = 0.25
MAX_JAW = 0.65
CALM_SHARE = 0.7  # of the training frames hold the head as the loop does
CALM_SPREAD_DEG = (1.3, 2.0, 0.9)
WIDE_SPREAD_DEG = (4.0, 6.0, 2.5)
REST_SHARE = 0.15  # of the training frames keep the mouth at rest
SEED_BASE = 1000

Angles = tuple[float, float, float]


@dataclass(frozen=True)
class Shot:
    """One frame: facial unit weights ``co``, head angles ``rot`` (pitch, yaw, roll, degrees) and shift ``tr`` (dm)."""

    co: dict[str, float]
    rot: Angles = (0.0, 0.0, 0.0)
    tr: Angles = (0.0, 0.0, 0.0)

    def as_json(self) -> dict[str, object]:
        """Plain values, for a file beside the frame."""
        return asdict(self)


def both(**weights: float) -> dict[str, float]:
    """The left and the right unit at the same weight."""
    return {f"{name}{side}": weight for name, weight in weights.items() for side in ("Left", "Right")}


# Mouth shapes of speech, by what the lips and jaw do.
MOUTH_SHAPES: dict[str, dict[str, float]] = {
    "lips pressed": {"mouthRollLower": 0.25, "mouthRollUpper": 0.15, **both(mouthPress=0.35)},
    "lip on teeth": {"jawOpen": 0.06, "mouthRollLower": 0.45, **both(mouthUpperUp=0.25)},
    "tongue front": {"jawOpen": 0.12, **both(mouthStretch=0.15, mouthUpperUp=0.15, mouthLowerDown=0.20)},
    "hushing": {"jawOpen": 0.10, "mouthFunnel": 0.50, **both(mouthUpperUp=0.10)},
    "r-coloured": {"jawOpen": 0.14, "mouthFunnel": 0.35, "mouthPucker": 0.20},
    "tongue back": {"jawOpen": 0.16, **both(mouthStretch=0.10)},
    "rounded glide": {"jawOpen": 0.05, "mouthPucker": 0.80},
    "close rounded": {"jawOpen": 0.12, "mouthPucker": 0.65},
    "open rounded": {"jawOpen": 0.30, "mouthFunnel": 0.45, "mouthPucker": 0.20},
    "wide diphthong": {"jawOpen": 0.40, "mouthFunnel": 0.20},
    "open": {"jawOpen": 0.42, **both(mouthStretch=0.10, mouthLowerDown=0.20, mouthUpperUp=0.12)},
    "mid": {"jawOpen": 0.25, **both(mouthLowerDown=0.10)},
    "half open spread": {"jawOpen": 0.28, **both(mouthStretch=0.25, mouthLowerDown=0.15)},
    "spread": {"jawOpen": 0.13, **both(mouthStretch=0.40, mouthSmile=0.20, mouthLowerDown=0.20)},
    "closed": {},
}


def _add(units: dict[str, float], more: dict[str, float], share: float = 1.0) -> None:
    for name, weight in more.items():
        units[name] = units.get(name, 0.0) + share * weight


def neutral() -> Shot:
    """Closed lips, a hint of a smile, eyes into the lens."""
    return Shot(both(mouthSmile=REST_SMILE, eyeLookUp=REST_GAZE_UP))


def _speech_mouth(rng: np.random.Generator) -> dict[str, float]:
    shapes = list(MOUTH_SHAPES.values())
    first, second = rng.integers(0, len(shapes), 2)
    blend, strength = rng.random(), rng.uniform(0.5, 1.6)
    units: dict[str, float] = {}
    _add(units, shapes[first], strength * blend)
    _add(units, shapes[second], strength * (1 - blend))
    if rng.random() < 0.35:
        _add(units, {"jawOpen": rng.uniform(0, 0.3)})
    units["jawOpen"] = min(units.get("jawOpen", 0.0), MAX_JAW)
    return units


def _gaze(rng: np.random.Generator) -> dict[str, float]:
    aside = rng.uniform(-0.35, 0.35)
    left, right = ("Out", "In") if aside > 0 else ("In", "Out")
    return {f"eyeLook{left}Left": abs(aside), f"eyeLook{right}Right": abs(aside)}


def _blink(rng: np.random.Generator, units: dict[str, float]) -> None:
    """Close the lids partly or fully; the gaze comes down with them, as in the loop."""
    closed = rng.random() ** 0.7
    _add(units, both(eyeBlink=closed, eyeLookUp=-REST_GAZE_UP * closed))


def training_shot(index: int) -> Shot:
    """Frame ``index`` of the training set: 0 is neutral, the rest mix mouth shapes, blinks, brows, gaze and poses."""
    if index == 0:
        return neutral()
    rng = np.random.default_rng(SEED_BASE + index)
    units: dict[str, float] = {} if rng.random() < REST_SHARE else _speech_mouth(rng)
    _add(units, both(mouthSmile=rng.uniform(0, 2 * REST_SMILE), eyeLookUp=REST_GAZE_UP))
    if rng.random() < 0.4:
        _blink(rng, units)
    if rng.random() < 0.5:
        _add(units, {"browInnerUp": rng.uniform(0, 0.3)})
    if rng.random() < 0.2:
        _add(units, _gaze(rng))
    spread = CALM_SPREAD_DEG if rng.random() < CALM_SHARE else WIDE_SPREAD_DEG
    pitch, yaw, roll = rng.normal(0, spread)
    right, up = rng.normal(0, 0.015, 2)
    plain = {name: float(weight) for name, weight in units.items()}
    return Shot(plain, (float(pitch), float(yaw), float(roll)), (float(right), float(up), 0.0))


def blink_weight(frame_index: int) -> float:
    """0 (open) to 1 (shut) over the loop: quick down, a little slower up."""
    weight = 0.0
    for centre in BLINK_FRAMES:
        offset = frame_index - centre
        width = BLINK_HALF_WIDTH if offset < 0 else BLINK_HALF_WIDTH * 1.35
        weight = max(weight, min(1.0, 1.25 * (1 - abs(offset) / width)))
    return max(0.0, weight)


def loop_shot(frame_index: int) -> Shot:
    """Frame of the idle loop; every movement is a sum of whole periods, so frame ``LOOP_FRAMES`` equals frame 0."""
    turn = 2 * math.pi * frame_index / LOOP_FRAMES

    def wave(periods: int, phase: float) -> float:
        return math.sin(periods * turn + 2 * math.pi * phase)

    blink = blink_weight(frame_index)
    units = both(
        mouthSmile=REST_SMILE + 0.03 * wave(1, 0.1),
        eyeLookUp=REST_GAZE_UP * (1 - blink),
        eyeBlink=blink,
    )
    units["browInnerUp"] = 0.05 + 0.05 * wave(2, 0.3)
    rot = (
        1.0 * wave(1, 0.15) + 0.35 * wave(3, 0.4),
        2.0 * wave(1, 0.0) + 0.5 * wave(2, 0.3),
        0.8 * wave(1, 0.4),
    )
    return Shot(units, rot, (0.012 * wave(1, 0.2), 0.005 * wave(2, 0.0), 0.0))
