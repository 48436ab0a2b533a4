"""What motion and paste-back need to know of the source besides pictures: eyes, identity, geometry, provenance."""

from collections.abc import Mapping

import numpy as np
import torch

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.maths.eyes import eye_ball_direction, eye_openness
from newsstudio_ditto.packet.meta import MetaFields, Scalar
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.stages import appearance, face_track, grids, keypoints, masks
from newsstudio_ditto.stages.chunks import Floats
from newsstudio_ditto.stages.face_track import FaceTrack
from newsstudio_ditto.units import CROP_SIZE_PX, FRAME_RATE_HZ

_OWN_VERSIONS = " ".join(
    stage.VERSION.removeprefix(face_track.VERSION).strip() for stage in (appearance, keypoints, grids, masks)
)
VERSION = f"{face_track.VERSION} {_OWN_VERSIONS} meta.1"


def describe_source(
    track: FaceTrack,
    options: PacketOptions,
    *,
    sc: list[float],
    frame_size: FrameSize,
    source_hash: str,
    model_fingerprint: str,
    facts: Mapping[str, Scalar],
) -> MetaFields:
    """Put together what the meta file says.

    Args:
        track: the face.
        options: as the packet was prepared with.
        sc: canonical keypoints of frame 0, 63 values.
        frame_size: of the background frames.
        source_hash: sha256 of the anchor.
        model_fingerprint: of the bundle.
        facts: scalars about the source worth keeping.
    """
    landmarks = landmarks_in_crop(track)
    return MetaFields(
        generation=track.generation,
        stage_version=VERSION,
        eye_open=torch.from_numpy(eye_openness(landmarks)),
        eye_ball=torch.from_numpy(eye_ball_direction(landmarks)),
        sc=torch.tensor(sc, dtype=torch.float32),
        crop_to_original=torch.from_numpy(track.crop_to_original),
        face_valid=torch.from_numpy(track.valid),
        paste_window=track.window,
        frame_size=frame_size,
        window=options.window,
        fps_rule="still" if track.num_frames == 1 else f"resampled to {FRAME_RATE_HZ} frames a second",
        colour="RGB, BT.709 primaries, full range",
        crop=track.crop,
        source_hash=source_hash,
        model_fingerprint=model_fingerprint,
        options={
            "max_side_px": options.max_side_px,
            "max_frames": options.max_frames,
            "smoothing_frames": options.smoothing_frames,
            "feather": options.feather,
            **facts,
        },
    )


def landmarks_in_crop(track: FaceTrack) -> Floats:
    """Landmarks (N, 478, 3) in units of the crop side: x and y from its top left corner, z scaled alike."""
    matrix = track.original_to_crop.astype(np.float64)
    plane = np.einsum("nij,npj->npi", matrix[:, :2, :2], track.landmarks[..., :2]) + matrix[:, None, :2, 2]
    scale = np.hypot(matrix[:, 0, 0], matrix[:, 1, 0])[:, None, None]
    depth = track.landmarks[..., 2:] * scale
    return np.asarray(np.concatenate([plane, depth], axis=-1) / CROP_SIZE_PX, np.float32)
