"""The CC0 head: shape by identity, face units, a neck rig, and the 21 fixed vertices that serve as keypoints.

Head units are decimetres with y up and z towards the camera; one network unit is half the crop, y down, z towards the
camera.
"""

import functools
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

PACK_PATH = Path(__file__).parent / "assets" / "heads.npz"

# inner lips (upper, lower), mouth corners, outer lips (upper, lower), chin, jaw corners, lids (upper, lower; per eye),
# brows, nose tip, temples, forehead, pupils
KEYPOINT_VERTICES = (
    474,
    493,
    2675,
    5125,
    455,
    492,
    780,
    893,
    3946,
    1082,
    44,
    3138,
    6109,
    2595,
    5590,
    302,
    2738,
    5724,
    244,
    6354,
    6426,
)
LIP_KEYPOINTS = tuple(range(9))
EYE_KEYPOINTS = (9, 10, 11, 12, 19, 20)
DEPTH_ORIGIN = 0.6
CENTRE_BELOW_EYES = 0.35
NOMINAL_DISTANCE = 16.0
NOMINAL_FOV_RAD = math.radians(10.5)
UPPER_TEETH_DROP = 0.05


@dataclass(frozen=True)
class Identity:
    """What a person's rest shape is mixed from.

    Args:
        race: weights of african, asian, caucasian.
        masculinity: 0 female, 1 male.
        oldness: 0 young, 1 old.
        weight: weights of thin, average, heavy.
        local: weight of each local target by name.
    """

    race: tuple[float, float, float] = (0.15, 0.15, 0.7)
    masculinity: float = 0.05
    oldness: float = 0.0
    weight: tuple[float, float, float] = (0.0, 1.0, 0.0)
    local: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Camera:
    """A camera on the z axis.

    Args:
        x, below_eyes: position across, and height relative to the eyes (negative is below), head units.
        distance: distance from the head's origin along z, head units.
        fov_rad: full angle of view of the square picture.
    """

    x: float = 0.0
    below_eyes: float = -CENTRE_BELOW_EYES
    distance: float = NOMINAL_DISTANCE
    fov_rad: float = NOMINAL_FOV_RAD


@dataclass(frozen=True)
class Pose:
    """Rigid motion of the head above the neck: angles about x, y, z in degrees (head axes), shift in head units."""

    angles_deg: tuple[float, float, float] = (0.0, 0.0, 0.0)
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)


class HeadPack:
    """Arrays of ``heads.npz``, by name."""

    def __init__(self, path: Path = PACK_PATH) -> None:
        with np.load(path) as pack:
            self.vertices = pack["vertices"]
            self.texture = pack["texture"]
            self.target_names = [str(name) for name in pack["target_names"]]
            self.targets = pack["targets"].astype(np.float32)
            self.faces = {k.removeprefix("faces/"): pack[k] for k in pack.files if k.startswith("faces/")}
            self.masks = {k.removeprefix("mask/"): pack[k] for k in pack.files if k.startswith("mask/")}
            self.landmark_vertices = pack["landmark_vertices"] if "landmark_vertices" in pack.files else None
        self.index = {name: i for i, name in enumerate(self.target_names)}
        self.unit_names = [n.removeprefix("fu/") for n in self.target_names if n.startswith("fu/")]
        self.local_names = [n for n in self.target_names if n.startswith("loc/")]
        self.eye_vertices = tuple(np.unique(self.faces[f"helper-{side}-eye"][..., 0]) for side in "lr")
        self._upper_teeth = np.unique(self.faces["helper-upper-teeth"][..., 0])
        self.unit_targets = self.targets[[self.index[f"fu/{n}"] for n in self.unit_names]]
        self._flat_units = self.unit_targets.reshape(len(self.unit_names), -1)
        self._unit_index = {name: i for i, name in enumerate(self.unit_names)}

    def rest_shape(self, identity: Identity) -> np.ndarray:
        """Vertices (V, 3) of an identity, mouth closed, facing the camera."""
        shape = self.vertices.astype(np.float32).copy()
        for sex, sex_weight in (("female", 1 - identity.masculinity), ("male", identity.masculinity)):
            for age, age_weight in (("young", 1 - identity.oldness), ("old", identity.oldness)):
                share = sex_weight * age_weight
                if share <= 0:
                    continue
                for race, w in zip(("african", "asian", "caucasian"), identity.race, strict=True):
                    shape += np.float32(share * w) * self.targets[self.index[f"mac/{race}-{sex}-{age}"]]
                for weight, w in zip(("minweight", "averageweight", "maxweight"), identity.weight, strict=True):
                    shape += np.float32(share * w) * self.targets[self.index[f"mac/{sex}-{age}-{weight}"]]
        for name, w in identity.local.items():
            shape += np.float32(w) * self.targets[self.index[name]]
        shape[self._upper_teeth, 1] -= UPPER_TEETH_DROP
        return shape

    def unit_weights(self, coefficients: dict[str, float]) -> np.ndarray:
        """Face unit coefficients by name -> vector in the order of ``unit_names``."""
        weights = np.zeros(len(self.unit_names), np.float32)
        for name, w in coefficients.items():
            weights[self._unit_index[name]] = w
        return weights

    def express(self, shape: np.ndarray, coefficients: dict[str, float]) -> np.ndarray:
        """Vertices with face units added."""
        active = {n: w for n, w in coefficients.items() if w}
        if not active:
            return shape.copy()
        rows = [self._unit_index[name] for name in active]
        weights = np.array(list(active.values()), np.float32)
        return shape + (weights @ self._flat_units[rows]).reshape(shape.shape)

    def eye_height(self, shape: np.ndarray) -> float:
        """Mean height of the eyeballs."""
        return float(shape[self.eye_vertices[0], 1].mean())


