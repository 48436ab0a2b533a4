"""Rasterise heads with OpenGL through EGL. Needs ``moderngl``; any EGL device does, a software one is slow."""

import math

import moderngl
import numpy as np
from scipy.sparse import csr_matrix

from training import shaders
from training.hair import (
    BALD_SHARE,
    STRAND_POINTS,
    Brows,
    grow_brows,
    grow_hair,
    head_surface,
    ribbon_triangles,
    ribbon_vertices,
)
from training.head_model import KEYPOINT_VERTICES, Camera, HeadPack, Identity, Pose, rotation
from training.look import BACKGROUND_PX, Look, random_background, random_look

SAMPLES = 8
NUM_STRANDS = 7000
HAIR_WIDTH, BROW_WIDTH = 0.011, 0.0055
CLOTH_OFFSET = 0.1
NEAR, FAR = 2.0, 60.0
SKIN, EYE, TEETH, TONGUE, CLOTH = 0, 1, 2, 3, 5
MATERIALS = {
    "body": SKIN,
    "helper-l-eye": EYE,
    "helper-r-eye": EYE,
    "helper-upper-teeth": TEETH,
    "helper-lower-teeth": TEETH,
    "helper-tongue": TONGUE,
}


def split_quads(quads: np.ndarray) -> np.ndarray:
    """Quads (F, 4) -> triangles (2F, 3)."""
    return np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


class VertexNormals:
    """Area-weighted vertex normals of a fixed triangle list."""

    def __init__(self, triangles: np.ndarray, num_vertices: int) -> None:
        self._triangles = triangles
        num = len(triangles)
        ones = np.ones(3 * num, np.float32)
        self._gather = csr_matrix((ones, (triangles.T.ravel(), np.tile(np.arange(num), 3))), shape=(num_vertices, num))

    def __call__(self, shape: np.ndarray) -> np.ndarray:
        """Unit normals (V, 3)."""
        a, b, c = (shape[self._triangles[:, i]] for i in range(3))
        normals = self._gather @ np.cross(b - a, c - a)
        return normals / (np.linalg.norm(normals, axis=1, keepdims=True) + 1e-9)


def projection_matrix(fov_rad: float) -> np.ndarray:
    """Perspective with y pointing down, so that rows are read top first."""
    t = 1 / math.tan(fov_rad / 2)
    depth = ((FAR + NEAR) / (NEAR - FAR), 2 * FAR * NEAR / (NEAR - FAR))
    return np.array([[t, 0, 0, 0], [0, -t, 0, 0], [0, 0, *depth], [0, 0, -1, 0]], np.float32)


