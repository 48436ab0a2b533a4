"""Strands of hair and brows as camera-facing ribbons."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from training.head_model import HeadPack

Random = np.random.Generator
STRAND_POINTS = 9
HAIRLINE_AZIMUTH_DEG = (0, 25, 45, 62, 80, 92, 104, 125, 180)
HAIRLINE_HEIGHT = (0.62, 0.66, 0.60, 0.36, 0.12, 0.05, -0.10, -0.42, -0.55)
BALD_SHARE = 0.05


@dataclass(frozen=True)
class Surface:
    """Skin vertices of the head with outward normals, both (S, 3), and their indices in the pack."""

    points: np.ndarray
    normals: np.ndarray
    vertices: np.ndarray


@dataclass(frozen=True)
class Brows:
    """Brow strands (M, 4, 3) and the skin vertex each one follows (M,)."""

    strands: np.ndarray
    vertices: np.ndarray


def ribbon_vertices(strands: np.ndarray, width: float, shade: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Strands (N, K, 3) -> vertex rows (N*K*2, 12): position, tangent, rest position and shade, side, half width."""
    num, points, _ = strands.shape
    tangent = np.gradient(strands, axis=1)
    tangent /= np.linalg.norm(tangent, axis=2, keepdims=True) + 1e-9
    widths = np.broadcast_to((width * np.linspace(1, 0.35, points))[None, :, None], (num, points, 1))
    shades = np.broadcast_to(shade[:, None, None], (num, points, 1))
    one = np.concatenate([strands, tangent, strands - centre, shades], 2)
    sides = [np.concatenate([one, np.full_like(widths, side), widths], 2) for side in (-1.0, 1.0)]
    return np.stack(sides, 2).reshape(-1, 12).astype(np.float32)


def ribbon_triangles(num: int, points: int) -> np.ndarray:
    """Indices (num*(points-1)*2, 3)."""
    first = (np.arange(num)[:, None] * 2 * points + 2 * np.arange(points - 1)[None])[..., None]
    return (
        np.concatenate([first + np.array(corners) for corners in ((0, 1, 2), (2, 1, 3))], -1)
        .reshape(-1, 3)
        .astype(np.int32)
    )


def head_surface(shape: np.ndarray, normals: np.ndarray, pack: HeadPack, eye_height: float) -> Surface:
    """Skin above the collar."""
    skin = np.unique(pack.faces["body"][..., 0])
    skin = skin[shape[skin, 1] > eye_height - 1.4]
    return Surface(shape[skin], normals[skin], skin)


