import cv2
import numpy as np
import pytest

from newsstudio_ditto.errors import FaceError, UsageError
from newsstudio_ditto.faces import FaceFinder, FaceObservation, FaceQuality, judge_quality, measure_quality
from newsstudio_ditto.faces.finder import _drop_duplicates
from tests.faces import scenes


def only(faces: list[FaceObservation]) -> FaceObservation:
    assert len(faces) == 1
    return faces[0]


@pytest.fixture(scope="module")
def reference(finder: FaceFinder) -> FaceObservation:
    return only(finder.observe(scenes.face_patch()))


def test_landmarks_lie_on_the_face(reference: FaceObservation) -> None:
    points = reference.landmarks
    assert reference.score > 0.99
    mouth, nose, chin = points[13], points[1], points[152]
    left_eye, right_eye = points[33], points[263]
    assert left_eye[0] < nose[0] < right_eye[0]
    assert left_eye[1] < nose[1] < mouth[1] < chin[1]
    assert 90 < reference.side_px < 150
    left, top, right, bottom = reference.box
    assert 20 < left < right < 170
    assert 20 < top < bottom < 190


def test_irises_sit_in_the_dark_of_the_eyes(reference: FaceObservation) -> None:
    grey = cv2.cvtColor(scenes.face_patch(), cv2.COLOR_RGB2GRAY).astype(float)
    for iris, white in ((468, 33), (473, 263)):
        (x, y), (u, v) = (
            reference.landmarks[iris, :2],
            (reference.landmarks[iris, :2] + reference.landmarks[white, :2]) / 2,
        )
        assert grey[round(y), round(x)] < grey[round(v), round(u)]


@pytest.mark.parametrize(
    ("size", "scale", "limit_px"),
    [
        ((480, 640), 1.0, 0.7),
        ((480, 640), 0.2, 0.4),
        ((1080, 1920), 0.6, 0.5),
        ((640, 360), 0.4, 0.4),
        ((720, 1280), 2.5, 1.7),
    ],
)
def test_faces_of_any_size_are_found_where_they_are(
    finder: FaceFinder, reference: FaceObservation, size: tuple[int, int], scale: float, limit_px: float
) -> None:
    scene = scenes.canvas(*size)
    placed = scenes.place(scene, scenes.face_patch(), centre=(size[1] * 0.55, size[0] * 0.5), scale=scale)
    expected = (reference.landmarks[:, :2] + 0.5) * scale - 0.5 + (placed.left, placed.top)
    found = only(finder.observe(scene)).landmarks[:, :2]
    assert np.abs(found - expected).mean() < limit_px


def test_a_head_turned_by_25_degrees_is_found(finder: FaceFinder, reference: FaceObservation) -> None:
    matrix = cv2.getRotationMatrix2D((95, 110), 25, 0.8)
    matrix[:, 2] += (200, 120)
    scene = cv2.warpAffine(scenes.face_patch(), matrix, (640, 480), borderValue=scenes.GROUND)
    expected = reference.landmarks[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    error = np.abs(only(finder.observe(np.asarray(scene))).landmarks[:, :2] - expected).mean()
    assert error < 0.015 * reference.side_px


def test_two_faces_come_largest_first(finder: FaceFinder) -> None:
    scene = scenes.canvas()
    scenes.place(scene, scenes.twin_patch(), centre=(160, 240), scale=0.9)
    scenes.place(scene, scenes.face_patch(), centre=(460, 240), scale=1.2)
    faces = finder.observe(scene)
    assert [round(face.centre[0], -2) for face in faces] == [500, 200]
    assert faces[0].side_px > faces[1].side_px


def make_card() -> scenes.Pixels:
    card = np.full((480, 640, 3), 230, np.uint8)
    cv2.putText(card, "NEWS TONIGHT", (60, 240), cv2.FONT_HERSHEY_DUPLEX, 2, (20, 20, 20), 4)
    return card


def make_noise() -> scenes.Pixels:
    return np.random.default_rng(1).integers(0, 256, (480, 640, 3), np.uint8)


@pytest.mark.parametrize("scene", [make_card(), make_noise(), scenes.canvas(1080, 1920), scenes.canvas(2, 2)])
def test_no_face_is_no_observation(finder: FaceFinder, scene: scenes.Pixels) -> None:
    assert finder.observe(scene) == []


def test_observations_are_repeatable_and_free_of_state(finder: FaceFinder) -> None:
    frame = scenes.anchor_frames()[0]
    first = only(finder.observe(frame)).landmarks
    finder.observe(make_noise())
    np.testing.assert_array_equal(first, only(finder.observe(frame)).landmarks)
    np.testing.assert_allclose(first, only(FaceFinder(num_threads=2).observe(frame)).landmarks, atol=0.05)


def test_follow_tells_a_face_from_its_absence(finder: FaceFinder) -> None:
    first, second = scenes.anchor_frames()[:2]
    before = only(finder.observe(first))
    after = finder.follow(second, before)
    assert after is not None
    assert np.abs(after.landmarks - before.landmarks).max() < 5
    assert finder.follow(np.full_like(second, 90), before) is None


def test_duplicates_are_dropped() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 100, (478, 3)).astype(np.float32)
    near, far = points + np.float32(10), points + np.float32(300)
    kept = _drop_duplicates([FaceObservation(near, 0.8), FaceObservation(points, 0.9), FaceObservation(far, 0.6)])
    assert sorted(face.score for face in kept) == [0.6, 0.9]


@pytest.mark.parametrize(
    "frame", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((4, 4, 4), np.uint8)]
)
def test_other_arrays_are_refused(finder: FaceFinder, frame: scenes.Pixels) -> None:
    with pytest.raises(ValueError, match=r"expected uint8 \(H, W, 3\)"):
        finder.observe(frame)


def test_thread_count_is_checked() -> None:
    with pytest.raises(UsageError, match="num_threads is 0"):
        FaceFinder(num_threads=0)


def test_landmark_count_is_checked() -> None:
    with pytest.raises(ValueError, match="expected"):
        FaceObservation(np.zeros((468, 3), np.float32), 1.0)


def test_quality_measures_width_turn_and_blur(finder: FaceFinder) -> None:
    patch = scenes.face_patch()
    blurred = np.asarray(cv2.GaussianBlur(patch, (0, 0), 6))
    squeezed = np.asarray(cv2.resize(patch, (95, 220), interpolation=cv2.INTER_AREA))
    sharp = measure_quality(patch, only(finder.observe(patch)))
    soft = measure_quality(blurred, only(finder.observe(blurred)))
    thin = measure_quality(squeezed, only(finder.observe(squeezed)))
    assert 95 < sharp.width_px < 115
    assert abs(sharp.yaw_deg) < 5
    assert thin.width_px < 0.65 * sharp.width_px
    assert soft.sharpness < 0.4 * sharp.sharpness
    assert judge_quality(sharp) == []
    assert any("blurred" in remark for remark in judge_quality(soft))
    assert judge_quality(sharp) == judge_quality(measure_quality(patch, only(finder.observe(patch))))


def test_quality_limits() -> None:
    assert len(judge_quality(FaceQuality(60, -40, 0.01))) == 3
    with pytest.raises(FaceError, match="20 px wide"):
        judge_quality(FaceQuality(20, 0, 0.2))
    with pytest.raises(FaceError, match="turned by 70 degrees"):
        judge_quality(FaceQuality(200, -70, 0.2))
