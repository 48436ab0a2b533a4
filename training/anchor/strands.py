"""Hair and brows of the anchor as polylines (decimetres, y up)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from training.anchor.mesh import Floats

NUM_HAIRS = 26_000
POINTS_PER_HAIR = 16
NUM_CLUMPS = 400
NUM_HAIRS_PER_BROW = 260
PARTING_X = 0.22
HAIRLINE_AZIMUTH_DEG = (0, 25, 45, 62, 80, 92, 104, 125, 180)
HAIRLINE_ABOVE_EYES = (0.62, 0.66, 0.60, 0.36, 0.12, 0.05, -0.10, -0.42, -0.55)
SCALP_CENTRE_ABOVE_EYES = 0.30

RayCast = Callable[[float, float], "tuple[Floats, Floats] | None"]


@dataclass(frozen=True)
class Surface:
    """Dense sample of the resting skin: positions and unit normals, (S, 3) each."""

    points: Floats
    normals: Floats


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=-1, keepdims=True) + 1e-9))


def above_hairline(points: Floats, eye_height: float) -> Floats:
    """Height of (S, 3) points above the hairline, which is given by azimuth about the middle of the skull."""
    offset = points - [0.0, eye_height + SCALP_CENTRE_ABOVE_EYES, 0.25]
    azimuth = np.degrees(np.arctan2(np.abs(offset[:, 0]), offset[:, 2]))
    return np.asarray(points[:, 1] - eye_height - np.interp(azimuth, HAIRLINE_AZIMUTH_DEG, HAIRLINE_ABOVE_EYES))


def scalp_of(skin: Surface, eye_height: float) -> Surface:
    """The part of the skin that hair grows on."""
    high = above_hairline(skin.points, eye_height) > 0
    chosen = high & (skin.points[:, 1] > eye_height - 0.7) & (np.abs(skin.points[:, 0]) < 1.0)
    return Surface(skin.points[chosen], skin.normals[chosen])


class Comb:
    """Grows every hair at once, a step at a time: it falls, keeps off the skin and off the face, and curls under."""

    def __init__(self, skin: Surface, eye_height: float, rng: np.random.Generator) -> None:
        scalp = scalp_of(skin, eye_height)
        head = skin.points[:, 1] > eye_height - 1.6
        self.skull = Surface(skin.points[head], skin.normals[head])
        self.tree = cKDTree(self.skull.points)
        self.eye_height = eye_height
        self.rng = rng
        roots = rng.integers(0, len(scalp.points), NUM_HAIRS)
        self.roots = scalp.points[roots] + rng.normal(0, 0.015, (NUM_HAIRS, 3))
        normals = scalp.normals[roots]
        crown = skin.points[:, 1].max()
        reach = np.interp(self.roots[:, 1], [eye_height - 0.5, eye_height + 0.2, crown], [0.50, 1.15, 1.85])
        self.step = (rng.uniform(0.85, 1.15, NUM_HAIRS) * reach / POINTS_PER_HAIR)[:, None]
        parting = PARTING_X + 0.02 * np.sin(9.0 * self.roots[:, 2]) + 0.012 * np.sin(31.0 * self.roots[:, 2])
        self.side = np.where(self.roots[:, 0] > parting, 1.0, -1.0)
        spread = np.stack([self.side * 0.6, np.full(NUM_HAIRS, 0.25), np.full(NUM_HAIRS, -0.30)], -1)
        self.heading = _unit(normals * 0.45 + spread)
        clump_bias = rng.normal(0, 1, (NUM_CLUMPS, 3))
        clump_centres = scalp.points[rng.integers(0, len(scalp.points), NUM_CLUMPS)]
        self.clump = clump_bias[cKDTree(clump_centres).query(scalp.points[roots])[1]] * 0.05
        self.layer = rng.uniform(0.015, 0.10, NUM_HAIRS)

    def _keep_off_skin(self, points: Floats, step_index: int) -> Floats:
        _, nearest = self.tree.query(points)
        normals = self.skull.normals[nearest]
        height = ((points - self.skull.points[nearest]) * normals).sum(1)
        wanted = self.layer * np.interp(step_index, [0, 3, POINTS_PER_HAIR], [0.2, 1, 0.9])
        return np.asarray(points + normals * np.clip(wanted - height, 0, None)[:, None])

    def _keep_off_face(self, points: Floats) -> Floats:
        in_face = (points[:, 2] > 0.70) & (points[:, 1] < self.eye_height + 0.55) & (np.abs(points[:, 0]) < 0.62)
        points[in_face, 0] += np.sign(points[in_face, 0] + 1e-6) * 0.05
        return points

    def grow(self) -> Floats:
        """(NUM_HAIRS, POINTS_PER_HAIR, 3) polylines from the root down."""
        points, heading = self.roots, self.heading
        path = [points.copy()]
        for step_index in range(1, POINTS_PER_HAIR):
            fall = -np.full(NUM_HAIRS, 0.42 + 0.35 * step_index / POINTS_PER_HAIR)
            pull = np.stack([self.side * 0.02, fall, np.full(NUM_HAIRS, -0.08)], -1)
            heading = heading + pull + self.clump + self.rng.normal(0, 0.03, (NUM_HAIRS, 3))
            moved = self._keep_off_face(self._keep_off_skin(points + _unit(heading) * self.step, step_index))
            heading = _unit(moved - points)
            points = moved
            path.append(points.copy())
            if step_index > 0.6 * POINTS_PER_HAIR:
                curl = np.stack([-np.sign(points[:, 0]) * 0.22, np.zeros(NUM_HAIRS), np.full(NUM_HAIRS, 0.06)], -1)
                heading = heading + curl
        return np.stack(path, 1)


def brow_paths(eyes: tuple[Floats, Floats], hit_skin: RayCast, rng: np.random.Generator) -> Floats:
    """(B, 5, 3) short hairs lying on the brow ridge.

    Args:
        eyes: the two eye centres.
        hit_skin: (x, y) to (point, normal) of the skin seen from the front, or None.
        rng: source of all scatter.
    """
    paths = []
    along_hair = np.linspace(0, 1, 5)[:, None]
    for eye in eyes:
        side = np.sign(eye[0])
        t = rng.uniform(0, 1, NUM_HAIRS_PER_BROW)
        x = side * (abs(eye[0]) - 0.17 + 0.40 * t)
        arch = 0.150 + 0.062 * np.sin(np.clip(t * 1.15, 0, 1) * np.pi * 0.72) - 0.05 * np.clip(t - 0.7, 0, 1)
        y = eye[1] + arch + rng.uniform(-1, 1, t.size) * np.interp(t, [0, 0.15, 0.6, 1], [0.018, 0.025, 0.018, 0.004])
        sideways = side * np.interp(t, [0, 0.3, 1], [0.25, 0.9, 1.0])
        upward = np.interp(t, [0, 0.25, 0.6, 1], [1, 0.6, 0.0, -0.35])
        for point_x, point_y, dx, dy in zip(x, y, sideways, upward, strict=True):
            hit = hit_skin(float(point_x), float(point_y))
            if hit is None:
                continue
            origin, normal = hit
            tangent = np.array([dx, dy, 0.0])
            tangent = _unit(tangent - normal * (tangent @ normal))
            lift = 0.004 + 0.012 * np.sin(along_hair * np.pi)
            paths.append(origin + tangent * rng.uniform(0.05, 0.08) * along_hair + normal * lift)
    return np.array(paths)
