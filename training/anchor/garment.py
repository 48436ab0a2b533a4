"""Blouse and jacket of the anchor: smooth lofted shells that hide the body, in plain numpy (decimetres, y up).

Heights are given below the eyes, as the frame is; ``front`` is +z.
"""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline, LinearNDInterpolator, NearestNDInterpolator

from training.anchor.mesh import Floats, Ints

RING_COLUMNS = 120
RING_ROWS = 40
# Profiles run from the neck opening to the hem: (outward, height below the eyes).
SIDE_PROFILE = (
    (0.60, 1.40),
    (0.90, 1.475),
    (1.25, 1.56),
    (1.60, 1.68),
    (1.86, 1.91),
    (1.98, 2.27),
    (2.04, 2.80),
    (2.06, 3.4),
)
FRONT_PROFILE = (
    (0.72, 1.70),
    (0.84, 1.80),
    (0.97, 1.95),
    (1.09, 2.12),
    (1.20, 2.34),
    (1.30, 2.62),
    (1.37, 2.95),
    (1.40, 3.4),
)
BACK_PROFILE = (
    (0.42, 1.34),
    (0.52, 1.46),
    (0.60, 1.62),
    (0.66, 1.80),
    (0.70, 2.05),
    (0.72, 2.40),
    (0.72, 2.85),
    (0.72, 3.4),
)
SQUARENESS = 2.25


@dataclass(frozen=True)
class Patch:
    """A quad mesh: points (V, 3) and quads (F, 4)."""

    points: Floats
    quads: Ints


def grid_patch(rows: Floats, *, closed: bool = False) -> Patch:
    """Quads over a (R, C, 3) grid, joined across the last column when ``closed``."""
    num_rows, num_columns = rows.shape[:2]
    index = np.arange(num_rows * num_columns).reshape(num_rows, num_columns)
    if closed:
        index = np.concatenate([index, index[:, :1]], 1)
    quads = np.stack([index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]], -1)
    return Patch(rows.reshape(-1, 3), quads.reshape(-1, 4))


def _profile(stations: tuple[tuple[float, float], ...], at: Floats) -> Floats:
    return np.asarray(CubicSpline(np.linspace(0, 1, len(stations)), np.array(stations))(at))


def shell_rows(eye_height: float) -> Floats:
    """(RING_ROWS, RING_COLUMNS, 3) closed rings of the jacket's body, neck first, lofted between three profiles."""
    at = np.linspace(0, 1, RING_ROWS)
    side, front, back = (_profile(stations, at) for stations in (SIDE_PROFILE, FRONT_PROFILE, BACK_PROFILE))
    angle = np.linspace(0, 2 * np.pi, RING_COLUMNS, endpoint=False)
    cos, sin = np.cos(angle), np.sin(angle)
    bulge = (np.abs(cos) ** SQUARENESS + np.abs(sin) ** SQUARENESS) ** (-1 / SQUARENESS)
    depth = np.where(sin >= 0, front[:, :1], back[:, :1])
    fore_height = np.where(sin >= 0, front[:, 1:], back[:, 1:])
    drop = side[:, 1:] * cos**2 + fore_height * sin**2
    return np.stack([side[:, :1] * cos * bulge, eye_height - drop, depth * sin * bulge], -1)


class FrontSurface:
    """Depth of the jacket's front over (x, y)."""

    def __init__(self, eye_height: float) -> None:
        rows = shell_rows(eye_height)
        front = rows[rows[..., 2] > -0.02]
        self._depth = LinearNDInterpolator(front[:, :2], front[:, 2])
        self._nearest_depth = NearestNDInterpolator(front[:, :2], front[:, 2])
        self._eye_height = eye_height

    def lift(self, flat: Floats, height: float | Floats) -> Floats:
        """(..., 3) points from x and height below the eyes, ``flat`` (..., 2), raised ``height`` off the cloth."""
        x, y = flat[..., 0], self._eye_height - flat[..., 1]
        depth = self._depth(x, y)
        depth = np.where(np.isnan(depth), self._nearest_depth(x, y), depth)
        return np.stack([x, y, depth + height], -1)


def opening_half_width(below_eyes: Floats) -> Floats:
    """Half of the jacket's front opening at a height below the eyes: a V from the collar to the button."""
    return np.interp(below_eyes, [1.30, 1.62, 3.00], [0.70, 0.60, 0.09])


def jacket_shell(eye_height: float) -> Patch:
    """The jacket's body without the front opening; the raw edge lies under collar and lapels."""
    rows = shell_rows(eye_height)
    patch = grid_patch(rows, closed=True)
    centre = patch.points[patch.quads].mean(1)
    is_open = (centre[:, 2] > 0.1) & (np.abs(centre[:, 0]) < opening_half_width(eye_height - centre[:, 1]))
    return Patch(patch.points, patch.quads[~is_open])


def _mirrored(points: Floats, side: int) -> Floats:
    return points * [side, 1.0, 1.0]


