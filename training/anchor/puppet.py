"""Poses the anchor's objects in the open Blender scene."""

from collections.abc import Mapping
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix

from training.anchor.mesh import Floats, NeckPose
from training.anchor.rig import Rig


def to_blender(points: Floats) -> Floats:
    """(..., 3) from y up to z up."""
    return np.stack([points[..., 0], -points[..., 2], points[..., 1]], -1)


def from_blender(points: Floats) -> Floats:
    """(..., 3) from z up to y up."""
    return np.stack([points[..., 0], points[..., 2], -points[..., 1]], -1)


def _flat(points: Floats) -> Any:
    return to_blender(points).reshape(-1).astype(np.float32)


def pose(rig: Rig, weights: Mapping[str, float], neck: NeckPose) -> None:
    """Move face, neck and hair; torso and clothes stay where they are.

    Args:
        rig: belongs to the open scene.
        weights: of facial units.
        neck: head pose; built with the rig's eye height.
    """
    objects = bpy.data.objects
    face = rig.face(weights)
    moved = neck.apply(face)
    for name, used in rig.parts.items():
        mesh = objects[name].data
        mesh.vertices.foreach_set("co", _flat(moved[used]))
        mesh.update()
    for name, paths in (("brows", rig.brow_paths(face)), ("lashes", rig.lash_paths(face))):
        curves = objects[name].data
        curves.attributes["position"].data.foreach_set("vector", _flat(neck.apply(paths)))
        curves.update_tag()
    # The bob ends where the neck is almost rigid, so the hair moves as one object and keeps its ray tree.
    axes = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    objects["hair"].matrix_world = Matrix((axes @ neck.rigid @ axes.T).tolist())