@functools.lru_cache(maxsize=1)
def head_pack() -> HeadPack:
    """The committed pack, loaded once."""
    return HeadPack()


def rotation(angles_deg: tuple[float, float, float]) -> np.ndarray:
    """Rz Ry Rx, (3, 3)."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(np.radians(angles_deg)), np.sin(np.radians(angles_deg))
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def move_head(points: np.ndarray, pose: Pose, eye_height: float) -> np.ndarray:
    """Turn and shift points (..., 3) about the neck; the motion fades out from the jaw down to the collar."""
    pivot = np.array([0.0, eye_height - 0.95, 0.05])
    ramp = np.clip((points[..., 1] - (eye_height - 1.55)) / 0.62, 0, 1)
    weight = (ramp * ramp * (3 - 2 * ramp))[..., None]
    moved = (points - pivot) @ rotation(pose.angles_deg).T + pivot + np.asarray(pose.shift)
    return points + weight * (moved - points)


def project(points: np.ndarray, camera: Camera, eye_height: float) -> np.ndarray:
    """Head points (..., 3) -> picture coordinates -1..1, y down; z in the same unit, towards the camera."""
    focal = 1 / math.tan(camera.fov_rad / 2)
    depth = camera.distance - points[..., 2]
    x = focal * (points[..., 0] - camera.x) / depth
    y = -focal * (points[..., 1] - eye_height - camera.below_eyes) / depth
    z = (points[..., 2] - DEPTH_ORIGIN) * focal / (camera.distance - DEPTH_ORIGIN)
    return np.stack([x, y, z], -1)


def units_per_head(camera: Camera) -> float:
    """Picture units per head unit at the reference depth."""
    return 1 / math.tan(camera.fov_rad / 2) / (camera.distance - DEPTH_ORIGIN)


def canonical_keypoints(shape: np.ndarray, pack: HeadPack) -> np.ndarray:
    """Keypoints (21, 3) of a rest shape in network units of the nominal camera, origin between eyes and mouth."""
    origin = np.array([0.0, pack.eye_height(shape) - CENTRE_BELOW_EYES, DEPTH_ORIGIN])
    centred = (shape[list(KEYPOINT_VERTICES)] - origin) * units_per_head(Camera())
    return (centred * [1, -1, 1]).astype(np.float32)


def picture_keypoints(
    shape: np.ndarray, coefficients: dict[str, float], pose: Pose, camera: Camera, pack: HeadPack
) -> np.ndarray:
    """Keypoints (21, 3) as the camera sees them."""
    vertices = list(KEYPOINT_VERTICES)
    weights = pack.unit_weights(coefficients)
    points = shape[vertices] + np.tensordot(weights, pack.unit_targets[:, vertices], 1)
    eye_height = pack.eye_height(shape)
    return project(move_head(points, pose, eye_height), camera, eye_height).astype(np.float32)


def expression_offsets(weights: np.ndarray, pack: HeadPack) -> np.ndarray:
    """Offsets (T, 21, 3), network units at scale 1, of face unit weights (T, U) on the lip, chin and jaw keypoints.

    Seen by the nominal camera on the default identity at rest, so perspective is that of the demo's own crop.
    """
    shape = pack.rest_shape(Identity())
    vertices = list(KEYPOINT_VERTICES)
    eye_height = pack.eye_height(shape)
    rest = shape[vertices]
    moved = rest + np.tensordot(weights, pack.unit_targets[:, vertices], 1)
    offsets = project(moved, Camera(), eye_height) - project(rest, Camera(), eye_height)
    offsets[:, len(LIP_KEYPOINTS) :] = 0
    return offsets.astype(np.float32)


def pose_labels(pose: Pose, camera: Camera) -> tuple[np.ndarray, float]:
    """Pitch, yaw, roll in degrees as the networks count them (y down), and scale (1 for the nominal camera)."""
    about_x, about_y, about_z = pose.angles_deg
    return np.array([-about_x, about_y, -about_z], np.float32), units_per_head(camera) / units_per_head(Camera())
