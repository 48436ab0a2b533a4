from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch

from newsstudio_ditto.config import CropConfig, PacketOptions
from newsstudio_ditto.errors import FaceError, NoFaceError
from newsstudio_ditto.stages.face_track import FaceTrack, track_face
from newsstudio_ditto.stages.meta import landmarks_in_crop
from tests.stages.conftest import GAP, Pixels


def planar(frames: list[Pixels]) -> torch.Tensor:
    return torch.from_numpy(np.stack(frames).transpose(0, 3, 1, 2).copy())


@pytest.fixture(scope="module")
def track(demo_frames: list[Pixels]) -> FaceTrack:
    frames = [frame if index != GAP else np.full_like(frame, 128) for index, frame in enumerate(demo_frames)]
    return track_face(planar(frames), PacketOptions(), CropConfig(), "generation")


def test_a_frame_without_a_face_is_marked_and_bridged(track: FaceTrack) -> None:
    assert track.valid.tolist() == [True, False, True]
    for values in (track.landmarks, track.original_to_crop, track.crop_to_original):
        assert np.isfinite(values).all()
    np.testing.assert_allclose(track.landmarks[GAP], track.landmarks[[0, 2]].mean(axis=0), atol=1e-3)


def test_the_matrices_undo_each_other_and_centre_the_face(track: FaceTrack) -> None:
    both = track.crop_to_original @ track.original_to_crop
    np.testing.assert_allclose(both, np.tile(np.eye(3), (3, 1, 1)), atol=1e-3)
    inside = landmarks_in_crop(track)[..., :2]
    assert (inside > 0.1).all()
    assert (inside < 0.9).all()


def test_depth_is_scaled_like_the_plane(track: FaceTrack) -> None:
    inside = landmarks_in_crop(track)
    distances = [
        np.linalg.norm(points[:, 0] - points[:, 100], axis=-1)
        for points in (inside.astype(np.float64), track.landmarks)
    ]
    scale = np.hypot(track.original_to_crop[:, 0, 0], track.original_to_crop[:, 1, 0]) / 512
    np.testing.assert_allclose(distances[0], distances[1] * scale, rtol=1e-4)


def test_the_window_is_even_and_holds_the_whole_frame_on_request(demo_frames: list[Pixels], track: FaceTrack) -> None:
    assert not any(side % 2 for side in track.window)
    full = track_face(planar(demo_frames[:1]), PacketOptions(window="full"), CropConfig(), "g")
    assert tuple(full.window) == (0, 0, *demo_frames[0].shape[:2])


def test_the_options_crop_wins_over_the_models(demo_frames: list[Pixels]) -> None:
    frames, wide = planar(demo_frames[:1]), CropConfig(scale=2.0)
    chosen = track_face(frames, PacketOptions(crop=CropConfig(scale=1.5)), wide, "g")
    given = track_face(frames, PacketOptions(), wide, "g")
    assert chosen.crop.scale == 1.5
    assert chosen.original_to_crop[0, 0, 0] / given.original_to_crop[0, 0, 0] == pytest.approx(2.0 / 1.5, rel=1e-3)


def test_no_face_at_all_is_an_error_that_counts_the_frames() -> None:
    with pytest.raises(NoFaceError, match="none of the 2 frames"):
        track_face(torch.full((2, 3, 96, 96), 90, dtype=torch.uint8), PacketOptions(), CropConfig(), "g")


def test_a_track_survives_its_file_form(track: FaceTrack) -> None:
    back = FaceTrack.from_tensors(track.to_tensors())
    np.testing.assert_array_equal(back.landmarks, track.landmarks)
    assert (back.window, back.crop, back.generation) == (track.window, track.crop, "generation")
    assert replace(track, generation="other").to_tensors().checksum != track.to_tensors().checksum


def test_what_was_measured_of_the_face_survives_its_file_form(track: FaceTrack) -> None:
    back = FaceTrack.from_tensors(track.to_tensors())
    assert track.quality is not None
    assert (back.quality, back.num_faces) == (track.quality, 1)
    assert track.quality.width_px == pytest.approx(np.median([face_width(row) for row in track.landmarks[[0, 2]]]))


def face_width(landmarks: np.ndarray) -> float:
    return float(np.hypot(*(landmarks[454, :2] - landmarks[234, :2])))


def test_a_face_too_small_to_talk_is_refused_with_its_width(demo_frames: list[Pixels]) -> None:
    small = cv2.resize(demo_frames[0], None, fx=0.1, fy=0.1, interpolation=cv2.INTER_AREA)
    ground = np.full((192, 256, 3), 100, np.uint8)
    ground[60 : 60 + len(small), 90 : 90 + small.shape[1]] = small
    with pytest.raises(FaceError, match=r"the face is \d+ px wide; at least 32 are needed"):
        track_face(planar([ground]), PacketOptions(), CropConfig(), "g")
