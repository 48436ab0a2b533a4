"""What moves when the anchor does, in plain numpy: points of the mesh, brows and lashes for weights and a head pose."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.anchor.lashes import LashRow
from training.anchor.mesh import Floats, Ints, express

LASH_FIELDS = ("roots", "tips", "positions", "lengths", "lean", "bend")


@dataclass(frozen=True)
class Follower:
    """Strands that ride on the skin: each moves by the mean displacement of its root's nearest vertices.

    Attributes:
        paths: (S, K, 3) at rest.
        nearest: (S, N) vertices.
        weights: (S, N), sum 1.
    """

    paths: Floats
    nearest: Ints
    weights: Floats

    def moved(self, displacement: Floats) -> Floats:
        """(S, K, 3) for the displacement (V, 3) of the mesh."""
        shift = (displacement[self.nearest] * self.weights[..., None]).sum(1)
        return np.asarray(self.paths + shift[:, None])


@dataclass(frozen=True)
class Rig:
    """The anchor's moving parts.

    Attributes:
        rest: (V, 3) resting points, y up, decimetres.
        units: displacement (V, 3) of each facial unit at weight 1.
        parts: vertices of each moving mesh, by the name of its object.
        brows: strands on the skin.
        lashes: rows of strands on the lids.
        eye_height: y of the eye centres at rest.
    """

    rest: Floats
    units: Mapping[str, Floats]
    parts: Mapping[str, Ints]
    brows: Follower
    lashes: tuple[LashRow, ...]
    eye_height: float

    def face(self, weights: Mapping[str, float]) -> Floats:
        """(V, 3) points with the face moved, the head not turned."""
        return express(self.rest, self.units, weights)

    def brow_paths(self, face: Floats) -> Floats:
        """(S, K, 3) brows on ``face``."""
        return self.brows.moved(face - self.rest)

    def lash_paths(self, face: Floats) -> Floats:
        """(L, K, 3) lashes on ``face``."""
        return np.concatenate([row.paths(face) for row in self.lashes])


def save_rig(rig: Rig, path: Path) -> None:
    """Write ``rig`` as an archive of arrays."""
    arrays: dict[str, np.ndarray] = {"rest": rig.rest, "eye_height": np.array(rig.eye_height)}
    arrays |= {f"brows/{name}": getattr(rig.brows, name) for name in ("paths", "nearest", "weights")}
    arrays |= {f"parts/{name}": used for name, used in rig.parts.items()}
    arrays |= {f"units/{name}": offsets.astype(np.float32) for name, offsets in rig.units.items()}
    for index, row in enumerate(rig.lashes):
        arrays |= {f"lashes/{index}/{name}": np.array(getattr(row, name)) for name in LASH_FIELDS}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # the stub takes every name for its own flag


def load_rig(path: Path) -> Rig:
    """Read what :func:`save_rig` wrote."""
    with np.load(path) as archive:
        arrays = dict(archive)

    def under(prefix: str) -> dict[str, Floats]:
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

    rows = sorted({name.split("/")[0] for name in under("lashes/")}, key=int)
    lashes = []
    for row in rows:
        roots, tips, positions, lengths, lean, bend = (arrays[f"lashes/{row}/{name}"] for name in LASH_FIELDS)
        lashes.append(LashRow(roots, tips, positions, lengths, lean, float(bend)))
    return Rig(
        rest=arrays["rest"],
        units=under("units/"),
        parts={name: used.astype(np.int64) for name, used in under("parts/").items()},
        brows=Follower(*(arrays[f"brows/{name}"] for name in ("paths", "nearest", "weights"))),
        lashes=tuple(lashes),
        eye_height=float(arrays["eye_height"]),
    )
