"""Loudness where vowels are loud, frame by frame."""

import numpy as np
import pytest

from newsstudio_ditto.media.loudness import QUIETEST_DB, Levels, SpeechOutline
from newsstudio_ditto.units import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, count_frames


def tone(frequency_hz: float, seconds: float = 1.0) -> np.ndarray:
    time_s = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    return np.sin(2 * np.pi * frequency_hz * time_s).astype(np.float32)


def vowels_of(samples: np.ndarray) -> Levels:
    return SpeechOutline(samples).vowels_db(range(count_frames(len(samples))))


def test_a_tone_inside_the_band_has_its_level_and_one_outside_has_none() -> None:
    inside, below, above = (vowels_of(tone(hz)) for hz in (1500, 200, 6000))
    assert inside[5:-5] == pytest.approx(-3.01, abs=0.05)
    assert below[5:-5].max() < -60
    assert above[5:-5].max() < -60


def test_there_is_one_level_for_each_started_frame() -> None:
    for num_samples in (0, 1, SAMPLES_PER_FRAME, SAMPLES_PER_FRAME + 1):
        assert len(vowels_of(np.zeros(num_samples, np.float32))) == -(-num_samples // SAMPLES_PER_FRAME)
    assert (vowels_of(np.zeros(SAMPLE_RATE_HZ, np.float32)) == QUIETEST_DB).all()


def test_a_level_is_that_of_its_moment() -> None:
    speech = np.concatenate([np.zeros(SAMPLE_RATE_HZ, np.float32), tone(1500)])
    levels = vowels_of(speech)
    assert levels[:23].max() == QUIETEST_DB
    assert levels[27:-2].min() > -4


def test_long_speech_is_the_same_as_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    speech = np.random.default_rng(0).normal(0, 0.1, 5 * SAMPLE_RATE_HZ + 77).astype(np.float32)
    whole = vowels_of(speech)
    monkeypatch.setattr("newsstudio_ditto.media.loudness._VOWEL_CHUNK_FRAMES", 7)
    np.testing.assert_allclose(vowels_of(speech), whole, atol=1e-4)
    np.testing.assert_allclose(SpeechOutline(speech).vowels_db(range(30, 60)), whole[30:60], atol=1e-4)