class HeadRenderer:
    """One GL context. Call :meth:`dress` for a person, then :meth:`render` per frame."""

    def __init__(self, pack: HeadPack, size_px: int) -> None:
        self.pack = pack
        self.size_px = size_px
        self.context = moderngl.create_standalone_context(backend="egl")
        size = (size_px, size_px)
        samples = min(SAMPLES, self.context.max_samples)
        colour = self.context.renderbuffer(size, 4, samples=samples)
        self._multisampled = self.context.framebuffer([colour], self.context.depth_renderbuffer(size, samples=samples))
        self._resolved = self.context.framebuffer([self.context.renderbuffer(size, 4)])
        self._skin = self.context.program(shaders.SKIN_VERTEX, shaders.FRAGMENT)
        self._ribbon = self.context.program(shaders.RIBBON_VERTEX, shaders.FRAGMENT)
        self._backdrop = self.context.program(shaders.BACKGROUND_VERTEX, shaders.BACKGROUND_FRAGMENT)
        self._textures()
        self._static_parts()
        self._person: list[moderngl.Buffer | moderngl.VertexArray] = []

    def _textures(self) -> None:
        for unit, (uniform, name) in enumerate((("lips_mask", "lips"), ("mouth_mask", "inside-mouth"))):
            mask = self.pack.masks[name]
            texture = self.context.texture(mask.shape[::-1], 1, mask.tobytes())
            texture.build_mipmaps()
            texture.use(unit)
            for program in (self._skin, self._ribbon):
                self._set(program, uniform, unit)
        self._background = self.context.texture((BACKGROUND_PX, BACKGROUND_PX), 3)
        self._background.use(2)
        self._backdrop["background"] = 2
        corners = self.context.buffer(np.array([-1, -1, 1, -1, -1, 1, 1, 1], np.float32).tobytes())
        self._sheet = self.context.vertex_array(self._backdrop, [(corners, "2f", "corner")])

    def _static_parts(self) -> None:
        vertex, texcoord, kind, offset, triangles = [], [], [], [], []
        base = 0
        for name, material in (*MATERIALS.items(), ("body", CLOTH)):
            faces = self.pack.faces[name]
            textured = name == "body"
            key = np.stack([faces[..., 0].ravel(), faces[..., 1].ravel() * textured], 1)
            unique, inverse = np.unique(key, axis=0, return_inverse=True)
            vertex.append(unique[:, 0])
            texcoord.append(self.pack.texture[unique[:, 1]] if textured else np.zeros((len(unique), 2)))
            kind.append(np.full(len(unique), material))
            offset.append(np.full(len(unique), CLOTH_OFFSET if material == CLOTH else 0.0))
            triangles.append(split_quads(inverse.reshape(-1, 4)) + base)
            base += len(unique)
        self._vertex, self._texcoord = np.concatenate(vertex), np.concatenate(texcoord)
        self._kind, self._offset = np.concatenate(kind), np.concatenate(offset).astype(np.float32)
        self._triangles = triangles
        quads = np.concatenate([split_quads(faces[..., 0]) for faces in self.pack.faces.values()])
        self._normals = VertexNormals(quads, len(self.pack.vertices))
        self._moving = self.context.buffer(reserve=base * 24)

    @staticmethod
    def _set(program: moderngl.Program, name: str, value: object) -> None:
        if name in program:
            program[name] = value

    def _attributes(self, shape: np.ndarray, eye_height: float) -> np.ndarray:
        """Rest position, and per material: blush, angle from the gaze axis, or height of the collar."""
        rows = np.zeros((len(self._vertex), 4), np.float32)
        rows[:, :3] = shape[self._vertex]
        skin = self._kind == SKIN
        blush = 0.4 * np.exp(-(((rows[skin, :3] - [0, eye_height - 0.28, 1.5]) / [0.12, 0.14, 0.3]) ** 2).sum(1))
        self.eye_centres = []
        for eye in self.pack.eye_vertices:
            low, high = shape[eye].min(0), shape[eye].max(0)
            centre, radius = (low + high) / 2, (high[1] - low[1]) / 2
            self.eye_centres.append(centre)
            cheek = centre + np.array([np.sign(centre[0]) * 0.16, -0.33, 0.05])
            blush += 0.5 * np.exp(-(((rows[skin, :3] - cheek) / 0.2) ** 2).sum(1))
            mine = (self._kind == EYE) & np.isin(self._vertex, eye)
            away = (rows[mine, :3] - centre) / radius
            rows[mine, 3] = np.arctan2(np.hypot(away[:, 0], away[:, 1]), away[:, 2])
        rows[skin, 3] = blush
        rows[self._kind == CLOTH, 3] = eye_height - 1.62
        return rows

    def dress(self, random: np.random.Generator, identity: Identity, look: Look | None = None) -> np.ndarray:
        """Take on a person with random hair, brows and background; returns the rest shape (V, 3)."""
        for item in self._person:
            item.release()
        look = look or random_look(random, identity)
        self.look, self.shape = look, self.pack.rest_shape(identity)
        self.eye_height = self.pack.eye_height(self.shape)
        rows = self._attributes(self.shape, self.eye_height)
        cloth = self._triangles[-1]
        cloth = cloth[self.shape[self._vertex[cloth]][..., 1].max(1) < self.eye_height - 1.47]
        triangles = np.concatenate([*self._triangles[:-1], cloth]).astype(np.int32)
        static = np.concatenate([self._texcoord, rows, self._kind[:, None]], 1).astype(np.float32)
        fixed, order = self.context.buffer(static.tobytes()), self.context.buffer(triangles.tobytes())
        streams = [(self._moving, "3f 3f", "position", "normal"), (fixed, "2f 4f 1f", "texcoord", "extra", "kind")]
        self._body = self.context.vertex_array(self._skin, streams, order)
        self._person = [fixed, order, self._body]
        self._grow(random)
        self._background.write(random_background(random).tobytes())
        self._uniforms(look)
        return self.shape

    def _ribbons(
        self, vertices: np.ndarray | int, num: int, points: int
    ) -> tuple[moderngl.Buffer, moderngl.VertexArray]:
        buffer = (
            self.context.buffer(reserve=vertices)
            if isinstance(vertices, int)
            else self.context.buffer(vertices.tobytes())
        )
        order = self.context.buffer(ribbon_triangles(num, points).tobytes())
        names = ("position", "tangent", "extra", "side_width")
        array = self.context.vertex_array(self._ribbon, [(buffer, "3f 3f 4f 2f", *names)], order)
        self._person += [buffer, order, array]
        return buffer, array

    def _grow(self, random: np.random.Generator) -> None:
        surface = head_surface(self.shape, self._normals(self.shape), self.pack, self.eye_height)
        centre = np.array([0, self.eye_height + 0.3, 0.25])
        strands = grow_hair(random, self.shape, surface, self.pack, NUM_STRANDS)
        rows = ribbon_vertices(strands, HAIR_WIDTH, random.random(len(strands)), centre)
        _, hair = self._ribbons(rows, len(strands), STRAND_POINTS)
        self._hair = None if random.random() < BALD_SHARE else hair
        self._brows: Brows = grow_brows(random, surface, self.eye_centres)
        num = len(self._brows.strands)
        self._brow_rows, self._brow_array = self._ribbons(num * 8 * 48, num, 4)
        self._hair_centre = centre

    def _uniforms(self, look: Look) -> None:
        values = look.uniforms | {
            "eye_height": self.eye_height,
            "mouth_front": float(self.shape[KEYPOINT_VERTICES[0], 2]),
        }
        for program in (self._skin, self._ribbon):
            for name, value in values.items():
                self._set(program, name, value)
            for name, array in (
                ("lights", look.lights + np.array([0, self.eye_height, 0])),
                ("light_colours", look.light_colours),
            ):
                if name in program:
                    program[name].write(array.astype(np.float32).tobytes())

    def _move(self, coefficients: dict[str, float]) -> None:
        moved = self.pack.express(self.shape, coefficients)
        normals = self._normals(moved)[self._vertex]
        positions = moved[self._vertex] + normals * self._offset[:, None]
        self._moving.write(np.concatenate([positions, normals], 1).astype(np.float32).tobytes())
        brows = self._brows.strands + (moved - self.shape)[self._brows.vertices][:, None]
        shade = np.full(len(brows), 0.3)
        self._brow_rows.write(ribbon_vertices(brows, BROW_WIDTH, shade, self._hair_centre).tobytes())

    def render(self, coefficients: dict[str, float], pose: Pose, camera: Camera) -> np.ndarray:
        """One frame (S, S, 3) uint8 RGB."""
        self._move(coefficients)
        self._multisampled.use()
        self._multisampled.clear(0, 0, 0, 1)
        self.context.disable(moderngl.DEPTH_TEST)
        self._sheet.render(moderngl.TRIANGLE_STRIP)
        self.context.enable(moderngl.DEPTH_TEST)
        turn = np.ascontiguousarray(rotation(pose.angles_deg).T, np.float32)
        for program in (self._skin, self._ribbon):
            program["projection"].write(np.ascontiguousarray(projection_matrix(camera.fov_rad).T).tobytes())
            program["turn"].write(turn.tobytes())
            program["eye"] = (camera.x, self.eye_height + camera.below_eyes, camera.distance)
            program["shift"] = pose.shift
        self._body.render()
        hair = self.look.uniforms["hair"]
        if self._hair is not None:
            self._ribbon["hair"] = hair
            self._hair.render()
        self._ribbon["hair"] = tuple(0.7 * channel for channel in hair)
        self._brow_array.render()
        self.context.copy_framebuffer(self._resolved, self._multisampled)
        raw = self._resolved.read(components=3, alignment=1)
        return np.frombuffer(raw, np.uint8).reshape(self.size_px, self.size_px, 3)
