"""A whole model of a few thousand weights, and packets that fit it: 128 px renders in milliseconds."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.maths.feather import feather_mask
from newsstudio_ditto.maths.keypoints import decode_head_pose, pose_keypoints, rotation_matrix
from newsstudio_ditto.maths.paste import PasteWindow, paste_grid, warped_alpha
from newsstudio_ditto.networks.bundle import ModelBundle, seeded_bundle
from newsstudio_ditto.networks.config import (
    AppearanceConfig,
    AudioEncoderConfig,
    BundleConfig,
    DecoderConfig,
    DenseMotionConfig,
    MotionDiffusionConfig,
    MotionExtractorConfig,
    NetworkConfig,
    WarpConfig,
)
from newsstudio_ditto.packet.meta import MetaFields
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import TENSOR_PARTS, FrameSize
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.writer import PartStream, write_part

RENDER_PX = 128
FRAME = FrameSize(height=96, width=128)
WINDOW = PasteWindow(top=8, left=16, height=80, width=88)
GENERATION = "d4" * 32

TINY = BundleConfig(
    networks=NetworkConfig(
        appearance=AppearanceConfig(
            block_expansion=4, num_down_blocks=4, max_features=16, volume_channels=4, volume_depth=4, num_resblocks=1
        ),
        motion_extractor=MotionExtractorConfig(depths=(1, 1, 1, 1), widths=(8, 8, 8, 8)),
        warp=WarpConfig(
            volume_channels=4,
            volume_depth=4,
            volume_px=16,
            feature_channels=8,
            dense_motion=DenseMotionConfig(
                block_expansion=4, max_features=16, num_blocks=2, motion_grid_px=16, mask_kernel=3, occlusion_kernel=3
            ),
        ),
        decoder=DecoderConfig(
            feature_channels=8, channels=16, hidden_channels=8, num_middle_blocks=1, up_channels=(8, 8)
        ),
        motion_diffusion=MotionDiffusionConfig(
            latent=16, num_heads=2, num_layers=1, num_condition_layers=1, feed_forward=32, audio_dim=16
        ),
        audio_encoder=AudioEncoderConfig(
            hidden=16,
            num_layers=1,
            num_heads=2,
            feed_forward=32,
            conv_widths=(8,) * 7,
            position_kernel=8,
            position_groups=4,
        ),
    ),
    num_steps=3,
)


def tiny_bundle(device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, seed: int = 7) -> ModelBundle:
    return seeded_bundle(TINY, seed=seed, device=device, dtype=dtype)


def tiny_packet(
    root: Path,
    bundle: ModelBundle,
    num_frames: int,
    *,
    avatar_id: str = "anna",
    no_face: tuple[int, ...] = (),
    frames: Tensor | None = None,
) -> Packet:
    """A published packet of ``num_frames`` different frames, noise unless given; those in ``no_face`` have no face."""
    store = AvatarStore(root)
    draw = torch.Generator().manual_seed(num_frames)
    parts = {
        "f_s": {"f_s": torch.randn(num_frames, 4, 4, 16, 16, generator=draw).half()},
        "keypoints": _keypoints(num_frames, draw),
        **_paste_parts(num_frames),
        "frames": {"frames": torch.randint(0, 256, (num_frames, 3, *FRAME), dtype=torch.uint8, generator=draw)},
    }
    parts["frames"] = parts["frames"] if frames is None else {"frames": frames}
    for name in TENSOR_PARTS:
        shapes = {key: tuple(tensor.shape) for key, tensor in parts[name].items()}
        stream = PartStream(name, shapes, iter([parts[name]]), stage_version=f"{name}.1")
        write_part(store.bench(avatar_id), stream, generation=GENERATION, avatar_id=avatar_id)
    return store.seal(avatar_id, _meta(num_frames, bundle.fingerprint, no_face, draw))


def _keypoints(num_frames: int, draw: torch.Generator) -> dict[str, Tensor]:
    canonical = (0.3 * torch.randn(1, 21, 3, generator=draw)).expand(num_frames, -1, -1).contiguous()
    poses = {key: torch.randn(num_frames, 66, generator=draw) for key in ("pitch", "yaw", "roll")}
    shift = 0.05 * torch.randn(num_frames, 3, generator=draw)
    expression = 0.05 * torch.randn(num_frames, 63, generator=draw)
    scale = 1.2 + 0.05 * torch.randn(num_frames, 1, generator=draw)
    rotation = rotation_matrix(*(decode_head_pose(poses[key]) for key in ("pitch", "yaw", "roll")))
    posed = pose_keypoints(canonical, rotation, expression.unflatten(1, (21, 3)), scale, shift)
    return {"kp": canonical, **poses, "t": shift, "exp": expression, "scale": scale, "x_s": posed}


def _crop_to_original(num_frames: int) -> np.ndarray:
    index = np.arange(num_frames)
    matrices = np.tile(np.array([[0.6, 0.05, 18.0], [-0.05, 0.6, 12.0], [0.0, 0.0, 1.0]]), (num_frames, 1, 1))
    matrices[:, 0, 2] += index % 3
    return matrices


def _paste_parts(num_frames: int) -> dict[str, dict[str, Tensor]]:
    mask = feather_mask(RENDER_PX, RENDER_PX)
    grids = [paste_grid(np.linalg.inv(matrix), WINDOW, RENDER_PX) for matrix in _crop_to_original(num_frames)]
    alphas = [warped_alpha(grid, mask) for grid in grids]
    return {
        "grids": {"grids": torch.from_numpy(np.stack(grids))},
        "masks": {"masks": torch.from_numpy(np.stack(alphas))},
    }


def _meta(num_frames: int, fingerprint: str, no_face: tuple[int, ...], draw: torch.Generator) -> MetaFields:
    valid = torch.ones(num_frames, dtype=torch.bool)
    valid[list(no_face)] = False
    return MetaFields(
        generation=GENERATION,
        stage_version="meta.1",
        eye_open=torch.rand(num_frames, 2, generator=draw),
        eye_ball=torch.randn(num_frames, 6, generator=draw),
        sc=torch.randn(63, generator=draw),
        crop_to_original=torch.from_numpy(_crop_to_original(num_frames)).float(),
        face_valid=valid,
        paste_window=WINDOW,
        frame_size=FRAME,
        window="tight",
        fps_rule="resampled to 25 frames a second",
        colour="RGB",
        crop=TINY.crop,
        source_hash="e5" * 32,
        model_fingerprint=fingerprint,
    )
