"""Properties of what is computed from faces: detections, landmarks, eyes."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newsstudio_ditto.maths.affine import apply_affine, invert_affine
from newsstudio_ditto.maths.anchor_detector import (
    DETECTOR_SIZE_PX,
    LANDMARK106_SIZE_PX,
    STRIDES_PX,
    anchor_centres,
    blaze_anchors,
    decode_detections,
    detector_input_size,
    landmark106_crop,
    landmarks_106,
    landmarks_203,
    largest_box,
    suppress_overlaps,
)
from newsstudio_ditto.maths.crop import anchors_106, anchors_203, anchors_478, halve_image
from newsstudio_ditto.maths.eye_rig import EYE_RIGS, MESH_RIG, OFFICIAL_RIG, EyeRig, gaze_offsets, shut_offsets
from newsstudio_ditto.maths.eyes import eye_ball_direction, eye_openness

few = settings(deadline=None, max_examples=40, derandomize=True)
Singles = npt.NDArray[np.float32]
SEEDS = st.integers(0, 2**32 - 1)
RIGS = st.sampled_from([OFFICIAL_RIG, MESH_RIG])


@st.composite
def scored_boxes(draw: st.DrawFn) -> Singles:
    """(n, 5) boxes by falling score."""
    rng = np.random.default_rng(draw(SEEDS))
    count = draw(st.integers(1, 12))
    corner = rng.uniform(0, 200, (count, 2))
    size = rng.uniform(5, 150, (count, 2))
    scores = np.sort(rng.uniform(0.5, 1, count))[::-1]
    return np.column_stack([corner, corner + size, scores]).astype(np.float32)


def overlap(a: Singles, b: Singles) -> float:
    """Shared area over united area, pixels counted with both ends."""
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:4], b[2:4])
    shared = float(np.prod(np.maximum(high - low + 1, 0)))
    return shared / (float(np.prod(a[2:4] - a[:2] + 1)) + float(np.prod(b[2:4] - b[:2] + 1)) - shared)


@few
@given(st.integers(16, 4000), st.integers(16, 4000))
def test_the_detector_input_fills_one_side_and_keeps_the_shape(height: int, width: int) -> None:
    new_height, new_width, scale = detector_input_size(height, width)
    assert max(new_height, new_width) == DETECTOR_SIZE_PX
    assert abs(new_height - height * scale) <= 1
    assert abs(new_width - width * scale) <= 1 + width / height


@given(st.sampled_from(STRIDES_PX))
def test_anchor_centres_cover_the_input_twice(stride: int) -> None:
    centres = anchor_centres(stride)
    cells = DETECTOR_SIZE_PX // stride
    assert centres.shape == (2 * cells * cells, 2)
    np.testing.assert_array_equal(centres[::2], centres[1::2])
    assert len(np.unique(centres, axis=0)) == cells * cells
    assert 0 <= centres.min() <= centres.max() < DETECTOR_SIZE_PX
    assert set(np.unique(np.diff(centres[::2, 0]))) == {float(stride), -float(DETECTOR_SIZE_PX - stride)}


@few
@given(scored_boxes(), st.floats(0.05, 0.9))
def test_kept_boxes_are_apart_and_dropped_ones_are_not(boxes: Singles, most: float) -> None:
    kept = suppress_overlaps(boxes, most)
    assert kept[0] == 0
    assert kept.tolist() == sorted(kept.tolist())
    for index in range(len(boxes)):
        better = [overlap(boxes[other], boxes[index]) for other in kept if other < index]
        assert (index in kept) == all(value <= most + 1e-6 for value in better)
    np.testing.assert_array_equal(suppress_overlaps(boxes[kept], most), np.arange(len(kept)))


@few
@given(scored_boxes())
def test_the_largest_box_is_the_largest(boxes: Singles) -> None:
    areas = np.prod(boxes[:, 2:4] - boxes[:, :2], axis=1)
    assert np.prod(largest_box(boxes)[2:4] - largest_box(boxes)[:2]) == areas.max()


@few
@given(SEEDS, st.integers(0, 2), st.floats(0.1, 4))
def test_an_encoded_face_is_decoded_again(seed: int, layer: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    scores, distances, offsets = [], [], []
    for stride in STRIDES_PX:
        count = len(anchor_centres(stride))
        scores.append(np.zeros((count, 1), np.float32))
        distances.append(rng.uniform(0, 5, (count, 4)).astype(np.float32))
        offsets.append(rng.uniform(-5, 5, (count, 10)).astype(np.float32))
    stride, index = STRIDES_PX[layer], int(rng.integers(len(scores[layer])))
    centre = anchor_centres(stride)[index]
    box = np.concatenate([centre - rng.uniform(1, 50, 2), centre + rng.uniform(1, 50, 2)])
    points = centre + rng.uniform(-40, 40, (5, 2))
    scores[layer][index] = 0.9
    distances[layer][index] = np.concatenate([centre - box[:2], box[2:] - centre]) / stride
    offsets[layer][index] = ((points - centre) / stride).reshape(-1)
    found = decode_detections(scores, distances, offsets, scale)
    np.testing.assert_allclose(found.boxes, [[*(box / scale), 0.9]], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.keypoints, [points / scale], rtol=1e-4, atol=1e-3)


@few
@given(scored_boxes())
def test_the_crop_of_106_landmarks_holds_the_box_with_its_margin(boxes: Singles) -> None:
    matrix = landmark106_crop(boxes[0])
    corners = apply_affine(matrix, boxes[0, :4].reshape(2, 2).astype(np.float64))
    np.testing.assert_allclose(corners.mean(axis=0), LANDMARK106_SIZE_PX / 2, atol=1e-6)
    assert np.ptp(corners, axis=0).max() == pytest.approx(LANDMARK106_SIZE_PX / 1.5)


@few
@given(scored_boxes(), SEEDS)
def test_landmarks_return_to_where_they_were(boxes: Singles, seed: int) -> None:
    rng, matrix = np.random.default_rng(seed), landmark106_crop(boxes[0])
    points = rng.uniform(boxes[0, :2], boxes[0, 2:4], (106, 2))
    output = apply_affine(matrix, points) / (LANDMARK106_SIZE_PX / 2) - 1
    np.testing.assert_allclose(landmarks_106(output.reshape(1, 212), matrix), points, atol=1e-2)
    more = rng.uniform(boxes[0, :2], boxes[0, 2:4], (203, 2))
    inside = apply_affine(matrix, more) / 224
    np.testing.assert_allclose(landmarks_203(inside.reshape(1, 406), invert_affine(matrix)), more, atol=1e-2)


def test_blaze_anchors_lie_inside_the_picture_evenly() -> None:
    anchors = blaze_anchors()
    assert anchors.shape == (896, 2)
    assert 0 < anchors.min() < anchors.max() < 1
    np.testing.assert_allclose(anchors.mean(axis=0), 0.5, atol=1e-6)


@few
@given(st.sampled_from([106, 203, 478]), SEEDS, st.floats(-500, 500), st.floats(0.2, 5))
def test_face_anchors_move_and_grow_with_the_face(count: int, seed: int, shift: float, scale: float) -> None:
    anchors = {106: anchors_106, 203: anchors_203, 478: anchors_478}[count]
    landmarks = np.random.default_rng(seed).uniform(0, 500, (count, 2))
    plain, moved = anchors(landmarks), anchors(landmarks * scale + shift)
    for before, after in zip(plain, moved, strict=True):
        np.testing.assert_allclose(after, before * scale + shift, atol=0.01, rtol=1e-4)
    assert plain.points.min() <= plain.mouth.min() <= plain.mouth.max() <= plain.points.max()


@few
@given(SEEDS, st.integers(1, 9), st.integers(1, 9))
def test_a_halved_image_is_the_rounded_mean(seed: int, height: int, width: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (2 * height, 2 * width, 3), dtype=np.uint8)
    mean = image.reshape(height, 2, width, 2, 3).astype(np.float64).mean(axis=(1, 3))
    np.testing.assert_array_equal(halve_image(image), np.floor(mean + 0.5))


@st.composite
def faces(draw: st.DrawFn) -> Singles:
    """(N, 478, 3) landmarks with eyes of some width."""
    rng = np.random.default_rng(draw(SEEDS))
    points = rng.uniform(0, 1, (draw(st.integers(1, 4)), 478, 3))
    points[:, [33, 263]] -= 0.7
    points[:, [133, 362]] += 0.7
    return points.astype(np.float32)


@few
@given(faces(), st.floats(0.2, 5), st.floats(-3, 3), st.floats(-3, 3))
def test_openness_depends_on_shape_alone(face: Singles, scale: float, shift: float, angle: float) -> None:
    cos, sin = np.cos(angle), np.sin(angle)
    turned = face @ np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    openness = eye_openness(face)
    assert openness.shape == (len(face), 2)
    assert openness.min() >= 0
    np.testing.assert_allclose(eye_openness(turned * scale + shift), openness, rtol=1e-2, atol=1e-3)


@few
@given(faces())
def test_a_shut_eye_has_no_openness(face: Singles) -> None:
    shut = face.copy()
    shut[:, [145, 144, 153]] = shut[:, [159, 160, 158]]
    assert (eye_openness(shut)[:, 0] == 0).all()
    np.testing.assert_array_equal(eye_openness(shut)[:, 1], eye_openness(face)[:, 1])


@few
@given(faces(), st.floats(0.2, 5), st.floats(-3, 3))
def test_the_gaze_grows_with_the_face_and_stays_where_it_moves(face: Singles, scale: float, shift: float) -> None:
    moved = eye_ball_direction(face * np.float32(scale) + np.float32(shift))
    np.testing.assert_allclose(moved, scale * eye_ball_direction(face), rtol=1e-2, atol=5e-3)


@few
@given(faces())
def test_an_iris_in_the_middle_looks_nowhere(face: Singles) -> None:
    straight = face.copy()
    straight[:, 468] = (face[:, 33] + face[:, 133]) / 2
    straight[:, 473] = (face[:, 263] + face[:, 362]) / 2
    assert np.abs(eye_ball_direction(straight)).max() < 1e-6


@few
@given(RIGS, SEEDS, st.floats(0.2, 3))
def test_shutting_moves_the_lids_onto_each_other_and_nothing_else(rig: EyeRig, seed: int, scale: float) -> None:
    posed = torch.randn((3, 21, 3), generator=torch.Generator().manual_seed(seed))
    offsets = shut_offsets(rig, posed, torch.full((3, 1), scale)).reshape(3, 21, 3)
    moving = {point for point, _ in rig.closing} | {upper for upper, _ in rig.lids}
    assert {int(point) for point in offsets.abs().sum(dim=(0, 2)).nonzero()} == moving
    shut = posed + scale * offsets
    for upper, lower in rig.lids:
        wanted = posed[:, upper, :2] + rig.overlap * (posed[:, lower, :2] - posed[:, upper, :2])
        torch.testing.assert_close(shut[:, upper, :2], wanted, atol=1e-4, rtol=1e-4)
    for point, down in rig.closing:
        assert torch.allclose(offsets[:, point], torch.tensor([0.0, down, 0.0]))


@few
@given(RIGS, st.floats(-1, 1), st.floats(-1, 1))
def test_looking_left_mirrors_looking_right(rig: EyeRig, right: float, up: float) -> None:
    there, back = (
        gaze_offsets(rig, torch.tensor([side]), torch.tensor([up])).reshape(21, 3) for side in (right, -right)
    )
    on_left, on_right = rig.pupils
    assert there[on_left, 0] == -back[on_right, 0]
    assert there[on_right, 0] == -back[on_left, 0]
    assert torch.equal(there[:, 1], back[:, 1])
    assert there[on_left, 0] * right >= 0
    assert {int(point) for point in there.abs().sum(dim=1).nonzero()} <= set(rig.pupils)
    assert not there[:, 2].any()


def test_every_rig_moves_the_eye_points_of_its_bundle() -> None:
    for points, rig in EYE_RIGS.items():
        used = {*rig.pupils, *(point for point, _ in rig.closing), *(point for pair in rig.lids for point in pair)}
        assert used <= set(points)
