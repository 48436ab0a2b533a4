"""Lips that stand still or lag are found; a good video and one without a face are not called faulty."""

from pathlib import Path

import numpy as np
import pytest

from newsstudio_ditto.lip_truth import LipMovement, is_speech, is_talk, lip_gap, liveliest, movement_of
from newsstudio_ditto.output_truth import check_video
from tests.media import clips

TALKING = Path(__file__).parents[1] / "media_files" / "talking_192.mp4"
BULLETIN = TALKING.with_name("bulletin_rms.wav")
LEVELS = np.where(np.arange(150) % 10 < 5, -20.0, -32.0).astype(np.float32) + np.sin(np.arange(150)) * 2
GAPS = ((LEVELS + 40) / 100).astype(np.float32)
LOUD = np.ones(150, bool)


def judged(gaps: np.ndarray, levels: np.ndarray = LEVELS) -> LipMovement:
    return movement_of(gaps.astype(np.float32), levels.astype(np.float32), is_speech(levels.astype(np.float32)))


def test_lips_that_follow_the_sound_are_good() -> None:
    movement = judged(GAPS)
    assert movement.faults() == []
    assert movement.warnings() == []
    assert (movement.lag_frames, movement.num_seen) == (0, 150)
    assert movement.correlation > 0.95


def test_lips_that_stand_still_are_a_fault() -> None:
    still = 0.02 + 0.004 * np.sin(np.arange(150) / 7)
    assert "stand still" in judged(still).faults()[0]


@pytest.mark.parametrize(("lag", "words"), [(4, "160 ms after"), (-4, "160 ms before"), (2, None), (-3, None)])
def test_a_lag_is_a_fault_from_four_frames_on(lag: int, words: str | None) -> None:
    levels = np.random.default_rng(3).uniform(-35, -15, 150)
    gaps = np.roll((levels + 40) / 200, lag)
    found = judged(gaps, levels).faults()
    assert found == [] if words is None else words in found[0]


def test_lips_that_move_at_random_are_doubtful() -> None:
    gaps = np.random.default_rng(5).uniform(0, 0.2, 150)
    movement = judged(gaps)
    assert movement.faults() == []
    assert "hardly move with the sound" in movement.warnings()[0]


def test_lips_that_move_in_silence_are_doubtful() -> None:
    levels = np.concatenate([LEVELS, np.full(60, -75.0)])
    gaps = np.concatenate([GAPS, 0.3 * (np.arange(60) % 2)])
    assert "in silence" in judged(gaps, levels).warnings()[0] or "hardly move" in judged(gaps, levels).warnings()[0]
    assert judged(gaps, levels).unrest is not None


def test_frames_without_a_face_are_left_out_and_counted() -> None:
    gaps = GAPS.copy()
    gaps[::3] = np.nan
    movement = judged(gaps)
    assert (movement.num_looked, movement.num_seen, movement.faults(), movement.warnings()) == (150, 100, [], [])
    gaps[:90] = np.nan
    assert "a face is to be seen in 40 of 150" in judged(gaps).warnings()[0]


def test_too_little_speech_and_even_tones_tell_nothing() -> None:
    assert not is_talk(LEVELS[:20], LOUD[:20])
    assert not is_talk(np.full(150, -20.0, np.float32), LOUD)
    assert is_talk(LEVELS, LOUD)
    assert not is_speech(np.full(100, -80.0, np.float32)).any()


TRACKS = Path(__file__).with_name("lip_tracks.npz")
"""Of seven rendered speeches of ten to fifteen seconds: lip gap, loudness, loudness of vowels, frame by frame."""


def stretches(num_frames: int, shift: int) -> list[LipMovement]:
    """What is found in stretches of these speeches whose lips come ``shift`` frames late."""
    with np.load(TRACKS) as file:
        tracks = [file[name].astype(np.float32) for name in file.files]
    found = []
    for gaps, levels, vowels in tracks:
        for start in range(12, len(gaps) - num_frames - 12, 7):
            part = slice(start, start + num_frames)
            loud = is_speech(levels[part])
            if is_talk(levels[part], loud):
                found.append(movement_of(gaps[start - shift :][:num_frames], vowels[part], loud))
    return found


@pytest.mark.parametrize("num_frames", [30, 45, 65, 80, 100, 150, 250])
def test_no_stretch_of_a_good_video_is_refused(num_frames: int) -> None:
    found = stretches(num_frames, 0)
    assert [movement.faults() for movement in found if movement.faults()] == []
    assert bool(found) == (num_frames > 40)
    compared = [movement.correlation for movement in found if movement.correlation is not None]
    assert bool(compared) == (num_frames > 60)
    assert all(correlation > 0.2 for correlation in compared)


@pytest.mark.parametrize("shift", [-8, 8])
def test_lips_that_lag_are_found_in_four_seconds(shift: int) -> None:
    looked = stretches(100, shift)
    found = [movement for movement in looked if movement.faults()]
    assert len(found) > 0.9 * len(looked)
    assert np.mean([movement.lag_frames * shift > 0 for movement in found]) > 0.95


def test_the_liveliest_stretch_is_looked_at() -> None:
    levels = np.full(500, -70.0, np.float32)
    levels[300:400] = np.tile([-20, -40], 50)
    found = liveliest(levels, 100)
    assert abs(found.start - 300) <= 1
    assert len(found) == 100
    assert liveliest(levels[:40], 100) == range(40)


def test_a_gap_does_not_depend_on_the_size_of_the_face() -> None:
    landmarks = np.zeros((478, 3), np.float32)
    landmarks[[33, 263], 0], landmarks[14, 1] = (10, 110), 7
    assert lip_gap(landmarks) == pytest.approx(0.07)
    assert lip_gap(landmarks * 3) == pytest.approx(0.07)


def test_a_rendered_video_is_good_and_the_same_with_late_sound_is_not(tmp_path: Path) -> None:
    good = check_video(TALKING)
    assert good.is_true, good.faults
    assert good.warnings == ()
    assert good.measured["lip_gap_spread"] > 0.03
    assert abs(good.measured["lip_lag_ms"]) <= 80
    late = ("-map", "0:v", "-map", "1:a", "-af", "aresample=async=1:first_pts=0", "-t", "4", "-c:v", "copy")
    clips.run_ffmpeg(tmp_path, "-i", str(TALKING), "-itsoffset", "0.28", "-i", str(TALKING), *late, "late.mp4")
    (fault,) = check_video(tmp_path / "late.mp4").faults
    assert "the lips move" in fault
    assert "before the sound" in fault


def test_a_silent_presenter_under_a_speech_is_a_fault(tmp_path: Path) -> None:
    joined = ("-map", "0:v", "-map", "1:a", "-t", "4", *clips.BT709)
    clips.run_ffmpeg(tmp_path, "-i", str(clips.ANCHOR), "-i", str(BULLETIN), *joined, "still.mp4")
    (fault,) = check_video(tmp_path / "still.mp4").faults
    assert "the lips stand still" in fault
    assert check_video(tmp_path / "still.mp4", lips="off").is_true
