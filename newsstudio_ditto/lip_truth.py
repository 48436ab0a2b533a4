"""Whether the lips of a video move with its sound: measured on landmarks of the finished pictures."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.faces.finder import FaceFinder
from newsstudio_ditto.media.excerpt import decode_excerpt
from newsstudio_ditto.media.facts import ColourTags
from newsstudio_ditto.media.loudness import QUIETEST_DB, Levels, SpeechOutline, frame_levels
from newsstudio_ditto.units import FRAME_RATE_HZ

LipCheck = Literal["off", "sampled", "whole"]
"""How much of a video is looked at: nothing, four seconds of it, or all of it."""

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

SAMPLED_FRAMES = 100
LEAST_SPREAD = 0.01
"""Standard deviation of the lip gap in speech, of the distance between the eyes. Speech has 0.04 to 0.07, a face that
is silent 0.006."""

MOST_LAG = 3
"""Frames between lips and sound; viewers begin to mind at about as many."""

LEAST_CORRELATION = 0.3
MOST_UNREST = 1.25
"""Movement in silence over movement in speech above which a video is called restless."""

_LAGS = range(-12, 13)
_CLEARLY_BETTER = 0.15
_LOUD_DB = 35.0
_FEWEST_LOUD, _FEWEST_TO_COMPARE = 40, 60
"""Of less than that, some good videos would be taken for ones whose lips lag, or stand still."""

_VARIED_DB = 2.0
_FEWEST_IN_GROUP = 8
_INNER_LIPS, _OUTER_EYES = (13, 14), (33, 263)


@dataclass(frozen=True)
class LipMovement:
    """What the lips do while somebody speaks. A gap is measured in distances between the outer corners of the eyes.

    Args:
        num_looked: frames looked at.
        num_seen: frames of these with a face.
        spread: standard deviation of the gap in speech; None when there is too little speech to tell anything.
        correlation: of gap and loudness of vowels, at the lag where it is highest; None when there is too little speech
            to compare.
        lag_frames: that lag; positive when the lips come after the sound.
        gain: by how much that lag fits better than any within the limit.
        unrest: movement in silence over movement in speech; None where there is too little of either.
    """

    num_looked: int
    num_seen: int
    spread: float | None = None
    correlation: float | None = None
    lag_frames: int = 0
    gain: float = 0.0
    unrest: float | None = None

    def faults(self) -> list[str]:
        """Sentences about what no viewer would take for speech; empty if all is well."""
        if self.spread is None:
            return []
        if self.spread < LEAST_SPREAD:
            return [f"the lips stand still while somebody speaks: their gap varies by {self.spread:.4f}"]
        is_clear = (self.correlation or 0.0) >= LEAST_CORRELATION and self.gain > _CLEARLY_BETTER
        if is_clear and abs(self.lag_frames) > MOST_LAG:
            when = "after" if self.lag_frames > 0 else "before"
            return [f"the lips move {abs(self.lag_frames) * 1000 // FRAME_RATE_HZ} ms {when} the sound"]
        return []

    def warnings(self) -> list[str]:
        """Sentences about what is doubtful; empty if all is well."""
        if self.num_seen < self.num_looked / 2:
            return [f"a face is to be seen in {self.num_seen} of {self.num_looked} frames that were looked at"]
        if self.spread is None or self.faults():
            return []
        if self.correlation is not None and self.correlation < LEAST_CORRELATION:
            return [f"the lips hardly move with the sound: correlation {self.correlation:.2f}"]
        if self.unrest is not None and self.unrest > MOST_UNREST:
            return [f"the lips move {self.unrest:.1f} times as much in silence as in speech"]
        return []

    def measured(self) -> dict[str, float]:
        """Numbers worth showing."""
        if self.spread is None:
            return {"frames_looked_at": self.num_looked, "frames_with_face": self.num_seen}
        return {
            "frames_looked_at": self.num_looked,
            "frames_with_face": self.num_seen,
            "lip_gap_spread": round(self.spread, 4),
            **(
                {}
                if self.correlation is None
                else {
                    "lip_sound_correlation": round(self.correlation, 3),
                    "lip_lag_ms": self.lag_frames * 1000 / FRAME_RATE_HZ,
                }
            ),
            **({} if self.unrest is None else {"unrest_in_silence": round(self.unrest, 3)}),
        }


def measure_lips(path: Path, colour: ColourTags, speech: SpeechOutline, *, whole: bool = False) -> LipMovement:
    """Find the face in frames of a video and compare its lips with the loudness of the speech.

    Args:
        path: the video, 25 frames a second.
        colour: its tags.
        speech: what is said.
        whole: every frame; otherwise the four seconds with the liveliest speech.

    Raises:
        MediaError: the pictures cannot be decoded.
    """
    levels_db = frame_levels(speech.levels_db)
    frames = range(len(levels_db)) if whole else liveliest(levels_db, SAMPLED_FRAMES)
    loud = is_speech(levels_db)[frames.start : frames.stop]
    if not is_talk(levels_db[frames.start : frames.stop], loud):
        return LipMovement(0, 0)
    gaps = np.full(len(frames), np.nan, np.float32)
    tracker = _finder().tracker()
    for index, picture in decode_excerpt(path, frames, colour):
        face = tracker.step(picture)
        if face is not None:
            gaps[index - frames.start] = lip_gap(face.landmarks)
    return movement_of(gaps, speech.vowels_db(frames), loud)


@lru_cache(maxsize=1)
def _finder() -> FaceFinder:
    return FaceFinder()


def lip_gap(landmarks: Floats) -> float:
    """Gap between the inner lips over the distance of the outer eye corners. ``landmarks``: (478, 3) px."""
    upper, lower, right, left = landmarks[[*_INNER_LIPS, *_OUTER_EYES], :2]
    return float(np.linalg.norm(upper - lower) / max(float(np.linalg.norm(right - left)), 1e-6))


def liveliest(levels_db: Levels, num_frames: int) -> range:
    """The stretch of at most ``num_frames`` frames in which loudness (T,) changes most."""
    if len(levels_db) <= num_frames:
        return range(len(levels_db))
    audible = levels_db.clip(min=float(levels_db.max()) - _LOUD_DB)
    changes = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(audible)))])
    start = int(np.argmax(changes[num_frames - 1 :] - changes[: len(changes) - num_frames + 1]))
    return range(start, start + num_frames)


def is_speech(levels_db: Levels) -> Flags:
    """(T,) one flag for each frame: within 35 dB of the loudest. ``levels_db``: (T,)."""
    return np.asarray((levels_db > levels_db.max(initial=QUIETEST_DB) - _LOUD_DB) & (levels_db > QUIETEST_DB + 20))


def is_talk(levels_db: Levels, loud: Flags) -> bool:
    """Whether there is enough speech to judge lips by: it is long enough, and its loudness varies as words do."""
    return int(loud.sum()) >= _FEWEST_LOUD and float(levels_db[loud].std()) >= _VARIED_DB


def movement_of(gaps: Floats, vowels_db: Levels, loud: Flags) -> LipMovement:
    """Compare lip gaps (T,), NaN without a face, with loudness of vowels (T,) and with where it is speech (T,)."""
    seen = np.isfinite(gaps)
    num_seen, num_loud = int(seen.sum()), int((seen & loud).sum())
    if num_loud < _FEWEST_LOUD:
        return LipMovement(len(gaps), num_seen)
    spread = float(gaps[seen & loud].std())
    if num_loud < _FEWEST_TO_COMPARE:
        return LipMovement(len(gaps), num_seen, spread)
    audible = vowels_db.clip(min=float(vowels_db.max()) - _LOUD_DB)
    found = {lag: _correlation(gaps, audible, lag) for lag in _LAGS}
    best = max(found, key=lambda lag: found[lag])
    near = max(correlation for lag, correlation in found.items() if abs(lag) <= MOST_LAG)
    return LipMovement(len(gaps), num_seen, spread, found[best], best, found[best] - near, _unrest(gaps, loud))


def _correlation(gaps: Floats, levels_db: Levels, lag: int) -> float:
    """Correlation of the gap ``lag`` frames later with the loudness; 0 where nothing varies."""
    late, early = gaps[max(lag, 0) :][: len(gaps) - abs(lag)], levels_db[max(-lag, 0) :][: len(gaps) - abs(lag)]
    seen = np.isfinite(late)
    if seen.sum() < _FEWEST_LOUD or float(late[seen].std()) < 1e-6 or float(early[seen].std()) < 1e-6:
        return 0.0
    return float(np.corrcoef(late[seen], early[seen])[0, 1])


def _unrest(gaps: Floats, loud: Flags) -> float | None:
    import pandas as pd  # half a second, and few renders look at lips

    table = pd.DataFrame({"change": np.abs(np.diff(gaps)), "loud": loud[1:]}).dropna()
    moved = table.groupby("loud")["change"].agg(["mean", "size"]).reindex([True, False])
    moved = moved[moved["size"] >= _FEWEST_IN_GROUP]
    return float(moved["mean"][False] / max(moved["mean"][True], 1e-6)) if len(moved) == 2 else None
