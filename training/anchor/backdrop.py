"""The out-of-focus newsroom behind the anchor."""

import bpy
import numpy as np
from scipy.ndimage import gaussian_filter

from training.anchor.mesh import Floats

BACKDROP_DISTANCE = 13.0
BACKDROP_HALF_WIDTH = 7.0


def _stripe(x: Floats, centre: float, half_width: float, softness: float) -> Floats:
    edge = (half_width - np.abs(x - centre)) / softness
    return np.asarray(np.clip(edge + 0.5, 0, 1))


def backdrop_picture(size: int = 1024) -> Floats:
    """(size, size, 3) linear light of an out-of-focus newsroom wall, bottom row first, x and y in -7..7 decimetres."""
    y, x = np.mgrid[0:size, 0:size] * (2 * BACKDROP_HALF_WIDTH / (size - 1)) - BACKDROP_HALF_WIDTH
    halo = np.exp(-(((x + 0.3) / 3.4) ** 2) - ((y - 0.2) / 3.0) ** 2)
    wall = np.array([0.018, 0.040, 0.090]) * (1.0 + 0.9 * halo)[..., None]
    for centre, half_width, colour in (
        (-2.75, 0.95, (0.070, 0.19, 0.36)),
        (0.95, 1.00, (0.050, 0.15, 0.33)),
        (4.35, 0.85, (0.070, 0.20, 0.37)),
        (-6.2, 0.80, (0.060, 0.17, 0.34)),
    ):
        panel = _stripe(x, centre, half_width, 0.1) * (0.72 + 0.28 * np.clip((y + 4) / 7, 0, 1))
        wall = wall + panel[..., None] * np.array(colour)
    for centre, colour, at in (
        (2.55, (0.55, 0.70, 0.85), x),
        (-1.25, (0.10, 0.20, 0.32), x),
        (-1.72, (0.75, 0.60, 0.38), y),
    ):
        wall = np.maximum(wall, _stripe(at, centre, 0.055, 0.03)[..., None] * np.array(colour))
    below = np.clip((-1.80 - y) / 0.1, 0, 1)[..., None]
    wall = wall * (1 - 0.55 * below)
    blur = 0.10 * size / (2 * BACKDROP_HALF_WIDTH)
    return np.stack([gaussian_filter(wall[..., channel], blur) for channel in range(3)], -1)


def add_backdrop(eye_height: float) -> None:
    """A glowing picture behind the anchor; soft by itself, so that it needs no depth of field and has no noise."""
    picture = backdrop_picture()
    size = picture.shape[0]
    image = bpy.data.images.new("backdrop", size, size, float_buffer=True)
    image.colorspace_settings.name = "Linear Rec.709"
    pixels = np.concatenate([picture, np.ones((size, size, 1))], -1).astype(np.float32)
    image.pixels.foreach_set(pixels.reshape(-1))
    image.update()
    image.pack()
    half, depth = BACKDROP_HALF_WIDTH, BACKDROP_DISTANCE
    corners = [(x, depth, eye_height + z) for x, z in ((-half, -half), (half, -half), (half, half), (-half, half))]
    mesh = bpy.data.meshes.new("backdrop")
    mesh.from_pydata(corners, [], [(0, 1, 2, 3)])
    layer = mesh.uv_layers.new(name="UV")
    layer.data.foreach_set("uv", np.array([0, 0, 1, 0, 1, 1, 0, 1], np.float32))
    material = bpy.data.materials.new("backdrop")
    material.use_nodes = True
    tree = material.node_tree
    tree.nodes.clear()
    texture = tree.nodes.new("ShaderNodeTexImage")
    texture.image = image
    glow = tree.nodes.new("ShaderNodeEmission")
    tree.links.new(texture.outputs[0], glow.inputs[0])
    tree.links.new(glow.outputs[0], tree.nodes.new("ShaderNodeOutputMaterial").inputs[0])
    material.cycles.emission_sampling = "NONE"
    mesh.materials.append(material)
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("backdrop", mesh))
