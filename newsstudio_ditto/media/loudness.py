"""Loudness every 10 ms, and that of vowels: of a speech in memory, and of the sound inside a finished video."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import av
import numpy as np
from av.audio.resampler import AudioResampler
from av.container import InputContainer
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from newsstudio_ditto.errors import MediaError
from newsstudio_ditto.media.container import describe_error, open_container
from newsstudio_ditto.units import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

Levels = NDArray[np.float32]

LEVELS_PER_S = 100
SAMPLES_PER_LEVEL = SAMPLE_RATE_HZ // LEVELS_PER_S
LEVELS_PER_FRAME = SAMPLES_PER_FRAME // SAMPLES_PER_LEVEL
QUIETEST_DB = -80.0
VOWEL_BAND_HZ = (800, 3000)
"""Where open vowels are loud and hums, hisses and closed lips are not: lips follow the loudness there better
(correlation 0.6 on rendered speech) than that of everything (0.37)."""

_CHUNK_LEVELS = 60 * LEVELS_PER_S
_VOWEL_MARGIN = SAMPLES_PER_FRAME
_VOWEL_WINDOW = SAMPLES_PER_FRAME + 2 * _VOWEL_MARGIN
_VOWEL_CHUNK_FRAMES = 500
_RUN_UP_S = 0.25
"""An AAC decoder that starts in the middle needs a packet or two before its sound is right."""


@dataclass(frozen=True, eq=False)
class SpeechOutline:
    """What of a speech is compared with a video; each part is worked out when it is first looked at.

    Args:
        samples: (samples,) float32, 16 kHz.
    """

    samples: NDArray[np.float32]

    @property
    def num_samples(self) -> int:
        """16 kHz samples."""
        return len(self.samples)

    @cached_property
    def levels_db(self) -> Levels:
        """(K,) loudness of each started 10 ms, dB of full scale, -80 at least."""
        return levels_of(self.samples)

    def vowels_db(self, frames: range) -> Levels:
        """(len(frames),) loudness of some video frames where vowels are loud, as :func:`vowels_of` has it."""
        return vowels_of(self.samples, frames)


def levels_of(samples: NDArray[np.float32]) -> Levels:
    """(K,) loudness of every started 10 ms of ``samples`` (samples,) at 16 kHz, dB of full scale, -80 at least."""
    step = _CHUNK_LEVELS * SAMPLES_PER_LEVEL
    chunks = [_levels(samples[start : start + step]) for start in range(0, len(samples), step)]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.float32)


def _levels(samples: NDArray[np.float32]) -> Levels:
    whole = np.pad(samples, (0, -len(samples) % SAMPLES_PER_LEVEL)).reshape(-1, SAMPLES_PER_LEVEL)
    return _decibels(np.square(whole).mean(axis=1))


def _decibels(power: NDArray[np.float32]) -> Levels:
    return (10 * np.log10(np.maximum(power, 1e-12))).clip(QUIETEST_DB).astype(np.float32)


def vowels_of(samples: NDArray[np.float32], frames: range) -> Levels:
    """(len(frames),) loudness around video frames between 800 and 3000 Hz, dB of full scale, -80 at least.

    Args:
        samples: (samples,) at 16 kHz.
        frames: which of the frames of this speech, one after the other.
    """
    levels = np.zeros(len(frames), np.float32)
    for done in range(0, len(frames), _VOWEL_CHUNK_FRAMES):
        chunk = frames[done : done + _VOWEL_CHUNK_FRAMES]
        first, last = chunk.start * SAMPLES_PER_FRAME - _VOWEL_MARGIN, chunk.stop * SAMPLES_PER_FRAME + _VOWEL_MARGIN
        missing = max(-first, 0), max(last - len(samples), 0)
        part = np.pad(samples[max(first, 0) : last], missing)
        windows = sliding_window_view(part, _VOWEL_WINDOW)[::SAMPLES_PER_FRAME]
        levels[done : done + len(chunk)] = _band_levels(windows)
    return levels


def _band_levels(windows: NDArray[np.float32]) -> Levels:
    shape = np.hanning(_VOWEL_WINDOW).astype(np.float32)
    spectra = np.fft.rfft(windows * shape, axis=1)
    frequency_hz = np.fft.rfftfreq(_VOWEL_WINDOW, 1 / SAMPLE_RATE_HZ)
    low, high = np.searchsorted(frequency_hz, VOWEL_BAND_HZ)
    return _decibels(2 * np.square(np.abs(spectra[:, low:high])).sum(axis=1) / (_VOWEL_WINDOW * np.square(shape).sum()))


def frame_levels(levels_db: Levels) -> Levels:
    """(T,) loudness of each video frame, from levels (K,) every 10 ms."""
    power = np.pad(10 ** (levels_db / 10), (0, -len(levels_db) % LEVELS_PER_FRAME))
    return _decibels(power.reshape(-1, LEVELS_PER_FRAME).mean(axis=1))


def heard_levels(path: Path, spans: list[range]) -> Iterator[Levels]:
    """Loudness of the first sound stream of a video, decoded nowhere but in some spans of 10 ms units.

    Args:
        path: the video.
        spans: in any order; one that reaches beyond the end of the sound is silent there.

    Yields:
        (len(span),) dB of full scale, by the video's own timestamps.

    Raises:
        MediaError: the file cannot be opened, holds no sound, or breaks off.
    """
    with open_container(path) as container:
        if not container.streams.audio:
            raise MediaError(f"{path} holds no sound", "give a video with sound")
        for span in spans:
            try:
                yield _levels(_samples(container, span))
            except av.FFmpegError as error:
                reason = describe_error(error)
                raise MediaError(f"the sound of {path} cannot be decoded: {reason}", "render it again") from error


def _samples(container: InputContainer, span: range) -> NDArray[np.float32]:
    """Samples (n,) of a span at 16 kHz; what is not there is silent."""
    first, count = span.start * SAMPLES_PER_LEVEL, len(span) * SAMPLES_PER_LEVEL
    samples = np.zeros(count, np.float32)
    stream = container.streams.audio[0]
    begin_s = max(first / SAMPLE_RATE_HZ - _RUN_UP_S, 0.0)
    container.seek(int(begin_s / float(stream.time_base or 1)), stream=stream)
    # 16 bits, as the level of a stereo mix would otherwise depend on the sample format.
    resampler = AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE_HZ)
    for frame in container.decode(stream):
        for part in resampler.resample(frame):
            start = round(part.time * SAMPLE_RATE_HZ) - first if part.time is not None else 0
            if start >= count:
                return samples
            kept = slice(max(start, 0), max(start + part.samples, 0))
            piece = part.to_ndarray().reshape(-1)[kept.start - start :]
            room = samples[kept]
            room[:] = piece[: len(room)] / np.float32(32768)
    return samples
