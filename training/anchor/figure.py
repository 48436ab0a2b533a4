"""Builds the anchor as Blender objects."""

from typing import Any

import bpy
import numpy as np
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from scipy.spatial import cKDTree

from training.anchor import garment, look
from training.anchor.lashes import lash_rows
from training.anchor.mesh import Floats, Ints, ShapeLibrary, anchor_identity, eye_centres
from training.anchor.puppet import from_blender, to_blender
from training.anchor.rig import Follower, Rig
from training.anchor.strands import Comb, Surface, above_hairline, brow_paths

SCATTER_SEED = 7
HAIR_RADII = (0.0045, 0.0018)
BROW_RADII = (0.0026, 0.0008)
LASH_RADII = (0.0019, 0.0004)
JACKET: look.Colour = (0.020, 0.032, 0.085)
BLOUSE: look.Colour = (0.66, 0.63, 0.58)


def _link(name: str, content: Any) -> Any:
    thing = bpy.data.objects.new(name, content)
    bpy.context.scene.collection.objects.link(thing)
    return thing


def add_mesh(name: str, points: Floats, quads: Ints, material: Any, *, levels: int) -> tuple[Any, Ints]:
    """A smooth, subdivided mesh of the vertices that ``quads`` use; returns the object and those vertices."""
    used, local = np.unique(quads, return_inverse=True)
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(to_blender(points[used]).tolist(), [], local.reshape(quads.shape).tolist())
    mesh.polygons.foreach_set("use_smooth", [True] * len(mesh.polygons))
    mesh.materials.append(material)
    thing = _link(name, mesh)
    if levels:
        modifier = thing.modifiers.new("smooth", "SUBSURF")
        modifier.levels = modifier.render_levels = levels
    return thing, used


def add_strands(name: str, paths: Floats, material: Any, radii: tuple[float, float]) -> Any:
    """Hair curves (S, K, 3) that thin out towards their ends."""
    count, length, _ = paths.shape
    curves = bpy.data.hair_curves.new(name)
    curves.add_curves([length] * count)
    curves.attributes["position"].data.foreach_set("vector", to_blender(paths).reshape(-1).astype(np.float32))
    radius = curves.attributes.get("radius") or curves.attributes.new("radius", "FLOAT", "POINT")
    radius.data.foreach_set("value", np.tile(np.linspace(*radii, length), count).astype(np.float32))
    curves.materials.append(material)
    return _link(name, curves)


def _store(mesh_object: Any, name: str, values: Floats) -> None:
    attribute = mesh_object.data.attributes.new(name, "FLOAT", "POINT")
    attribute.data.foreach_set("value", values.astype(np.float32))


def _sample_surface(mesh_object: Any) -> Surface:
    evaluated = mesh_object.evaluated_get(bpy.context.evaluated_depsgraph_get())
    mesh = evaluated.to_mesh()
    buffers = []
    for name in ("co", "normal"):
        values = np.empty(len(mesh.vertices) * 3, np.float32)
        mesh.vertices.foreach_get(name, values)
        buffers.append(from_blender(values.reshape(-1, 3).astype(np.float64)))
    evaluated.to_mesh_clear()
    return Surface(*buffers)


