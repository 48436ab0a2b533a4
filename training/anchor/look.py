"""Materials of the anchor, as Blender shader graphs."""

from typing import Any

import bpy
import numpy as np

from training.anchor.mesh import ShapeLibrary

Colour = tuple[float, float, float]

SKIN: Colour = (0.62, 0.36, 0.25)
SCALP: Colour = (0.055, 0.030, 0.020)
SCALP_SHADE = 0.88
LIPS: Colour = (0.50, 0.16, 0.15)
INNER_MOUTH: Colour = (0.22, 0.035, 0.04)
IRIS: Colour = (0.05, 0.045, 0.03)
HAIR_MELANIN = 0.72
HAIR_REDNESS = 0.35
TOOTH: Colour = (0.46, 0.41, 0.345)
TOOTH_WIDTH = 0.085


def _scaled(colour: Colour, *by: float) -> Colour:
    red, green, blue = np.array(colour) * by
    return (float(red), float(green), float(blue))


class Graph:
    """A material's node tree with the few operations used here; sockets are passed as values."""

    def __init__(self, name: str) -> None:
        self.material = bpy.data.materials.new(name)
        self.material.use_nodes = True
        self.tree = self.material.node_tree
        self.shader = self.tree.nodes["Principled BSDF"]

    def node(self, kind: str) -> Any:
        """A new node of the type name ``kind``."""
        return self.tree.nodes.new(kind)

    def connect(self, value: Any, socket: Any) -> None:
        """Link a socket, or store a plain value."""
        if hasattr(value, "is_output"):
            self.tree.links.new(value, socket)
        elif isinstance(value, tuple) and len(socket.default_value) == 4:
            socket.default_value = (*value, 1.0)
        else:
            socket.default_value = value

    def set(self, **inputs: Any) -> None:
        """Set or link inputs of the principled shader; underscores stand for spaces."""
        for name, value in inputs.items():
            self.connect(value, self.shader.inputs[name.replace("_", " ")])

    def mix(self, share: Any, first: Any, second: Any) -> Any:
        """Colour between ``first`` (share 0) and ``second`` (share 1)."""
        node = self.node("ShaderNodeMix")
        node.data_type = "RGBA"
        for socket, value in ((0, share), (6, first), (7, second)):
            self.connect(value, node.inputs[socket])
        return node.outputs[2]

    def math(self, operation: str, first: Any, second: Any = 0.0) -> Any:
        """A scalar operation."""
        node = self.node("ShaderNodeMath")
        node.operation = operation
        self.connect(first, node.inputs[0])
        self.connect(second, node.inputs[1])
        return node.outputs[0]

    def ramp(self, value: Any, low: float, high: float) -> Any:
        """``value`` rescaled so that low..high becomes 0..1, clamped."""
        node = self.node("ShaderNodeMapRange")
        node.inputs[1].default_value = low
        node.inputs[2].default_value = high
        self.connect(value, node.inputs[0])
        return node.outputs[0]

    def noise(self, scale: float, detail: float) -> Any:
        """Scalar noise over object coordinates."""
        node = self.node("ShaderNodeTexNoise")
        node.inputs["Scale"].default_value = scale
        node.inputs["Detail"].default_value = detail
        self.connect(self.object_position(), node.inputs["Vector"])
        return node.outputs[0]

    def object_position(self) -> Any:
        """Object coordinates (z up)."""
        return self.node("ShaderNodeTexCoord").outputs["Object"]

    def attribute(self, name: str) -> Any:
        """A float stored on the mesh."""
        node = self.node("ShaderNodeAttribute")
        node.attribute_name = name
        return node.outputs["Fac"]

    def image(self, path: str, colour_space: str) -> Any:
        """Colour of an image over the mesh's texture coordinates."""
        node = self.node("ShaderNodeTexImage")
        node.image = bpy.data.images.load(path)
        node.image.colorspace_settings.name = colour_space
        return node.outputs[0]

    def bump(self, height: Any, strength: float, distance: float) -> None:
        """Perturb the shader's normal."""
        node = self.node("ShaderNodeBump")
        node.inputs["Strength"].default_value = strength
        node.inputs["Distance"].default_value = distance
        self.connect(height, node.inputs["Height"])
        self.connect(node.outputs[0], self.shader.inputs["Normal"])


