"""What is measured with: a model, and packets of pictures that are smooth as a studio's are."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newsstudio_ditto.maths.feather import feather_mask
from newsstudio_ditto.maths.keypoints import decode_head_pose, pose_keypoints, rotation_matrix
from newsstudio_ditto.maths.paste import PasteWindow, paste_grid, warped_alpha
from newsstudio_ditto.networks.bundle import ModelBundle, load_bundle, seeded_bundle
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.packet.meta import MetaFields
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.writer import PartStream, write_part
from newsstudio_ditto.render.engine import compute_dtype
from newsstudio_ditto.units import SAMPLE_RATE_HZ

AVATAR = "bench"
SEED = 11
FULL_WIDTH = "full-width"
"""Stands for the official model's shapes with seeded random weights."""

_GENERATION = "b3" * 32
_FACE_SHARE = 5 / 9
_CHUNK_FRAMES = 4
_SYLLABLES_PER_S = 8
_CALM = 0.02


def open_model(name: str, device: torch.device) -> ModelBundle:
    """The bundle to measure with: ``full-width``, or any bundle's name."""
    if name == FULL_WIDTH:
        return calm(seeded_bundle(OFFICIAL, SEED, device=device, dtype=compute_dtype(device)))
    return load_bundle(name, device=device, dtype=compute_dtype(device))


def calm(bundle: ModelBundle) -> ModelBundle:
    """The same bundle with motion as small as trained motion is: random weights would throw the keypoints about."""
    with torch.no_grad():
        bundle.motion_diffusion.final_layer.weight.mul_(_CALM)
        bundle.motion_diffusion.final_layer.bias.mul_(_CALM)
    return bundle


def picture_px(bundle: ModelBundle) -> int:
    """Side of what the decoder paints."""
    shape, device = bundle.config.networks.appearance, bundle.device
    volume = torch.zeros(1, shape.volume_channels, shape.volume_depth, shape.volume_px, shape.volume_px, device=device)
    points = torch.zeros(1, 21, 3, device=device)
    with torch.no_grad():
        image: Tensor = bundle.decoder(bundle.warp(volume.to(bundle.dtype), points, points))
    return image.shape[-1]


def make_speech(seconds: float) -> npt.NDArray[np.float32]:
    """(samples,) 16 kHz, a tone that is loud and soft as syllables are, at no regular pace."""
    time_s = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    levels = np.random.default_rng(SEED).random(int(seconds * _SYLLABLES_PER_S) + 2) ** 2
    loudness = np.interp(time_s * _SYLLABLES_PER_S, np.arange(len(levels)), levels)
    return (0.4 * loudness * np.sin(2 * np.pi * 180 * time_s)).astype(np.float32)


