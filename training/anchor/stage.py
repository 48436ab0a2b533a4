"""Studio around the anchor: render settings, backdrop, lights and cameras."""

import math
from dataclasses import dataclass
from typing import Any

import bpy
from mathutils import Vector

CAMERA_DISTANCE = 16.0


@dataclass(frozen=True)
class Framing:
    """A frontal camera: field of view in degrees and height of its axis relative to the eyes (decimetres)."""

    fov_deg: float
    height_from_eyes: float


FACE = Framing(10.5, -0.35)
WIDE = Framing(14.5, -0.45)


@dataclass(frozen=True)
class Quality:
    """How well to render.

    Attributes:
        samples: most samples per pixel.
        noise: pixels whose estimated noise is below this get no more samples.
        seed: the same in every frame, so that what rests keeps its grain.
        denoise_on_cpu: even where the graphics device renders.
    """

    samples: int
    noise: float
    seed: int
    denoise_on_cpu: bool


def fresh_scene() -> Any:
    """An empty Cycles scene."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    cycles = scene.cycles
    cycles.use_light_tree = False
    cycles.max_bounces = 6
    cycles.transparent_max_bounces = 8
    scene.cycles_curves.shape = "RIBBONS"
    scene.view_settings.view_transform = "AgX"
    scene.view_settings.look = "AgX - Medium High Contrast"
    scene.render.image_settings.file_format = "PNG"
    return scene


def choose_device(scene: Any, device: str, threads: int) -> None:
    """Render on the ``cpu`` with so many threads, or on the first ``cuda`` device.

    Raises:
        RuntimeError: no CUDA device is there.
    """
    scene.render.threads_mode = "FIXED"
    scene.render.threads = threads
    scene.render.use_persistent_data = True
    scene.cycles.device = "GPU" if device == "cuda" else "CPU"
    if device != "cuda":
        return
    preferences = bpy.context.preferences.addons["cycles"].preferences
    preferences.compute_device_type = "CUDA"
    graphics = [entry for entry in preferences.get_devices_for_type("CUDA") if entry.type == "CUDA"]
    if not graphics:
        raise RuntimeError("Cycles finds no CUDA device: use --device cpu")
    for entry in preferences.devices:
        entry.use = entry is graphics[0]


def set_quality(scene: Any, quality: Quality) -> None:
    """Set sampling, and the denoiser that colour and direction of the surfaces guide."""
    cycles = scene.cycles
    cycles.samples = quality.samples
    cycles.use_adaptive_sampling = True
    cycles.adaptive_threshold = quality.noise
    cycles.seed = quality.seed
    cycles.use_animated_seed = False
    cycles.use_denoising = True
    cycles.denoiser = "OPENIMAGEDENOISE"
    cycles.denoising_use_gpu = cycles.device == "GPU" and not quality.denoise_on_cpu
    cycles.denoising_input_passes = "RGB_ALBEDO_NORMAL"
    cycles.denoising_prefilter = "ACCURATE"
    cycles.denoising_quality = "BALANCED"


def _area_light(name: str, at: Vector, towards: Vector, size: float, watts: float, colour: tuple[float, ...]) -> None:
    light = bpy.data.lights.new(name, "AREA")
    light.size = size
    light.energy = watts
    light.color = colour
    lamp = bpy.data.objects.new(name, light)
    lamp.location = at
    lamp.rotation_euler = (towards - at).to_track_quat("-Z", "Y").to_euler()
    bpy.context.scene.collection.objects.link(lamp)


def add_lights(eye_height: float) -> None:
    """Warm key, cool fill, two rims and a dim sky."""
    world = bpy.data.worlds.new("studio")
    bpy.context.scene.world = world
    world.use_nodes = True
    sky = world.node_tree.nodes["Background"]
    sky.inputs[0].default_value = (0.25, 0.30, 0.38, 1)
    sky.inputs[1].default_value = 0.35
    face = Vector((0, -0.8, eye_height))
    crown = Vector((0, 0, eye_height + 0.3))
    _area_light("key", Vector((-5, -9, eye_height + 5)), face, 4, 900, (1, 0.95, 0.88))
    _area_light("fill", Vector((6, -8, eye_height + 1)), face, 5, 320, (0.85, 0.92, 1))
    _area_light("rim left", Vector((4, 5, eye_height + 4)), crown, 2, 420, (0.8, 0.9, 1))
    _area_light("rim right", Vector((-5, 5, eye_height + 3)), crown, 2, 260, (1, 0.95, 0.9))


def add_camera(eye_height: float) -> None:
    """The scene's camera on the face axis; aim it with :func:`frame`."""
    lens = bpy.data.cameras.new("camera")
    lens.sensor_fit = "AUTO"
    lens.lens_unit = "FOV"
    camera = bpy.data.objects.new("camera", lens)
    camera.rotation_euler = (math.pi / 2, 0, 0)
    camera.location = (0, -CAMERA_DISTANCE, eye_height)
    scene = bpy.context.scene
    scene.collection.objects.link(camera)
    scene.camera = camera


def frame(camera: Any, framing: Framing, eye_height: float) -> None:
    """Set field of view and height."""
    camera.data.angle = math.radians(framing.fov_deg)
    camera.location[2] = eye_height + framing.height_from_eyes
