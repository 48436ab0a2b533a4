"""Lashes of the anchor as polylines that follow the lids (decimetres, y up)."""

from dataclasses import dataclass

import numpy as np

from training.anchor.mesh import BaseMesh, Floats, Ints

LASH_POINTS = 5
LASH_OFFSET = (0.0, -0.010, 0.012)  # from the strip, which starts inside the lid, to the lid margin


@dataclass(frozen=True)
class LashRow:
    """One row of lashes on a strip of the base mesh, so that it follows the lid.

    Attributes:
        roots, tips: vertex indices along the lid margin and along the strip's free edge, inner to outer corner.
        positions: (L,) places along the row, 0..1.
        lengths: (L,) share of the way from root to tip.
        lean: (L,) sideways slant, as a shift in 0..1 along the tips.
        bend: upward (or downward) curl at the tip, decimetres.
    """

    roots: Ints
    tips: Ints
    positions: Floats
    lengths: Floats
    lean: Floats
    bend: float

    def paths(self, points: Floats) -> Floats:
        """(L, LASH_POINTS, 3) lashes on the mesh ``points`` (V, 3)."""
        start = _along(points[self.roots], self.positions) + LASH_OFFSET
        end = _along(points[self.tips], np.clip(self.positions + self.lean, 0, 1)) + LASH_OFFSET
        reach = (end - start) * self.lengths[:, None]
        t = np.linspace(0, 1, LASH_POINTS)[None, :, None]
        curl = np.array([0.0, self.bend, 0.0]) * (t**2)
        return np.asarray(start[:, None] + reach[:, None] * t + curl * self.lengths[:, None, None])


def _along(line: Floats, positions: Floats) -> Floats:
    stations = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    stations /= stations[-1]
    return np.stack([np.interp(positions, stations, line[:, axis]) for axis in range(3)], -1)


def lash_rows(base: BaseMesh, points: Floats, rng: np.random.Generator) -> list[LashRow]:
    """Upper and lower rows of both eyes: fine, shortened, and few below."""
    rows = []
    for side in "lr":
        box = points[base.vertices_of(f"helper-{side}-eye")]
        centre = (box.min(0) + box.max(0)) / 2
        for strip, count, length, bend in (("2", 110, 0.80, 0.030), ("1", 24, 0.40, -0.004)):
            vertices = base.vertices_of(f"helper-{side}-eyelashes-{strip}")
            distance = np.linalg.norm(points[vertices] - centre, axis=1)
            outward = np.argsort(np.abs(points[vertices, 0]))
            margin = np.isin(vertices, vertices[distance < 0.157])
            edge = np.isin(vertices, _free_edge(base.quads[f"helper-{side}-eyelashes-{strip}"], vertices[margin]))
            positions = np.sort(rng.uniform(0.08, 0.97, count))
            taper = np.interp(positions, [0, 0.3, 0.8, 1], [0.55, 0.9, 1.0, 0.75])
            rows.append(
                LashRow(
                    roots=vertices[outward][margin[outward]],
                    tips=vertices[outward][edge[outward]],
                    positions=positions,
                    lengths=length * taper * rng.uniform(0.8, 1.15, count),
                    lean=rng.normal(0.0, 0.02, count),
                    bend=bend,
                )
            )
    return rows


def _free_edge(quads: Ints, margin: Ints) -> Ints:
    """Vertices as far from the margin as the strip reaches, counted in quads."""
    rank = {int(vertex): 0 for vertex in margin}
    for step in range(1, 8):
        for quad in quads:
            known = [rank.get(int(v)) for v in quad]
            if step - 1 in known:
                for vertex in quad:
                    rank.setdefault(int(vertex), step)
    last = max(rank.values())
    return np.array([vertex for vertex, step in rank.items() if step == last])