@dataclass(frozen=True)
class PacketShape:
    """What a sample packet looks like.

    Args:
        frame: size of the frames, even.
        num_frames: N.
        crop_px: side of what the decoder paints.
    """

    frame: FrameSize
    num_frames: int
    crop_px: int

    @property
    def window(self) -> PasteWindow:
        """The paste window: a square of 5/9 of the shorter side, as a presenter's face takes."""
        side = int(min(self.frame) * _FACE_SHARE) // 4 * 4
        return PasteWindow((self.frame.height - side) // 4 * 2, (self.frame.width - side) // 4 * 2, side, side)

    @property
    def crop_to_original(self) -> npt.NDArray[np.float64]:
        """(3, 3), crop pixels to frame pixels."""
        window = self.window
        scale = window.height / self.crop_px
        return np.array([[scale, 0, window.left], [0, scale, window.top], [0, 0, 1.0]])


def make_packet(root: Path, bundle: ModelBundle, shape: PacketShape, *, avatar_id: str = AVATAR) -> Packet:
    """A published packet below ``root`` that a bundle renders from."""
    store = AvatarStore(root)
    for name, chunks in _parts(bundle, shape).items():
        first = next(chunks)
        shapes = {key: (shape.num_frames, *tensor.shape[1:]) for key, tensor in first.items()}
        stream = PartStream(name, shapes, _chained(first, chunks), stage_version=f"{name}.1")
        write_part(store.bench(avatar_id), stream, generation=_GENERATION, avatar_id=avatar_id)
    return store.seal(avatar_id, _meta(bundle, shape))


def _chained(first: dict[str, Tensor], rest: Iterator[dict[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    yield first
    yield from rest


def _parts(bundle: ModelBundle, shape: PacketShape) -> dict[str, Iterator[dict[str, Tensor]]]:
    window = shape.window
    grid = torch.from_numpy(paste_grid(np.linalg.inv(shape.crop_to_original), window, shape.crop_px))
    alpha = torch.from_numpy(warped_alpha(grid.numpy(), feather_mask(shape.crop_px, shape.crop_px)))
    form = bundle.config.networks.appearance
    draw = torch.Generator().manual_seed(SEED)
    volume = torch.randn(
        _CHUNK_FRAMES, form.volume_channels, form.volume_depth, form.volume_px, form.volume_px, generator=draw
    ).half()
    return {
        "f_s": _repeated("f_s", volume, shape.num_frames),
        "keypoints": iter([_keypoints(shape.num_frames, draw)]),
        "grids": _repeated("grids", grid.expand(_CHUNK_FRAMES, -1, -1, -1), shape.num_frames),
        "masks": _repeated("masks", alpha.expand(_CHUNK_FRAMES, -1, -1, -1), shape.num_frames),
        "frames": _frames(shape),
    }


def _repeated(name: str, rows: Tensor, num_frames: int) -> Iterator[dict[str, Tensor]]:
    for start in range(0, num_frames, len(rows)):
        yield {name: rows[: num_frames - start].contiguous()}


def _frames(shape: PacketShape) -> Iterator[dict[str, Tensor]]:
    """A lit wall with a little noise, the light moving slowly: easy to encode, but no two frames alike."""
    height, width = shape.frame
    y, x = torch.linspace(0, 1, height)[:, None], torch.linspace(0, 1, width)[None]
    noise = torch.randn(3, height, width, generator=torch.Generator().manual_seed(SEED))
    for index in range(shape.num_frames):
        light = 90 + 80 * torch.exp(-((x - 0.3 - 0.002 * index) ** 2 + (y - 0.4) ** 2) * 4)
        picture = torch.stack([light, 0.9 * light + 10 * x, 0.8 * light + 20 * y]) + 1.5 * noise.roll(7 * index, dims=2)
        yield {"frames": picture.clamp(0, 255).to(torch.uint8)[None]}


def _keypoints(num_frames: int, draw: torch.Generator) -> dict[str, Tensor]:
    canonical = (0.3 * torch.randn(1, 21, 3, generator=draw)).expand(num_frames, -1, -1).contiguous()
    poses = {key: torch.randn(num_frames, 66, generator=draw) for key in ("pitch", "yaw", "roll")}
    shift, expression = torch.zeros(num_frames, 3), 0.02 * torch.randn(num_frames, 63, generator=draw)
    scale = torch.full((num_frames, 1), 1.3)
    rotation = rotation_matrix(*(decode_head_pose(poses[key]) for key in ("pitch", "yaw", "roll")))
    posed = pose_keypoints(canonical, rotation, expression.view(-1, 21, 3), scale, shift)
    return {"kp": canonical, **poses, "t": shift, "exp": expression, "scale": scale, "x_s": posed}


def _meta(bundle: ModelBundle, shape: PacketShape) -> MetaFields:
    count, draw = shape.num_frames, torch.Generator().manual_seed(SEED)
    return MetaFields(
        generation=_GENERATION,
        stage_version="meta.1",
        eye_open=torch.rand(count, 2, generator=draw),
        eye_ball=torch.randn(count, 6, generator=draw),
        sc=torch.randn(63, generator=draw),
        crop_to_original=torch.from_numpy(np.tile(shape.crop_to_original, (count, 1, 1))).float(),
        face_valid=torch.ones(count, dtype=torch.bool),
        paste_window=shape.window,
        frame_size=shape.frame,
        window="tight",
        fps_rule="25",
        colour="RGB",
        crop=bundle.config.crop,
        source_hash="00" * 32,
        model_fingerprint=bundle.fingerprint,
    )