class AnchorBuilder:
    """Adds the figure to the open scene; :meth:`build` returns what moves."""

    def __init__(self, library: ShapeLibrary) -> None:
        self.library = library
        self.rest = anchor_identity(library)
        self.eyes = eye_centres(library.base, self.rest)
        self.eye_height = float(self.eyes[0][1])
        self._parts: dict[str, Ints] = {}

    def build(self) -> Rig:
        """All objects, at rest."""
        rng = np.random.default_rng(SCATTER_SEED)
        skin_material = look.skin_material(self.library)
        bust = self._add_skin(skin_material, self._bust_quads())
        self._grow_hair(bust, rng)
        brows = self._grow_brows(bust, rng)
        bpy.data.objects.remove(bust)
        skin = self._add_skin(skin_material, self._visible_quads(), follow=True)
        self._paint(skin)
        self._add_eyes()
        self._add_mouth()
        lashes = tuple(lash_rows(self.library.base, self.rest, rng))
        rig = Rig(self.rest, self.library.units(), self._parts, brows, lashes, self.eye_height)
        lash_look = look.plain_material("lash", (0.020, 0.013, 0.010), 0.5)
        add_strands("lashes", rig.lash_paths(self.rest), lash_look, LASH_RADII)
        self._dress()
        return rig

    def _bust_quads(self) -> tuple[Ints, Ints]:
        quads, uv = self.library.base.quads["body"], self.library.base.uv_quads["body"]
        corners = self.rest[quads]
        keep = (corners[..., 1].min(1) > 3.0) & (np.abs(corners[..., 0]).max(1) < 3.6)
        return quads[keep], uv[keep]

    def _visible_quads(self) -> tuple[Ints, Ints]:
        quads, uv = self._bust_quads()
        centre = self.rest[quads].mean(1)
        below, across = self.eye_height - centre[:, 1], np.abs(centre[:, 0])
        neck = (below < 1.62) & (across < 0.86)
        chest = (centre[:, 2] > 0.2) & (across < 0.72) & (below < garment.neckline(centre[:, 0]) + 0.14)
        keep = neck | chest
        return quads[keep], uv[keep]

    def _add_skin(self, material: Any, quads: tuple[Ints, Ints], *, follow: bool = False) -> Any:
        faces, uv = quads
        skin, used = add_mesh("skin", self.rest, faces, material, levels=2)
        layer = skin.data.uv_layers.new(name="UV")
        layer.data.foreach_set("uv", self.library.base.uv[uv].reshape(-1).astype(np.float32))
        if follow:
            self._parts[skin.name] = used
        return skin

    def _grow_hair(self, skin: Any, rng: np.random.Generator) -> None:
        paths = Comb(_sample_surface(skin), self.eye_height, rng).grow()
        add_strands("hair", paths, look.hair_material("hair", look.HAIR_MELANIN), HAIR_RADII)

    def _grow_brows(self, skin: Any, rng: np.random.Generator) -> Follower:
        tree = BVHTree.FromObject(skin, bpy.context.evaluated_depsgraph_get())

        def hit_skin(x: float, y: float) -> tuple[Floats, Floats] | None:
            place, normal, *_ = tree.ray_cast(Vector((x, -5, y)), Vector((0, 1, 0)))
            return None if place is None else (from_blender(np.array(place)), from_blender(np.array(normal)))

        paths = brow_paths(self.eyes, hit_skin, rng)
        face = self.library.base.vertices_of("body")
        face = face[self.rest[face, 1] > self.eye_height - 1.2]
        distance, nearest = cKDTree(self.rest[face]).query(paths[:, 0], k=4)
        weights = 1 / (distance + 1e-3)
        weights /= weights.sum(1, keepdims=True)
        add_strands("brows", paths, look.hair_material("brows", look.HAIR_MELANIN + 0.10), BROW_RADII)
        return Follower(paths, face[nearest], weights)

    def _paint(self, skin: Any) -> None:
        points = self.rest[self._parts[skin.name]]
        nose = np.array([0.0, self.eye_height - 0.28, 1.5])
        blush = 0.45 * np.exp(-(((points - nose) / [0.12, 0.14, 0.30]) ** 2).sum(1))
        for eye in self.eyes:
            cheek = eye + np.array([np.sign(eye[0]) * 0.16, -0.33, 0.05])
            blush += 0.55 * np.exp(-(((points - cheek) / 0.20) ** 2).sum(1))
        _store(skin, "blush", blush.clip(0, 1))
        _store(skin, "scalp", (above_hairline(points, self.eye_height) / 0.10).clip(0, 1))

    def _add_eyes(self) -> None:
        material = look.eye_material()
        for side, centre in zip("lr", self.eyes, strict=True):
            name = f"helper-{side}-eye"
            ball, used = add_mesh(name, self.rest, self.library.base.quads[name], material, levels=2)
            offset = self.rest[used] - centre
            _store(ball, "gaze_angle", np.arctan2(np.hypot(offset[:, 0], offset[:, 1]), offset[:, 2]))
            self._parts[ball.name] = used

    def _add_mouth(self) -> None:
        base = self.library.base
        front = float(self.rest[base.vertices_of("helper-upper-teeth"), 2].max())
        teeth = look.tooth_material(front)
        tongue = look.plain_material("tongue", (0.34, 0.09, 0.09), 0.45, 0.3)
        for name, material in (("upper-teeth", teeth), ("lower-teeth", teeth), ("tongue", tongue)):
            quads = base.quads[f"helper-{name}"]
            piece, used = add_mesh(name, self.rest, quads, material, levels=2)
            self._parts[piece.name] = used

    def _dress(self) -> None:
        eye_height = self.eye_height
        wool = look.cloth_material("jacket", JACKET, weave=70, sheen=0.25)
        silk = look.cloth_material("blouse", BLOUSE, weave=110, sheen=0.1)
        for patch in (garment.jacket_shell(eye_height), garment.collar(eye_height), *garment.lapels(eye_height)):
            cloth, _ = add_mesh("jacket", patch.points, patch.quads, wool, levels=1)
            thickness = cloth.modifiers.new("thickness", "SOLIDIFY")
            thickness.thickness = 0.022
            thickness.offset = -1.0
        front, edge = garment.blouse(eye_height, self.rest[self.library.base.vertices_of("body")])
        add_mesh("blouse", front.points, front.quads, silk, levels=1)
        binding = garment.tube(edge, 0.020)
        add_mesh("binding", binding.points, binding.quads, silk, levels=1)
