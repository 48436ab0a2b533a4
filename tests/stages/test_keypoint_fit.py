"""Whether a model's keypoints lie on the face is measured, kept in the packet, and said when they do not."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.maths.affine import invert_affine
from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.meta import Scalar
from newsstudio_ditto.preparation import PacketBuild
from newsstudio_ditto.remarks import fit_facts, packet_remarks
from newsstudio_ditto.stages.face_track import FaceTrack
from newsstudio_ditto.stages.keypoints import FIT_LIMIT_PERCENT, fit_percent

Floats = NDArray[np.float32]
LANDMARKS = (13, 14, 61, 291, *(-1,) * 17)
NUM_FRAMES = 5


def track(valid: list[bool] | None = None) -> FaceTrack:
    draw = np.random.default_rng(0)
    landmarks = draw.uniform(100, 400, (NUM_FRAMES, 478, 3)).astype(np.float32)
    landmarks[:, 33], landmarks[:, 263] = (150, 200, 0), (250, 200, 0)
    matrix = np.array([[1.6, 0.1, -20], [-0.1, 1.6, 30], [0, 0, 1]], np.float32)
    matrices = np.tile(matrix, (NUM_FRAMES, 1, 1))
    seen = np.array(valid or [True] * NUM_FRAMES)
    return FaceTrack(
        landmarks, seen, matrices, invert_affine(matrices), PasteWindow(0, 0, 2, 2), CropConfig(), 0.9, "generation"
    )


def keypoints_on(face: FaceTrack) -> Floats:
    """(N, 21, 3) exactly on the landmarks, in crop coordinates; those without a landmark anywhere."""
    points = np.full((NUM_FRAMES, 21, 3), 9.0, np.float32)
    for index, landmark in enumerate(LANDMARKS[:4]):
        crop_px = face.landmarks[:, landmark, :2] @ face.original_to_crop[0, :2, :2].T + face.original_to_crop[0, :2, 2]
        points[:, index, :2] = (crop_px + 0.5) / 256 - 1
    return points


def test_keypoints_on_their_landmarks_fit_exactly() -> None:
    assert fit_percent(keypoints_on(track()), track(), LANDMARKS) == pytest.approx(0, abs=1e-3)


def test_a_miss_is_told_in_percent_of_the_distance_between_the_eyes() -> None:
    points = keypoints_on(track())
    points[:, :4, 1] += (
        0.1 * np.hypot(160, 10) / 256
    )  # the eyes are 100 pixels apart, 160 across and 10 down in the crop
    assert fit_percent(points, track(), LANDMARKS) == pytest.approx(10, abs=0.05)


def test_frames_without_a_face_do_not_count() -> None:
    points = keypoints_on(track())
    points[1:4] += 5
    assert fit_percent(points, track([True, False, False, False, True]), LANDMARKS) == pytest.approx(0, abs=1e-3)


def test_a_model_whose_keypoints_lie_nowhere_in_particular_is_not_judged() -> None:
    assert fit_percent(keypoints_on(track()), track(), None) is None
    assert fit_facts({"fit_percent": None}) == fit_facts({}) == {}


def test_mini_fits_the_presenter_and_the_packet_says_how_well(build: PacketBuild, mini: ModelBundle) -> None:
    assert mini.config.keypoint_landmarks is not None
    fit = build.packet.meta.options["fit_percent"]
    assert isinstance(fit, float)
    assert 0.2 < fit < FIT_LIMIT_PERCENT / 2
    assert not any("keypoints" in remark for remark in build.warnings)


@pytest.mark.parametrize(("fit", "is_said"), [(FIT_LIMIT_PERCENT - 0.1, False), (FIT_LIMIT_PERCENT + 1, True)])
def test_a_face_unlike_those_of_the_training_is_remarked(build: PacketBuild, fit: Scalar, is_said: bool) -> None:
    meta = replace(build.packet.meta, options={**build.packet.meta.options, "fit_percent": fit})
    said = packet_remarks(replace(build.packet, meta=meta))
    assert any("unlike those it was trained on" in remark for remark in said) == is_said
