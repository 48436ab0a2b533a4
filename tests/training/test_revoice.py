"""Vocoded copies of the speech corpus: what changes, and what stays."""

import numpy as np
import pytest

from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.revoice import (
    FEWEST_COEFFICIENTS,
    HIGHEST_MEAN_HZ,
    LOWEST_MEAN_HZ,
    MOST_COEFFICIENTS,
    Change,
    blur,
    move_formants,
    move_pitch,
    revoice,
)


def test_changes_are_seeded_and_stay_in_their_ranges() -> None:
    changes = [Change.draw(np.random.default_rng(seed)) for seed in range(200)]
    assert changes[3] == Change.draw(np.random.default_rng(3))
    assert all(FEWEST_COEFFICIENTS <= one.coefficients <= MOST_COEFFICIENTS for one in changes)
    assert all(LOWEST_MEAN_HZ <= one.mean_hz <= HIGHEST_MEAN_HZ for one in changes)
    assert len({one.coefficients for one in changes}) > 20


def test_blurring_keeps_what_stands_still_and_the_mean() -> None:
    still = np.full((60, 3), 2.0)
    np.testing.assert_allclose(blur(still, 2.0), still)
    impulse = np.zeros((61, 1))
    impulse[30] = 1
    assert blur(impulse, 2.0).sum() == pytest.approx(1)
    assert blur(impulse, 2.0).max() < 0.3
    assert blur(impulse, 0.0).max() == pytest.approx(1)


def test_formants_move_by_their_factor() -> None:
    envelope = np.exp(-0.5 * ((np.arange(513) - 100) / 8) ** 2)[None]
    assert move_formants(envelope, 1.2)[0].argmax() == pytest.approx(120, abs=1)
    assert move_formants(envelope, 0.8)[0].argmax() == pytest.approx(80, abs=1)


def test_pitch_moves_where_there_is_a_voice() -> None:
    pitch_hz = np.array([0.0, 100.0, 200.0, 0.0])
    moved = move_pitch(pitch_hz, 90.0, 0.5)
    assert moved[[0, 3]].tolist() == [0, 0]
    assert np.exp(np.log(moved[1:3]).mean()) == pytest.approx(90)
    assert moved[2] / moved[1] == pytest.approx(2**0.5)
    assert move_pitch(np.zeros(3), 90.0, 1.0).tolist() == [0, 0, 0]


@pytest.mark.filterwarnings("ignore")  # pyworld asks for pkg_resources
def test_a_vocoded_voice_keeps_its_times_and_takes_the_pitch() -> None:
    pyworld = pytest.importorskip("pyworld")
    time_s = np.arange(SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ
    buzz = np.sign(np.sin(2 * np.pi * 130 * time_s)) * (np.abs(time_s - 0.5) < 0.25) * 0.3
    change = Change(coefficients=30, blur_frames=0.5, mean_hz=200.0, liveliness=1.0, formants=1.0, noise=0.5)
    spoken = revoice(buzz.astype(np.float32), change)
    assert spoken.shape == buzz.shape
    level = np.abs(spoken)
    assert level[: SAMPLE_RATE_HZ // 5].max() < 0.05 * level.max()
    pitch_hz, _ = pyworld.dio(spoken.astype(np.float64), SAMPLE_RATE_HZ)
    assert np.median(pitch_hz[pitch_hz > 0]) == pytest.approx(200, rel=0.05)