def lapels(eye_height: float) -> list[Patch]:
    """Left and right notched lapel: rolled at the inner edge, lying on the jacket outside."""
    surface = FrontSurface(eye_height)
    along = np.linspace(0, 1, 28)
    roll = np.stack([np.interp(along, [0, 1], [0.555, 0.10]), np.interp(along, [0, 1], [1.635, 2.98])], -1)
    stations = [0, 0.10, 0.5, 1]
    outer_x = np.interp(along, stations, [0.98, 1.00, 0.66, 0.14])
    outer = np.stack([outer_x, np.interp(along, stations, [1.79, 1.90, 2.35, 3.02])], -1)
    across = np.array([-0.10, -0.04, 0.0, 0.04, 0.12, 0.3, 0.5, 0.7, 0.88, 1.0])
    raised = np.array([-0.10, 0.005, 0.055, 0.075, 0.075, 0.062, 0.052, 0.045, 0.040, 0.034])
    flat = roll[:, None] + (outer - roll)[:, None] * across[None, :, None]
    rows = surface.lift(flat, raised)
    return [grid_patch(_mirrored(rows, side)) for side in (1, -1)]


# Collar stations from the gorge round to the middle of the back: stand, fold and outer edge as (x, below eyes, z).
COLLAR_STAND = ((0.50, 1.66, 0.56), (0.575, 1.52, 0.36), (0.575, 1.42, 0.08), (0.42, 1.33, -0.25), (0.0, 1.27, -0.37))
COLLAR_FOLD = ((0.555, 1.615, 0.66), (0.625, 1.44, 0.46), (0.635, 1.285, 0.13), (0.47, 1.17, -0.28), (0.0, 1.11, -0.40))
COLLAR_EDGE = ((0.93, 1.70, 0.0), (0.955, 1.60, 0.40), (0.93, 1.50, 0.02), (0.66, 1.43, -0.56), (0.0, 1.40, -0.66))


def collar(eye_height: float) -> Patch:
    """The jacket's collar: a stand round the neck folded over on to the shoulders, ending at the notches."""
    surface = FrontSurface(eye_height)
    lines = []
    for stations in (COLLAR_STAND, COLLAR_FOLD, COLLAR_EDGE):
        half = np.array(stations) * [1, -1, 1] + [0, eye_height, 0]
        if stations is COLLAR_EDGE:
            half[:1] = surface.lift(np.array([stations[0][:2]]), 0.07)
            half[1:2] = surface.lift(np.array([stations[1][:2]]), 0.07)
        whole = np.concatenate([half, _mirrored(half[-2::-1], -1)])
        lines.append(CubicSpline(np.linspace(0, 1, len(whole)), whole)(np.linspace(0, 1, 60)))
    stand, fold, edge = lines
    bulge = np.array([0.0, 0.035, 0.0])
    across = [stand, stand + 0.6 * (fold - stand), fold]
    across += [fold + share * (edge - fold) + bulge * np.sin(np.pi * share) for share in (0.12, 0.35, 0.6, 0.85)]
    return grid_patch(np.stack([*across, edge], 1))


def neckline(x: Floats) -> Floats:
    """Height of the blouse's neckline below the eyes."""
    return 2.02 - 0.34 * np.abs(x / 0.62) ** 1.7


def blouse(eye_height: float, body: Floats) -> tuple[Patch, Floats]:
    """Blouse front and the path of its neckline.

    Args:
        eye_height: y of the eyes at rest.
        body: (P, 3) points of the resting body, which the blouse clears as a low-order (smooth) surface.

    Returns:
        The patch, and the (C, 3) neckline for its binding.
    """
    below = eye_height - body[:, 1]
    chest = body[(np.abs(body[:, 0]) < 0.85) & (body[:, 2] > 0.25) & (below > 1.55) & (below < 2.75)]
    x, y = chest[:, 0], eye_height - chest[:, 1]

    def terms(x: Floats, y: Floats) -> Floats:
        return np.stack([np.ones_like(x), y, y * y, x * x, x * x * y], -1)

    fit, *_ = np.linalg.lstsq(terms(x, y), chest[:, 2], rcond=None)
    columns = np.linspace(-0.80, 0.80, 61)
    top = neckline(columns)
    grid_y = top + np.linspace(0, 1, 24)[:, None] * (3.2 - top)
    grid_x = np.broadcast_to(columns, grid_y.shape)
    depth = terms(grid_x, grid_y) @ fit + 0.055
    rows = np.stack([grid_x, eye_height - grid_y, depth], -1)
    return grid_patch(rows), rows[0]


def tube(path: Floats, radius: float, sides: int = 10) -> Patch:
    """A round binding along an open ``path`` (C, 3)."""
    tangent = np.gradient(path, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    across = np.cross(tangent, [0.0, 0.0, 1.0])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)[None, :, None]
    ring = np.cos(angle) * across[:, None] + np.sin(angle) * np.cross(tangent, across)[:, None]
    return grid_patch(path[:, None] + radius * ring, closed=True)
