"""Random identities, colours, lights and backgrounds."""

from dataclasses import dataclass

import cv2
import numpy as np

from training.head_model import HeadPack, Identity

BACKGROUND_PX = 320
OPPOSITES = (("incr", "decr"), ("up", "down"), ("convex", "concave"))
HAIR_COLOURS = np.array(
    [
        [0.02, 0.013, 0.01],
        [0.05, 0.028, 0.016],
        [0.09, 0.05, 0.025],
        [0.22, 0.13, 0.06],
        [0.3, 0.29, 0.28],
        [0.2, 0.06, 0.02],
        [0.4, 0.3, 0.15],
    ]
)
Random = np.random.Generator


@dataclass(frozen=True)
class Look:
    """Values of the shader's uniforms, by name; ``lights`` are relative to the eyes' height."""

    uniforms: dict[str, tuple[float, ...] | float]
    lights: np.ndarray
    light_colours: np.ndarray


def random_identity(random: Random, pack: HeadPack) -> Identity:
    """A person; opposite local targets never meet."""
    local = {name: float(random.uniform(0, 0.75)) for name in pack.local_names if random.random() < 0.16}
    for name in list(local):
        for one, other in OPPOSITES:
            if name.endswith(one):
                local.pop(name[: -len(one)] + other, None)
    sex = random.choice([random.uniform(0, 0.2), random.uniform(0.8, 1), random.random()])
    race = tuple(float(x) for x in random.dirichlet([0.5] * 3))
    weight = tuple(float(x) for x in random.dirichlet([1, 2, 1]))
    return Identity(race, float(sex), float(max(0, random.uniform(-0.6, 0.9))), weight, local)


def random_look(random: Random, identity: Identity) -> Look:
    """Colours that suit an identity, and three lights."""
    dark = identity.race[0]
    skin = np.array([0.62, 0.36, 0.25]) * (1 - 0.7 * dark) * random.uniform(0.85, 1.15) * random.uniform(0.92, 1.08, 3)
    lip = skin * [random.uniform(0.75, 1.0), random.uniform(0.35, 0.65), random.uniform(0.38, 0.65)]
    beard = random.uniform(0.2, 1.0) if identity.masculinity > 0.6 and random.random() < 0.5 else 0.0
    colours = {
        "skin": skin,
        "lip": lip,
        "iris": random.uniform(0.02, 0.2, 3),
        "cloth": random.uniform(0.02, 0.5) * random.uniform(0.2, 1, 3),
        "shirt": random.uniform(0.1, 0.8) * random.uniform(0.7, 1, 3),
        "hair": HAIR_COLOURS[random.integers(len(HAIR_COLOURS))] * random.uniform(0.7, 1.3),
        "ambient": random.uniform(0.12, 0.5) * random.uniform(0.9, 1.1, 3),
    }
    scalars = {
        "seed": random.uniform(0, 50),
        "teeth": random.uniform(0.35, 0.8),
        "neckline": random.uniform(-1.5, -0.6),
        "beard": beard,
        "freckles": random.uniform(0.2, 0.8),
        "shine": random.uniform(0.08, 0.35),
    }
    uniforms = {k: tuple(float(x) for x in v) for k, v in colours.items()} | {k: float(v) for k, v in scalars.items()}
    side = np.array([random.choice([-1, 1]), 1, 1])
    lights = np.array(
        [[-5 + 3 * random.normal(), 4 + random.normal(), 9], [6 + random.normal(), 1, 8], [3 * random.normal(), 4, -6]]
    )
    strength = np.array([random.uniform(0.45, 1.0), random.uniform(0.05, 0.45), random.uniform(0.1, 0.9)])
    tints = np.array([[1, 0.95, 0.88], [0.85, 0.92, 1.0], [0.9, 0.95, 1.0]]) * random.uniform(0.92, 1.08, (3, 3))
    return Look(uniforms, lights * side, tints * strength[:, None])


def _colour(random: Random) -> np.ndarray:
    tint = random.uniform(0.4, 1.0, 3) if random.random() < 0.6 else np.ones(3)
    return random.uniform(0.03, 0.85) * tint


def _gradient(random: Random, n: int) -> np.ndarray:
    rows, columns = np.mgrid[0:n, 0:n] / n
    ramp = (columns * random.uniform(-1, 1) + rows * random.uniform(-1, 1))[..., None]
    return _colour(random) + (_colour(random) - _colour(random)) * (ramp - ramp.min())


def _clouds(random: Random, n: int) -> np.ndarray:
    """Noise whose strength falls with frequency, as in photographs."""
    total = np.zeros((n, n, 3))
    for octave in range(2, 8):
        grid = random.normal(0, 1, (2**octave, 2**octave, 3 if random.random() < 0.3 else 1))
        layer = cv2.resize(grid, (n, n), interpolation=cv2.INTER_CUBIC).reshape(n, n, -1)
        total = total + layer * 0.5 ** (octave - 2) * random.uniform(0.3, 1)
    return _colour(random) * (1 + random.uniform(0.1, 0.5) * total)


def _shapes(random: Random, n: int) -> np.ndarray:
    """Wall, shelves, windows and lamps, out of focus."""
    picture = np.ones((n, n, 3)) * _gradient(random, n)
    for _ in range(int(random.integers(3, 18))):
        colour = _colour(random).tolist()
        x, y = (int(v) for v in random.integers(-40, n, 2))
        kind = random.random()
        if kind < 0.35:
            w, h = (int(v) for v in random.integers(2, 120, 2))
            cv2.rectangle(picture, (x, y), (x + w, y + h), colour, -1)
        elif kind < 0.6:
            cv2.rectangle(picture, (x, -1), (x + int(random.integers(2, 70)), n), colour, -1)
        elif kind < 0.75:
            cv2.rectangle(picture, (-1, y), (n, y + int(random.integers(2, 40))), colour, -1)
        else:
            radius = int(random.integers(3, 30))
            cv2.circle(picture, (x, y), radius, [min(1.0, c * 2.0) for c in colour], -1)
    return cv2.GaussianBlur(picture, (0, 0), float(random.uniform(0.5, 9)))


def random_background(random: Random) -> np.ndarray:
    """(BACKGROUND_PX, BACKGROUND_PX, 3) uint8."""
    kind = random.random()
    make = _gradient if kind < 0.15 else _clouds if kind < 0.4 else _shapes
    picture = make(random, BACKGROUND_PX)
    if kind > 0.7:
        picture = picture * np.clip(_clouds(random, BACKGROUND_PX) * 1.5 + 0.4, 0.3, 1.6)
    picture = picture + random.normal(0, random.uniform(0, 0.03), picture.shape)
    return (np.clip(picture, 0, 1) * 255).astype(np.uint8)
