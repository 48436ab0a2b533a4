"""Random people in random poses, framed around the product's own crop, with exact labels."""

from dataclasses import dataclass

import numpy as np

from training.framing import frame_person, proxy_crop
from training.head_model import (
    NOMINAL_DISTANCE,
    Camera,
    Pose,
    canonical_keypoints,
    picture_keypoints,
    pose_labels,
    units_per_head,
)
from training.head_renderer import HeadRenderer
from training.look import random_identity
from training.viseme import AMPLITUDE, SHAPES, UNITS, unit_coefficients

Random = np.random.Generator

DISTANCE_RANGE = (9.0, 20.0)
_SPOKEN = tuple(name for name in SHAPES if name != "SIL")


@dataclass(frozen=True)
class Frames:
    """Frames of one person.

    Args:
        images: (F, S, S, 3) uint8.
        keypoints: (F, 21, 3) picture coordinates -1..1.
        canonical: (21, 3).
        angles_deg: (F, 3) pitch, yaw, roll.
        scale: (F,) picture units per canonical unit.
        crops: (F, 4) the product's crop in picture coordinates: centre x, y, half side, angle in radians.
        jaw: (F,) commanded jawOpen.
    """

    images: np.ndarray
    keypoints: np.ndarray
    canonical: np.ndarray
    angles_deg: np.ndarray
    scale: np.ndarray
    crops: np.ndarray
    jaw: np.ndarray


def _add(total: dict[str, float], names: dict[str, float], weight: float = 1.0) -> None:
    for name, value in names.items():
        total[name] = total.get(name, 0.0) + weight * value


def _both(name: str, value: float) -> dict[str, float]:
    return {f"{name}Left": value, f"{name}Right": value}


def _spoken_mouth(random: Random) -> dict[str, float]:
    """A blend of two sounds."""
    blend = random.random()
    strength = random.uniform(0.5, 1.7) * AMPLITUDE / 1.15
    row = np.zeros(len(UNITS))
    for share in (blend, 1 - blend):
        for unit, value in SHAPES[_SPOKEN[random.integers(len(_SPOKEN))]].items():
            row[UNITS.index(unit)] += share * strength * value
    mouth = unit_coefficients(row)
    if random.random() < 0.3:
        _add(mouth, {"jawOpen": random.uniform(0, 0.3)})
    return mouth


_OPTIONAL_PAIRS = (
    ("mouthStretch", 0.2, 0.6),
    ("mouthUpperUp", 0.25, 0.7),
    ("mouthLowerDown", 0.25, 0.8),
    ("mouthPress", 0.12, 0.6),
    ("mouthDimple", 0.1, 0.5),
)
_OPTIONAL_SINGLES = (
    ("mouthPucker", 0.3, 0.9),
    ("mouthFunnel", 0.3, 0.8),
    ("mouthRollLower", 0.12, 0.6),
    ("mouthRollUpper", 0.1, 0.5),
    ("jawLeft", 0.06, 0.5),
    ("jawRight", 0.06, 0.5),
    ("mouthLeft", 0.06, 0.4),
    ("mouthRight", 0.06, 0.4),
    ("jawForward", 0.05, 0.5),
)


def _free_mouth(random: Random) -> dict[str, float]:
    """Any mouth, also ones that speech does not make."""
    mouth = {"jawOpen": 0.85 * random.random() ** 1.6}
    if random.random() < 0.4:
        _add(mouth, _both("mouthSmile", 0.9 * random.random()))
    elif random.random() < 0.2:
        _add(mouth, _both("mouthFrown", 0.7 * random.random()))
    for name, chance, limit in _OPTIONAL_PAIRS:
        if random.random() < chance:
            _add(mouth, _both(name, limit * random.random()))
    for name, chance, limit in _OPTIONAL_SINGLES:
        if random.random() < chance:
            _add(mouth, {name: limit * random.random()})
    return mouth


def _random_eyes(random: Random) -> dict[str, float]:
    eyes: dict[str, float] = {}
    if random.random() < 0.33:
        lids = _both("eyeBlink", random.random() ** 0.6)
        if random.random() < 0.1:
            lids["eyeBlinkRight"] = 0.0
        eyes |= lids
    elif random.random() < 0.3:
        eyes |= (
            _both("eyeWide", 0.6 * random.random())
            if random.random() < 0.5
            else _both("eyeSquint", 0.8 * random.random())
        )
    for name, chance, limit in (("browDown", 0.15, 0.7), ("browOuterUp", 0.15, 0.6)):
        if random.random() < chance:
            eyes |= _both(name, limit * random.random())
    if random.random() < 0.3:
        eyes["browInnerUp"] = 0.7 * random.random()
    across, up = (random.normal(0, 0.25), random.normal(0.1, 0.2)) if random.random() < 0.5 else (0.0, 0.2)
    eyes["eyeLookOutLeft" if across > 0 else "eyeLookInLeft"] = abs(across)
    eyes["eyeLookInRight" if across > 0 else "eyeLookOutRight"] = abs(across)
    return eyes | _both("eyeLookUp" if up > 0 else "eyeLookDown", abs(up))


def random_coefficients(random: Random) -> dict[str, float]:
    """Face units of one frame."""
    kind = random.random()
    mouth = _spoken_mouth(random) if kind < 0.5 else _free_mouth(random) if kind < 0.87 else {}
    if random.random() < 0.5:
        _add(mouth, _both("mouthSmile", 0.3 * random.random()))
    mouth["jawOpen"] = min(mouth.get("jawOpen", 0.0), 0.9)
    return {name: float(value) for name, value in (mouth | _random_eyes(random)).items()}


def random_pose(random: Random) -> Pose:
    """Mostly facing the camera."""
    limits = np.array([16.0, 28.0, 14.0])
    angles = np.clip(random.normal(0, [6.0, 10.0, 4.0]), -limits, limits)
    shift = random.normal(0, 0.035, 3) * [1, 1, 0.5]
    return Pose(tuple(float(a) for a in angles), tuple(float(s) for s in shift))


def sample_person(renderer: HeadRenderer, seed: int, num_frames: int) -> Frames:
    """Frames of one random person in one place, reproducible by seed."""
    random, pack = np.random.default_rng(seed), renderer.pack
    shape = renderer.dress(random, random_identity(random, pack))
    distance = float(random.uniform(*DISTANCE_RANGE)) if random.random() < 0.8 else NOMINAL_DISTANCE
    camera = frame_person(shape, distance, pack)
    images, keypoints, angles, crops, jaw = [], [], [], [], []
    for _ in range(num_frames):
        coefficients, pose = random_coefficients(random), random_pose(random)
        images.append(renderer.render(coefficients, pose, camera))
        keypoints.append(picture_keypoints(shape, coefficients, pose, camera, pack))
        angles.append(pose_labels(pose, camera)[0])
        crops.append(proxy_crop(shape, coefficients, pose, camera, pack))
        jaw.append(coefficients["jawOpen"])
    scale = np.full(num_frames, units_per_head(camera) / units_per_head(Camera()), np.float32)
    return Frames(
        np.stack(images),
        np.stack(keypoints),
        canonical_keypoints(shape, pack),
        np.stack(angles),
        scale,
        np.array(crops, np.float32),
        np.array(jaw, np.float32),
    )