def skin_material(library: ShapeLibrary) -> Any:
    """Skin with lips and inner mouth; a blush and the shade under the hair come from ``blush`` and ``scalp``."""
    graph = Graph("skin")
    colour = graph.mix(graph.ramp(graph.noise(2.2, 3), 0.35, 0.7), SKIN, _scaled(SKIN, 1.04, 0.93, 0.90))
    colour = graph.mix(graph.ramp(graph.noise(60, 4), 0.45, 0.8), colour, _scaled(SKIN, 0.86, 0.72, 0.66))
    colour = graph.mix(graph.attribute("blush"), colour, _scaled(SKIN, 1.0, 0.66, 0.66))
    lips = graph.image(str(library.texture("lips")), "Non-Color")
    colour = graph.mix(lips, colour, LIPS)
    colour = graph.mix(graph.image(str(library.texture("inside-mouth")), "Non-Color"), colour, INNER_MOUTH)
    roughness = graph.mix(lips, (0.48, 0.48, 0.48), (0.32, 0.32, 0.32))
    colour = graph.mix(graph.math("MULTIPLY", graph.attribute("scalp"), SCALP_SHADE), colour, SCALP)
    graph.set(Base_Color=colour, Roughness=roughness, Subsurface_Weight=0.35, Subsurface_Scale=0.035)
    graph.set(Specular_IOR_Level=0.42)
    graph.shader.inputs["Subsurface Radius"].default_value = (1, 0.35, 0.18)
    graph.bump(graph.noise(95, 3), 0.10, 0.01)
    return graph.material


def eye_material() -> Any:
    """Pupil, iris, limbal ring and white by the angle from the gaze axis, attribute ``gaze_angle`` (radians)."""
    graph = Graph("eye")
    angle = graph.attribute("gaze_angle")
    colour = graph.mix(graph.ramp(graph.noise(40, 3), 0.3, 0.7), IRIS, _scaled(IRIS, 2.4, 2.45, 2.7))
    for low, high, ring in ((0.38, 0.46, (0.012, 0.010, 0.010)), (0.455, 0.50, (0.62, 0.57, 0.53))):
        colour = graph.mix(graph.ramp(angle, low, high), colour, ring)
    colour = graph.mix(graph.ramp(angle, 0.20, 0.225), (0.003, 0.003, 0.003), colour)
    colour = graph.mix(graph.ramp(angle, 0.75, 1.3), colour, (0.62, 0.35, 0.30))
    graph.set(Base_Color=colour, Roughness=0.08, Coat_Weight=1.0, Coat_Roughness=0.02)
    return graph.material


def tooth_material(front_depth: float) -> Any:
    """Muted teeth: gaps by width, and darker with depth behind ``front_depth`` (z of the incisors) and to the sides."""
    graph = Graph("teeth")
    split = graph.node("ShaderNodeSeparateXYZ")
    graph.connect(graph.object_position(), split.inputs[0])
    wave = graph.math("ABSOLUTE", graph.math("SINE", graph.math("MULTIPLY", split.outputs[0], np.pi / TOOTH_WIDTH)))
    colour = graph.mix(graph.ramp(wave, 0.0, 0.26), _scaled(TOOTH, 0.62, 0.55, 0.50), TOOTH)
    inward = graph.math("ADD", split.outputs[1], front_depth)
    colour = graph.mix(graph.ramp(inward, 0.02, 0.34), colour, _scaled(TOOTH, 0.16, 0.12, 0.11))
    graph.set(Base_Color=colour, Roughness=0.38, Specular_IOR_Level=0.25)
    return graph.material


def plain_material(name: str, colour: Colour, roughness: float, specular: float = 0.5) -> Any:
    """One even colour."""
    graph = Graph(name)
    graph.set(Base_Color=colour, Roughness=roughness, Specular_IOR_Level=specular)
    return graph.material


def cloth_material(name: str, colour: Colour, *, weave: float, sheen: float) -> Any:
    """Cloth with a fine weave and soft light at grazing angles."""
    graph = Graph(name)
    tint = graph.mix(graph.ramp(graph.noise(weave, 2), 0.35, 0.65), _scaled(colour, 0.82, 0.82, 0.82), colour)
    graph.set(Base_Color=tint, Roughness=0.85, Specular_IOR_Level=0.18, Sheen_Weight=sheen, Sheen_Roughness=0.5)
    graph.bump(graph.noise(weave, 2), 0.12, 0.01)
    return graph.material


def hair_material(name: str, melanin: float) -> Any:
    """Physically based hair."""
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    tree = material.node_tree
    tree.nodes.clear()
    shader = tree.nodes.new("ShaderNodeBsdfHairPrincipled")
    shader.parametrization = "MELANIN"
    for socket, value in (
        ("Melanin", melanin),
        ("Melanin Redness", HAIR_REDNESS),
        ("Roughness", 0.32),
        ("Random Color", 0.25),
    ):
        shader.inputs[socket].default_value = value
    tree.links.new(shader.outputs[0], tree.nodes.new("ShaderNodeOutputMaterial").inputs[0])
    return material
