"""Plane affines as (3, 3) matrices with last row (0, 0, 1); the name of a matrix says its direction."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Scalar = TypeVar("Scalar", bound=np.floating[Any])


def invert_affine(matrix: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Invert plane affines; computed in float64, returned in the dtype given.

    Args:
        matrix: (..., 3, 3), last row (0, 0, 1), not singular.

    Returns:
        (..., 3, 3), last row exactly (0, 0, 1).

    Raises:
        numpy.linalg.LinAlgError: a matrix is singular.
    """
    wide = matrix.astype(np.float64)
    linear = np.linalg.inv(wide[..., :2, :2])
    inverse = np.zeros_like(wide)
    inverse[..., :2, :2] = linear
    inverse[..., :2, 2] = -(linear @ wide[..., :2, 2:])[..., 0]
    inverse[..., 2, 2] = 1.0
    return inverse.astype(matrix.dtype)


def apply_affine(matrix: Floats, points: Floats) -> Floats:
    """Map points through a plane affine.

    Args:
        matrix: (3, 3), last row (0, 0, 1); takes source pixels to target pixels.
        points: (P, 2), source pixels, x before y.

    Returns:
        (P, 2), target pixels.
    """
    mapped: Floats = points @ matrix[:2, :2].T + matrix[:2, 2]
    return mapped
