"""Vocoded copies of the speech corpus: what changes, and what stays."""

import numpy as np
import pytest

from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.revoice import (
    FEWEST_COEFFICIENTS,
    HIGHEST_MEAN_HZ,
    LARGEST_MEAN,
    LOWEST_MEAN_HZ,
    MOST_COEFFICIENTS,
    SMALLEST_MEAN,
    Analysis,
    Change,
    blur,
    list_parts,
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
    averaged = [one.averaged for one in changes if one.averaged]
    assert 80 < len(averaged) < 160
    assert SMALLEST_MEAN <= min(averaged) < max(averaged) <= LARGEST_MEAN


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
    spoken = revoice(Analysis.of(buzz.astype(np.float32)), change)
    assert spoken.shape == buzz.shape
    level = np.abs(spoken)
    assert level[: SAMPLE_RATE_HZ // 5].max() < 0.05 * level.max()
    pitch_hz, _ = pyworld.dio(spoken.astype(np.float64), SAMPLE_RATE_HZ)
    assert np.median(pitch_hz[pitch_hz > 0]) == pytest.approx(200, rel=0.05)


@pytest.mark.filterwarnings("ignore")
def test_an_averaged_copy_gets_its_means_from_the_voice() -> None:
    pytest.importorskip("pyworld")
    time_s = np.arange(SAMPLE_RATE_HZ // 2) / SAMPLE_RATE_HZ
    plain = Analysis.of((np.sign(np.sin(2 * np.pi * 130 * time_s)) * 0.3).astype(np.float32))
    change = Change(20, blur_frames=0, mean_hz=130, liveliness=1, formants=1, noise=1, averaged=0.1)
    asked: list[tuple[tuple[int, ...], float]] = []

    def average(cepstrum: np.ndarray, share: float) -> np.ndarray:
        asked.append((cepstrum.shape, share))
        return cepstrum * 0.5

    flat, kept = revoice(plain, change, average), revoice(plain, change)
    assert asked == [((len(plain.pitch_hz), 20), 0.1)]
    assert np.abs(flat - kept).max() > 0.05


def test_parts_hold_what_is_trained_on_and_more_copies_of_synthesisers() -> None:
    voices = ["flite@slt"] * 70 + ["kokoro@af_alloy@1.0"] * 3 + ["flite@rms"]
    corpus = {f"ogg/{i}": np.zeros(2, np.uint8) for i in range(len(voices))} | {
        "voices": np.array(voices),
        "splits": np.array(["train"] * 73 + ["test"]),
        "phones": np.array([(i, 0, 0.0, 1.0) for i in range(len(voices))], np.float32),
    }
    parts = list_parts(corpus)
    assert [(len(part.packed), part.copies) for part in parts] == [(35, 2), (35, 2), (3, 1)]
    assert sorted(i for part in parts for i in part.packed) == list(range(73))
    assert all(part.packed.keys() == part.phones.keys() for part in parts)
