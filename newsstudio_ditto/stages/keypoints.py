"""The implicit 3D keypoints of every frame, smoothed over the clip, and posed."""

import logging
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.maths.affine import apply_affine
from newsstudio_ditto.maths.keypoints import decode_head_pose, pose_keypoints, rotation_matrix
from newsstudio_ditto.maths.smoothing import smooth_rows
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.writer import PartStream
from newsstudio_ditto.stages import face_track
from newsstudio_ditto.stages.chunks import Chunk, Flags, Floats, counted, fill_gaps, spans
from newsstudio_ditto.stages.crops import read_crops, to_network_input
from newsstudio_ditto.stages.face_track import FaceTrack
from newsstudio_ditto.units import CROP_SIZE_PX, NUM_KEYPOINTS

log = logging.getLogger(__name__)

VERSION = f"{face_track.VERSION} keypoints.1"
FIT_LIMIT_PERCENT = 6.5
"""Keypoints further than this from the face's landmarks, of the distance between the eyes, do not fit the face."""

_EYE_CORNERS = (33, 263)
_HEADS = {
    "kp": "canonical",
    "pitch": "pitch",
    "yaw": "yaw",
    "roll": "roll",
    "t": "translation",
    "exp": "expression",
    "scale": "scale",
}


def stream_keypoints(frames: Tensor, track: FaceTrack, bundle: ModelBundle, options: PacketOptions) -> PartStream:
    """Run the motion extractor over every face crop, smooth what it says over time, and pose the keypoints.

    Args:
        frames: (N, 3, H, W) uint8.
        track: crop geometry and which frames show a face; the others get values interpolated from those.
        bundle: its motion extractor runs where the bundle lives.
        options: width of the smoothing.

    Returns:
        ``kp`` (N, 21, 3), ``pitch``, ``yaw``, ``roll`` (N, 66) logits, ``t`` (N, 3), ``exp`` (N, 63),
        ``scale`` (N, 1) and ``x_s`` (N, 21, 3), all float32. The header's ``sc`` is frame 0's canonical
        keypoints before smoothing, 63 values, and ``fit_percent`` what :func:`fit_percent` says, or None.
    """
    raw = {name: _fill(rows, track.valid) for name, rows in _extract(frames, track, bundle).items()}
    fit = fit_percent(_pose(raw)["x_s"].numpy(), track, bundle.config.keypoint_landmarks)
    if fit is not None and fit > FIT_LIMIT_PERCENT:
        log.warning("the model's keypoints miss the face", extra={"fit_percent": fit, "limit": FIT_LIMIT_PERCENT})
    return stream_motion(raw, options.smoothing_frames, sc=raw["kp"][0], fit=fit)


def fit_percent(keypoints: Floats, track: FaceTrack, landmarks: tuple[int, ...] | None) -> float | None:
    """How far a model's keypoints lie from where the landmark network sees the same points of the face.

    A model that has never seen such a face (a drawing, a mask, an unusual head) misses it and cannot move it well.

    Args:
        keypoints: (N, 21, 3) posed, crop coordinates -1..1.
        track: landmarks and crops of the same N frames.
        landmarks: the landmark under each keypoint, -1 for none; None for a model whose keypoints have no fixed place.

    Returns:
        Median over the frames that show a face of the mean distance, percent of the distance between the outer corners
        of the eyes; None where the model's keypoints have no fixed place.
    """
    if landmarks is None:
        return None
    pairs = zip(track.original_to_crop, track.landmarks[..., :2], strict=True)
    points = (np.stack([apply_affine(*pair) for pair in pairs]) + 0.5) * (2 / CROP_SIZE_PX) - 1
    known = [index for index, landmark in enumerate(landmarks) if landmark >= 0]
    wanted = points[:, [landmarks[index] for index in known]]
    away = np.linalg.norm(keypoints[:, known, :2] - wanted, axis=-1).mean(axis=-1)
    eyes = np.linalg.norm(points[:, _EYE_CORNERS[0]] - points[:, _EYE_CORNERS[1]], axis=-1)
    return float(np.median((away / eyes)[track.valid]) * 100)


def stream_motion(
    rows: dict[str, Tensor], smoothing_frames: int, *, sc: Tensor, fit: float | None = None
) -> PartStream:
    """Smooth what the motion extractor said over time, and pose the keypoints.

    Args:
        rows: ``kp`` (N, 63), ``pitch``, ``yaw``, ``roll`` (N, 66) logits, ``t`` (N, 3), ``exp`` (N, 63), ``scale``
            (N, 1); float32.
        smoothing_frames: width of the smoothing; 1 leaves the rows as they are.
        sc: (63,) canonical keypoints of frame 0 before any smoothing.
        fit: what :func:`fit_percent` said, kept in the header.
    """
    tensors = _pose({name: smooth_rows(values, smoothing_frames) for name, values in rows.items()})
    num_frames = len(rows["kp"])
    return PartStream(
        part="keypoints",
        shapes={name: tuple(values.shape) for name, values in tensors.items()},
        chunks=({name: values[span] for name, values in tensors.items()} for span in spans(num_frames, 256)),
        stage_version=VERSION,
        extra={"sc": sc.tolist(), "fit_percent": fit},
    )


@torch.inference_mode()
def _batches(frames: Tensor, track: FaceTrack, bundle: ModelBundle) -> Iterator[Chunk]:
    for crops in read_crops(frames, track.original_to_crop):
        output = bundle.motion_extractor(to_network_input(crops, bundle.motion_extractor))
        yield {name: getattr(output, head).float().cpu() for name, head in _HEADS.items()}


def _extract(frames: Tensor, track: FaceTrack, bundle: ModelBundle) -> dict[str, Tensor]:
    batches = list(counted("keypoints", _batches(frames, track, bundle), len(frames)))
    return {name: torch.cat([batch[name] for batch in batches]).reshape(len(frames), -1) for name in _HEADS}


def _fill(rows: Tensor, valid: Flags) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(fill_gaps(rows.numpy(), valid)))


def _pose(rows: dict[str, Tensor]) -> dict[str, Tensor]:
    canonical = rows["kp"].reshape(-1, NUM_KEYPOINTS, 3)
    rotation = rotation_matrix(*(decode_head_pose(rows[axis]) for axis in ("pitch", "yaw", "roll")))
    expression = rows["exp"].reshape(-1, NUM_KEYPOINTS, 3)
    posed = pose_keypoints(canonical, rotation, expression, rows["scale"], rows["t"])
    return {**rows, "kp": canonical, "x_s": posed}
