import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.faces.detection import (
    ANCHORS,
    INPUT_PX,
    box_overlap,
    cut_tiles,
    decode_candidates,
    suppress,
    tile_sides_px,
)

sizes = st.integers(16, 700)


def test_anchors_cover_both_layers_in_row_order() -> None:
    assert ANCHORS.shape == (896, 2)
    np.testing.assert_allclose(
        ANCHORS[[0, 1, 2, 511, 512, 895]] * 16, [[0.5, 0.5], [0.5, 0.5], [1.5, 0.5], [15.5, 15.5], [1, 1], [15, 15]]
    )


def test_decode_places_boxes_around_their_anchor() -> None:
    regressors, logits = np.zeros((896, 16), np.float32), np.full(896, -9, np.float32)
    regressors[30, :4] = (12.8, -6.4, 25.6, 51.2)
    regressors[30, 4:8] = (-6.4, 0, 6.4, 0)
    logits[30] = 2.0
    scores, points = decode_candidates(regressors, logits)
    np.testing.assert_allclose(scores, [1 / (1 + np.exp(-2.0))], rtol=1e-6)
    x, y = ANCHORS[30]
    expected = [(x, y - 0.25), (x + 0.2, y + 0.15), (x - 0.05, y), (x + 0.05, y)]
    np.testing.assert_allclose(points[0], expected, atol=1e-6)


def test_decode_drops_what_is_unsure_and_survives_extremes() -> None:
    logits = np.full(896, -1e4, np.float32)
    logits[5] = 1e4
    scores, points = decode_candidates(np.ones((896, 16), np.float32), logits)
    assert scores.tolist() == [1.0]
    assert np.isfinite(points).all()


def candidate(left: float, top: float, side: float) -> list[tuple[float, float]]:
    return [(left, top), (left + side, top + side), (left + 0.3 * side, top), (left + 0.7 * side, top)]


def test_suppress_averages_a_group_by_score() -> None:
    points = np.array([candidate(0, 0, 100), candidate(500, 0, 50), candidate(20, 0, 100)], np.float32)
    found = suppress(np.array([0.9, 0.8, 0.6], np.float32), points)
    assert [round(item.score, 4) for item in found] == [0.9, 0.8]
    assert found[0].box == pytest.approx((8, 0, 108, 100), abs=1e-3)
    assert found[0].eyes[0] == pytest.approx((38, 0), abs=1e-3)
    assert found[1].box == pytest.approx((500, 0, 550, 50))


@given(st.lists(st.tuples(st.floats(0, 900), st.floats(0, 900), st.floats(4, 300), st.floats(0.5, 1)), max_size=20))
def test_suppress_never_invents_or_keeps_twice(boxes: list[tuple[float, float, float, float]]) -> None:
    points = np.array([candidate(*box[:3]) for box in boxes], np.float32).reshape(-1, 4, 2)
    scores = np.array([box[3] for box in boxes], np.float32)
    found = suppress(scores, points)
    assert len(found) <= len(boxes)
    assert bool(found) == bool(boxes)
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    for item in found:
        assert points[:, 0].min() - 1e-2 <= min(item.box[:2])
        assert max(item.box[2:]) <= points[:, 1].max() + 1e-2


def test_suppress_keeps_a_candidate_without_area() -> None:
    assert len(suppress(np.array([0.7], np.float32), np.zeros((1, 4, 2), np.float32))) == 1


def test_box_overlap_of_known_boxes() -> None:
    boxes = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [20, 20, 30, 30]], float)
    np.testing.assert_allclose(box_overlap(boxes[0], boxes), [1, 1 / 3, 0])


@given(sizes, sizes)
def test_tiles_cover_every_pixel_at_every_level(height: int, width: int) -> None:
    frame = np.zeros((height, width, 3), np.uint8)
    for side in tile_sides_px(height, width):
        tiles, corners = cut_tiles(frame, side)
        assert tiles.shape == (len(corners), INPUT_PX, INPUT_PX, 3)
        slack = 1.5 * side / INPUT_PX
        for axis, length in ((0, width), (1, height)):
            starts = np.unique(corners[:, axis])
            assert starts.min() <= slack
            assert starts.max() + side >= length - slack
            assert (np.diff(starts) <= side / 2 + 2 * slack).all()


def test_levels_go_deeper_only_for_large_frames() -> None:
    assert tile_sides_px(100, 200) == [200]
    assert tile_sides_px(480, 640) == [640, 320, 160]
    assert tile_sides_px(2160, 3840) == [3840, 1920, 960, 480]


def test_a_tile_shows_the_frame_where_its_corner_says() -> None:
    frame = np.zeros((512, 512, 3), np.uint8)
    frame[300:308, 400:408] = 255
    tiles, corners = cut_tiles(frame, 256)
    for tile, corner in zip(tiles, corners, strict=True):
        ys, xs = np.nonzero(tile[..., 0] > 0)
        if len(xs):
            np.testing.assert_allclose([xs.mean() * 2 + corner[0], ys.mean() * 2 + corner[1]], [403, 303], atol=1.5)
