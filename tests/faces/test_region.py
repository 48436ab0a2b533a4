import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.faces.detection import Detection
from newsstudio_ditto.faces.region import Region, region_of_detection, region_of_landmarks

regions = st.builds(Region, st.floats(-50, 900), st.floats(-50, 900), st.floats(2, 3000), st.floats(-3.1, 3.1))


@given(regions)
def test_the_affine_is_a_similarity_around_the_centre(region: Region) -> None:
    matrix = region.to_frame(256)
    np.testing.assert_allclose(matrix @ (128, 128, 1), [region.centre_x, region.centre_y], atol=1e-6)
    square = matrix[:, :2] @ matrix[:, :2].T
    np.testing.assert_allclose(square, np.eye(2) * (region.side_px / 256) ** 2, atol=1e-9 * region.side_px**2)


@given(regions)
def test_a_flat_frame_gives_a_flat_crop_wherever_the_region_lies(region: Region) -> None:
    frame = np.full((40, 60, 3), (10, 20, 30), np.uint8)
    assert (region.cut(frame, 16) == (10, 20, 30)).all()


@pytest.mark.parametrize("side_px", [200.0, 700.0, 1100.0])
@pytest.mark.parametrize("angle_rad", [0.0, 0.5])
def test_a_large_region_keeps_the_places_of_the_frame(side_px: float, angle_rad: float) -> None:
    frame = np.zeros((900, 1200, 3), np.uint8)
    cv2.circle(frame, (640, 430), 24, (255, 255, 255), -1)
    region = Region(600, 450, side_px, angle_rad)
    crop = region.cut(frame, 128).astype(float)[..., 0]
    ys, xs = np.mgrid[:128, :128]
    seen = np.array([(xs * crop).sum(), (ys * crop).sum()]) / crop.sum()
    found = region.to_frame(128) @ (*seen, 1)
    np.testing.assert_allclose(found, [640, 430], atol=0.35 * max(side_px / 128, 1))


def test_a_large_region_is_averaged_not_sampled() -> None:
    frame = np.zeros((1024, 1024, 3), np.uint8)
    frame[:, ::2] = 200
    crop = Region(512, 512, 1024, 0.0).cut(frame, 128)
    np.testing.assert_allclose(crop[8:-8, 8:-8], 100, atol=3)


def test_regions_follow_the_eyes() -> None:
    region = region_of_detection(Detection(0.9, (10, 20, 50, 80), ((20, 30), (40, 50))))
    assert (region.centre_x, region.centre_y, region.side_px) == (30, 50, 90)
    assert region.angle_rad == pytest.approx(np.pi / 4)


@given(st.floats(-3, 3), st.floats(0.1, 5), st.floats(-100, 100))
def test_landmark_region_turns_and_grows_with_the_face(angle: float, scale: float, shift: float) -> None:
    points = np.zeros((478, 3), np.float32)
    points[:, :2] = np.random.default_rng(0).uniform(-20, 20, (478, 2))
    points[33, :2], points[263, :2] = (-10, 0), (10, 0)
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    moved = points.copy()
    moved[:, :2] = points[:, :2] @ turn.T + shift
    before, after = region_of_landmarks(points), region_of_landmarks(moved)
    assert after.side_px == pytest.approx(before.side_px * scale, rel=1e-3)
    assert after.angle_rad == pytest.approx(angle, abs=1e-3)
    centre = turn @ (before.centre_x, before.centre_y) + shift
    np.testing.assert_allclose((after.centre_x, after.centre_y), centre, atol=1e-2)
