"""Spectra that are means over what a voice says alike."""

import numpy as np

from training.averaging import FEWEST_ALIKE, NO_STATE, PARTS, Pool, average_alike, frame_states


def test_a_phone_has_three_parts_and_what_is_outside_none() -> None:
    rows = np.array([[2, 0.010, 0.055], [0, 0.055, 0.070]])
    states = frame_states(rows, 16, 0.005)
    assert states.tolist() == [NO_STATE] * 2 + [6] * 3 + [7] * 3 + [8] * 3 + [0, 1, 2] + [NO_STATE] * 2
    assert set(states) - {NO_STATE} <= set(range(3 * PARTS))


def test_a_mean_is_of_the_nearest_that_others_say_in_that_state() -> None:
    near, far = np.full((FEWEST_ALIKE, 2), 1.0), np.full((FEWEST_ALIKE, 2), 9.0)
    same, other = np.zeros(2 * FEWEST_ALIKE, int), np.ones(FEWEST_ALIKE, int)
    frames = {0: np.zeros((3, 2)), 1: np.concatenate([near, far]), 2: np.zeros((FEWEST_ALIKE, 2))}
    pool = Pool.of(frames, {0: np.array([0, 0, NO_STATE]), 1: same, 2: other})
    averaged = average_alike(frames[0], np.array([0, 0, NO_STATE]), 0, pool, 0.5)
    np.testing.assert_array_equal(averaged, [[1, 1], [1, 1], [0, 0]])
    np.testing.assert_array_equal(average_alike(frames[0], np.array([0, 0, NO_STATE]), 0, pool, 1.0)[0], [5, 5])


def test_a_sound_that_is_hardly_known_stays() -> None:
    frames = {0: np.zeros((1, 2)), 1: np.ones((FEWEST_ALIKE - 1, 2))}
    pool = Pool.of(frames, {number: np.zeros(len(one), int) for number, one in frames.items()})
    np.testing.assert_array_equal(average_alike(frames[0], np.zeros(1, int), 0, pool, 0.5), frames[0])
