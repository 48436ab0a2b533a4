"""Whether the sound of a video is the whole speech, at the right moment."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newsstudio_ditto.media.loudness import LEVELS_PER_S, QUIETEST_DB, Levels, SpeechOutline, heard_levels

MOST_SHIFT = 4
"""Tens of milliseconds by which the sound may be early or late: one frame."""

_CHUNK = 2 * LEVELS_PER_S
_CHUNKS_HEARD = 12
_SEARCHED = 30
_LOUD_BELOW_PEAK_DB = 30.0
_SILENT_BELOW_SPEECH_DB = 18.0
_FEWEST_LOUD = 10
_MOST_LOST = 0.05
_VARIED_DB = 3.0
_SAME_DB = 6.0
_CLEARLY_BETTER_DB = 0.5


@dataclass(frozen=True)
class SoundMatch:
    """How the sound of a video compares with the speech.

    Args:
        faults: sentences; empty if it is the speech.
        lost: share of the loud tens of milliseconds that cannot be heard.
        shift_ms: how much later than the speech it is heard, where that differs most; None if nothing tells.
        difference_db: mean difference of loudness where it is largest, shift and gain apart.
    """

    faults: tuple[str, ...]
    lost: float
    shift_ms: int | None
    difference_db: float


def match_sound(path: Path, speech: SpeechOutline, *, whole: bool = False) -> SoundMatch:
    """Compare loudness over time, which survives any encoder, in chunks of two seconds.

    Args:
        path: the video.
        speech: what should be heard in it.
        whole: every chunk; otherwise at most twelve, spread from the first to the last.

    Raises:
        MediaError: the sound cannot be decoded.
    """
    chunks = _chunks(len(speech.levels_db), whole=whole)
    heard = list(heard_levels(path, chunks))
    said = [speech.levels_db[chunk.start : chunk.stop] for chunk in chunks]
    everything = np.concatenate(said)
    loud_db = max(float(everything.max()) - _LOUD_BELOW_PEAK_DB, QUIETEST_DB + _SILENT_BELOW_SPEECH_DB)
    gain_db = _gain(everything, np.concatenate(heard), loud_db)
    floor_db = loud_db - _SILENT_BELOW_SPEECH_DB
    pairs = [
        (chunk, wanted.clip(min=floor_db), (got - gain_db).clip(min=floor_db))
        for chunk, wanted, got in zip(chunks, said, heard, strict=True)
        if (wanted > loud_db).sum() >= _FEWEST_LOUD
    ]
    lost, lost_at = _lost(pairs, loud_db)
    shifts = [(chunk, *_shift(wanted, got)) for chunk, wanted, got in pairs]
    faults = []
    if lost > _MOST_LOST:
        faults.append(f"{lost:.0%} of the speech cannot be heard, the first from {lost_at:.2f} s on")
    else:
        faults += _shift_faults(shifts)
    told = [shift for _, shift, _ in shifts if shift is not None]
    worst = max(told, key=abs, default=None)
    difference = max((difference for _, _, difference in shifts), default=0.0)
    return SoundMatch(tuple(faults), lost, None if worst is None else worst * 1000 // LEVELS_PER_S, difference)


def _chunks(num_levels: int, *, whole: bool) -> list[range]:
    starts = list(range(0, num_levels, _CHUNK))
    if not whole and len(starts) > _CHUNKS_HEARD:
        kept = np.linspace(0, len(starts) - 1, _CHUNKS_HEARD).round().astype(int)
        starts = [starts[index] for index in kept]
    return [range(start, min(start + _CHUNK, num_levels)) for start in starts]


def _gain(said: Levels, heard: Levels, loud_db: float) -> float:
    """Usual difference where the speech is loud: a mix of channels may be louder or softer as a whole."""
    is_loud = (said > loud_db) & (heard > loud_db - _SILENT_BELOW_SPEECH_DB)
    return float(np.median((heard - said)[is_loud])) if is_loud.any() else 0.0


def _lost(pairs: list[tuple[range, Levels, Levels]], loud_db: float) -> tuple[float, float]:
    """Share of loud levels that are nearly silent in the video, even right beside; and the second of the first."""
    num_loud = num_lost = 0
    first_s = 0.0
    for chunk, wanted, got in pairs:
        around = np.max([np.roll(got, shift) for shift in range(-MOST_SHIFT, MOST_SHIFT + 1)], axis=0)
        is_loud = wanted > loud_db
        is_lost = is_loud & (around < wanted - _SILENT_BELOW_SPEECH_DB)
        if not num_lost and is_lost.any():
            first_s = (chunk.start + int(np.argmax(is_lost))) / LEVELS_PER_S
        num_loud, num_lost = num_loud + int(is_loud.sum()), num_lost + int(is_lost.sum())
    return num_lost / max(num_loud, 1), first_s


def _shift(wanted: Levels, got: Levels) -> tuple[int | None, float]:
    """Levels by which ``got`` is later than ``wanted`` (None where loudness is too even to tell), and what is left."""
    reach = min(_SEARCHED, len(wanted) // 2)
    left = {shift: _difference(wanted, got, shift) for shift in range(-reach, reach + 1)}
    if float(wanted.std()) < _VARIED_DB:
        return None, left[0]
    best = min(left, key=lambda shift: (left[shift], abs(shift)))
    near = min(difference for shift, difference in left.items() if abs(shift) <= MOST_SHIFT)
    return (best if left[best] < near - _CLEARLY_BETTER_DB or abs(best) <= MOST_SHIFT else 0), left[best]


def _difference(wanted: Levels, got: Levels, shift: int) -> float:
    count = len(wanted) - abs(shift)
    early = wanted[max(-shift, 0) :][:count]
    late = got[max(shift, 0) :][:count]
    return float(np.abs(early - late).mean())


def _shift_faults(shifts: list[tuple[range, int | None, float]]) -> list[str]:
    for chunk, shift, difference in shifts:
        at = f"at {chunk.start / LEVELS_PER_S:.0f} s"
        if difference > _SAME_DB:
            return [f"the sound {at} is not the speech: loudness differs by {difference:.1f} dB on average"]
        if shift is not None and abs(shift) > MOST_SHIFT:
            how = "late" if shift > 0 else "early"
            return [f"the sound {at} is {abs(shift) * 1000 // LEVELS_PER_S} ms too {how}"]
    return []