def _scalp_points(random: Random, shape: np.ndarray, pack: HeadPack, eye_height: float, num: int) -> np.ndarray:
    quads = pack.faces["body"][..., 0]
    triangles = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    triangles = triangles[shape[triangles][..., 1].min(1) > eye_height - 0.8]
    a, b, c = (shape[triangles[:, i]] for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    chosen = random.choice(len(triangles), 6 * num, p=area / area.sum())
    u, v = np.sqrt(random.random(6 * num))[:, None], random.random(6 * num)[:, None]
    points = (1 - u) * a[chosen] + u * (1 - v) * b[chosen] + u * v * c[chosen]
    spread = points - [0, eye_height + 0.3, 0.25]
    azimuth = np.degrees(np.arctan2(np.abs(spread[:, 0]), spread[:, 2]))
    line = np.interp(azimuth, HAIRLINE_AZIMUTH_DEG, HAIRLINE_HEIGHT) + eye_height + random.uniform(-0.06, 0.08)
    return points[(points[:, 1] > line) & (np.abs(points[:, 0]) < 1.0)][:num]


def grow_hair(random: Random, shape: np.ndarray, surface: Surface, pack: HeadPack, num: int) -> np.ndarray:
    """Strands (N, STRAND_POINTS, 3) of a random cut: length, parting, curl, lift and droop vary."""
    eye_height = pack.eye_height(shape)
    roots = _scalp_points(random, shape, pack, eye_height, num)
    tree = cKDTree(surface.points)
    normal = surface.normals[tree.query(roots)[1]]
    ones = np.ones(len(roots))
    side = np.where(roots[:, 0] > random.uniform(-0.35, 0.35), 1.0, -1.0)
    cut = float(random.choice([random.uniform(0.15, 0.4), random.uniform(0.4, 1.0), random.uniform(0.9, 1.5)]))
    heights = [eye_height - 0.5, eye_height + 0.2, roots[:, 1].max()]
    length = random.uniform(0.85, 1.1, len(roots)) * np.interp(roots[:, 1], heights, [0.5, 1.15, 1.85]) * cut
    step = (length / (STRAND_POINTS - 1))[:, None]
    back, curl, droop = random.uniform(0.1, 0.9), random.uniform(0, 0.12), random.uniform(0.7, 1.5)
    lift = random.uniform(0.015, random.uniform(0.06, 0.14), len(roots))
    direction = normal * 0.45 + np.c_[side * 0.6, 0.25 * ones, -(0.3 + back) * ones]
    strands = [roots]
    for i in range(1, STRAND_POINTS):
        pull = np.c_[side * 0.02, -(0.42 + 0.35 * i / STRAND_POINTS) * 1.3 * droop * ones, -0.1 * ones]
        direction = direction / (np.linalg.norm(direction, axis=1, keepdims=True) + 1e-9) + pull
        direction = direction + random.normal(0, 0.03 + curl, direction.shape)
        tip = strands[-1] + direction / np.linalg.norm(direction, axis=1, keepdims=True) * step
        near = tree.query(tip)[1]
        above = ((tip - surface.points[near]) * surface.normals[near]).sum(1)
        wanted = lift * np.interp(i, [0, 2, STRAND_POINTS], [0.2, 1, 0.9])
        tip = tip + surface.normals[near] * np.clip(wanted - above, 0, None)[:, None]
        on_face = (tip[:, 2] > 0.7) & (tip[:, 1] < eye_height + 0.5) & (np.abs(tip[:, 0]) < 0.6)
        tip[on_face, 0] += np.sign(tip[on_face, 0] + 1e-6) * 0.12
        direction = tip - strands[-1]
        strands.append(tip)
    return np.stack(strands, 1)


def grow_brows(random: Random, surface: Surface, eye_centres: list[np.ndarray], num: int = 220) -> Brows:
    """Short strands above the eyes."""
    front = surface.normals[:, 2] > 0.2
    tree = cKDTree(surface.points[front][:, :2])
    depth = surface.points[front][:, 2]
    height, thickness = random.uniform(-0.02, 0.03), random.uniform(0.6, 1.3)
    strands = []
    for centre in eye_centres:
        sign = np.sign(centre[0])
        t = random.random(num)
        x = sign * (abs(centre[0]) - 0.17 + 0.4 * t)
        arch = 0.062 * np.sin(np.clip(t * 1.15, 0, 1) * np.pi * 0.72) - 0.05 * np.clip(t - 0.7, 0, 1)
        band = random.uniform(-1, 1, num) * np.interp(t, [0, 0.15, 0.6, 1], [0.02, 0.028, 0.02, 0.005]) * thickness
        y = centre[1] + 0.15 + height + arch + band
        distance, near = tree.query(np.c_[x, y], k=4)
        weight = 1 / (distance + 1e-3)
        z = (depth[near] * weight).sum(1) / weight.sum(1) + 0.012
        lean = np.c_[
            sign * np.interp(t, [0, 0.3, 1], [0.25, 0.9, 1.0]),
            np.interp(t, [0, 0.25, 0.6, 1], [1, 0.6, 0.0, -0.35]),
            0 * t,
        ]
        lean /= np.linalg.norm(lean, axis=1, keepdims=True)
        strands.append(np.c_[x, y, z][:, None] + lean[:, None] * np.linspace(0, 1, 4)[None, :, None] * 0.07)
    brows = np.concatenate(strands)
    return Brows(brows, surface.vertices[cKDTree(surface.points).query(brows[:, 0])[1]])
