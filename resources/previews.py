"""Which picture stands for which asset."""

from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newsstudio_ditto.maths.keypoints import decode_head_pose
from newsstudio_ditto.media.decode import decode_frames, read_speech
from newsstudio_ditto.packet.reader import Part
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.preparation import open_bench_part, open_track
from newsstudio_ditto.stages import preview
from newsstudio_ditto.stages.face_track import FaceTrack
from newsstudio_ditto.stages.preview import Picture
from newsstudio_ditto.stages.tensor_file import TensorFile
from newsstudio_ditto.units import FRAME_RATE_HZ
from newsstudio_ditto.video_inspection import loudness_db
from resources.partitions import render_of
from resources.storage import StorageResource

_STEP_S = 1 / FRAME_RATE_HZ
_SHEET_FRAMES = 6
_QUIETEST_DB = -60.0


def packet_picture(part: Part, store: AvatarStore, avatar_id: str) -> Picture:
    """Contact sheet or curves of a packet part.

    Args:
        part: any of the six, mapped.
        store: for the frames and the track that some pictures need besides.
        avatar_id: whose bench to look at.
    """
    name, tensors = part.header.part, part.tensors
    if name == "frames":
        return preview.frame_sheet(tensors["frames"])
    if name == "f_s":
        return preview.volume_sheet(tensors["f_s"])
    if name == "grids":
        return preview.grid_sheet(tensors["grids"])
    if name == "masks":
        frames = open_bench_part(store, avatar_id, "frames").tensors["frames"]
        return preview.mask_sheet(frames, tensors["masks"], open_track(store, avatar_id).window)
    if name == "keypoints":
        return preview.curve_plot(_head_turns(tensors), seconds_per_step=_STEP_S)
    eyes = {f"eye {side} open": tensors["eye_open"][:, side].numpy() for side in (0, 1)}
    return preview.curve_plot(eyes, seconds_per_step=_STEP_S)


def _head_turns(tensors: dict[str, Tensor]) -> dict[str, NDArray[np.float32]]:
    """Head pose around its mean, which the names tell: the three would otherwise lie far apart."""
    angles = {axis: decode_head_pose(tensors[axis]).numpy() for axis in ("pitch", "yaw", "roll")}
    return {f"{axis}, mean {angle.mean():.1f} deg": angle - angle.mean() for axis, angle in angles.items()}


def tensor_picture(content: TensorFile, storage: StorageResource, partition: str) -> Picture:
    """Picture of a result that is no packet part: face track, feature rows or driving motion."""
    kind = content.header["kind"]
    if kind == "speech_features":
        return preview.feature_map(content.tensors["features"])
    if kind == "driving_motion":
        opening = preview.mouth_opening(content.tensors["motion"], content.header["lip_points"])
        speech = read_speech(storage.layout.speech(render_of(partition)[1]))
        curves = {"mouth opening": opening, "loudness": loudness_db(speech)[: len(opening)].clip(min=_QUIETEST_DB)}
        return preview.curve_plot({name: _to_unit(curve) for name, curve in curves.items()}, seconds_per_step=_STEP_S)
    track = FaceTrack.from_tensors(content)
    frames = open_bench_part(storage.avatars, partition, "frames").tensors["frames"]
    return preview.track_sheet(frames, track.landmarks, track.crop_to_original)


def _to_unit(curve: NDArray[np.float32]) -> NDArray[np.float32]:
    """Shift and scale to 0..1, so that curves of different units can be compared by shape."""
    span = float(curve.max() - curve.min())
    return (curve - curve.min()) / span if span > 0 else np.zeros_like(curve)


def video_picture(video: Path, num_frames: int) -> Picture:
    """Contact sheet of a finished video."""
    step = max(1, num_frames // _SHEET_FRAMES)
    frames = islice(decode_frames(video).frames, 0, None, step)
    rows = [torch.from_numpy(np.ascontiguousarray(frame.transpose(2, 0, 1))) for frame in frames]
    return preview.frame_sheet(torch.stack(rows))
