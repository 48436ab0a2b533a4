"""How far the eyes are open and where they look, from the 478 landmarks of the crop."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.affine import Floats

Singles = npt.NDArray[np.float32]
_EPS = 1e-8


class _EyeIndices(NamedTuple):
    outer: int
    inner: int
    upper_lid: tuple[int, int, int]
    lower_lid: tuple[int, int, int]
    iris: int


_EYES = (
    _EyeIndices(33, 133, (145, 144, 153), (159, 160, 158), 468),
    _EyeIndices(263, 362, (374, 373, 380), (386, 387, 385), 473),
)


def eye_openness(landmarks: Floats) -> Singles:
    """Sum of three lid gaps over the eye's width, per eye.

    Args:
        landmarks: (N, 478, 3), normalised by the crop size.

    Returns:
        (N, 2) float32; column 0 is the eye with corner 33.
    """
    points = _checked(landmarks)
    return np.stack([_openness(points, eye) for eye in _EYES], axis=1)


def eye_ball_direction(landmarks: Floats) -> Singles:
    """Offset of the iris from the middle of the eye, less its direction along the eye's axis.

    Args:
        landmarks: (N, 478, 3), normalised by the crop size.

    Returns:
        (N, 6) float32, columns x1 x2 y1 y2 z1 z2 for the eyes with corners 33 and 263.
    """
    points = _checked(landmarks)
    moves = np.stack([_ball_move(points, eye) for eye in _EYES], axis=2)
    return moves.reshape(len(points), 6)


def _checked(landmarks: Floats) -> Singles:
    if landmarks.ndim != 3 or landmarks.shape[1:] != (478, 3):
        raise UsageError(f"landmarks have shape {landmarks.shape}", "give (N, 478, 3), normalised by the crop size")
    return landmarks.astype(np.float32)


def _width(points: Singles, eye: _EyeIndices) -> Singles:
    return np.asarray(np.linalg.norm(points[:, eye.outer] - points[:, eye.inner], axis=-1, keepdims=True))


def _openness(points: Singles, eye: _EyeIndices) -> Singles:
    gaps = points[:, list(eye.upper_lid)] - points[:, list(eye.lower_lid)]
    return np.linalg.norm(gaps, axis=-1).sum(axis=1) / (_width(points, eye)[:, 0] + np.float32(_EPS))


def _ball_move(points: Singles, eye: _EyeIndices) -> Singles:
    outer, inner = points[:, eye.outer], points[:, eye.inner]
    offset = points[:, eye.iris] - (outer + inner) / np.float32(2)
    length = np.linalg.norm(offset, axis=-1, keepdims=True)
    axis = (outer - inner) / (_width(points, eye) + np.float32(_EPS))
    return (offset / (length + np.float32(_EPS)) - axis) * length
