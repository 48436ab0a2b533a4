"""Add vocoded copies to a speech corpus: ``python -m training.revoice CORPUS.npz OUT.npz``.

Each utterance that is trained on is taken apart by the WORLD vocoder and spoken again as statistical synthesisers do
it: fewer spectral coefficients, blurred over time, less noise in the voice, another pitch and moved formants. Times
stay. Needs ``pyworld``.
"""

import argparse
import io
import logging
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
from scipy.ndimage import gaussian_filter1d

from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.files import read_arrays, save_arrays
from training.speech_set import compress, join
from training.voices import to_16k

log = logging.getLogger(__name__)

SUFFIX = "-vocoded"
FRAME_PERIOD_MS = 5.0
FEWEST_COEFFICIENTS, MOST_COEFFICIENTS = 16, 40
LOWEST_MEAN_HZ, HIGHEST_MEAN_HZ = 75.0, 260.0
LEAST_BLUR_FRAMES, MOST_BLUR_FRAMES = 0.1, 3.0  # the least blurs nothing
FORMANT_SPREAD = 0.15
FLATTEST, LIVELIEST = 0.2, 1.3


@dataclass(frozen=True)
class Change:
    """What becomes of a voice.

    Args:
        coefficients: of the mel cepstrum that is kept of each spectrum.
        blur_frames: standard deviation over time, frames of 5 ms.
        mean_hz: pitch on average.
        liveliness: how much the pitch moves, over how much it did.
        formants: what frequencies of the envelope are multiplied by.
        noise: share of the voice's aperiodicity that stays.
    """

    coefficients: int
    blur_frames: float
    mean_hz: float
    liveliness: float
    formants: float
    noise: float

    @classmethod
    def draw(cls, random: np.random.Generator) -> "Change":
        """Any of them."""
        low, high = np.log([LOWEST_MEAN_HZ, HIGHEST_MEAN_HZ])
        return cls(
            coefficients=int(random.integers(FEWEST_COEFFICIENTS, MOST_COEFFICIENTS + 1)),
            blur_frames=float(random.uniform(0, MOST_BLUR_FRAMES)),
            mean_hz=float(np.exp(random.uniform(low, high))),
            liveliness=float(random.uniform(FLATTEST, LIVELIEST)),
            formants=float(np.exp(random.uniform(-FORMANT_SPREAD, FORMANT_SPREAD))),
            noise=float(random.uniform(0, 1)),
        )


def revoice(samples: np.ndarray, change: Change) -> np.ndarray:
    """Samples (S,) float32 at 16 kHz, spoken by another voice at the same times."""
    import pyworld

    plain = samples.astype(np.float64)
    coarse, times_s = pyworld.dio(plain, SAMPLE_RATE_HZ, frame_period=FRAME_PERIOD_MS)
    pitch_hz = pyworld.stonemask(plain, coarse, times_s, SAMPLE_RATE_HZ)
    envelope = pyworld.cheaptrick(plain, pitch_hz, times_s, SAMPLE_RATE_HZ)
    noise = pyworld.d4c(plain, pitch_hz, times_s, SAMPLE_RATE_HZ)
    size = (envelope.shape[1] - 1) * 2
    cepstrum = pyworld.code_spectral_envelope(envelope, SAMPLE_RATE_HZ, change.coefficients)
    smooth = np.ascontiguousarray(blur(cepstrum, change.blur_frames))
    moved = move_formants(pyworld.decode_spectral_envelope(smooth, SAMPLE_RATE_HZ, size), change.formants)
    voiced = np.where(noise < 1, noise * change.noise, noise)
    pitch_hz = move_pitch(pitch_hz, change.mean_hz, change.liveliness)
    spoken = pyworld.synthesize(pitch_hz, moved, voiced, SAMPLE_RATE_HZ, FRAME_PERIOD_MS)[: len(samples)]
    return to_16k(np.pad(spoken, (0, len(samples) - len(spoken))), SAMPLE_RATE_HZ)


def blur(rows: np.ndarray, spread: float) -> np.ndarray:
    """Rows (T, C) blurred over T by a gaussian of that standard deviation."""
    reach = int(3 * MOST_BLUR_FRAMES)
    return gaussian_filter1d(rows, max(spread, LEAST_BLUR_FRAMES), axis=0, mode="nearest", radius=reach)


def move_formants(envelope: np.ndarray, factor: float) -> np.ndarray:
    """Envelopes (T, F) with their frequencies multiplied by a factor."""
    bins = np.arange(envelope.shape[1])
    return np.stack([np.interp(bins / factor, bins, row) for row in envelope])


def move_pitch(pitch_hz: np.ndarray, mean_hz: float, liveliness: float) -> np.ndarray:
    """Pitch (T,), zero where there is no voice, around another mean."""
    voiced = pitch_hz > 0
    if not voiced.any():
        return pitch_hz
    height = np.log(pitch_hz[voiced])
    moved = np.zeros_like(pitch_hz)
    moved[voiced] = np.exp(np.log(mean_hz) + liveliness * (height - height.mean()))
    return moved


def _revoice_packed(job: tuple[int, bytes], seed: int) -> np.ndarray:
    number, packed = job
    samples, _ = soundfile.read(io.BytesIO(packed), dtype="float32")
    return compress(revoice(samples, Change.draw(np.random.default_rng([seed, number]))))


def add_vocoded(corpus: dict[str, np.ndarray], workers: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The corpus with a vocoded copy of each utterance that is trained on."""
    chosen = [int(i) for i in np.flatnonzero(corpus["splits"] == "train")]
    jobs = [(i, corpus[f"ogg/{i}"].tobytes()) for i in chosen]
    with ProcessPoolExecutor(workers) as pool:
        spoken = list(pool.map(partial(_revoice_packed, seed=seed), jobs, chunksize=8))
    phones = [corpus["phones"][corpus["phones"][:, 0] == i] for i in chosen]
    for number, rows in enumerate(phones):
        rows[:, 0] = number
    copies = {
        **{f"ogg/{number}": packed for number, packed in enumerate(spoken)},
        "phones": np.concatenate(phones),
        "voices": np.array([f"{corpus['voices'][i]}{SUFFIX}" for i in chosen]),
        "splits": corpus["splits"][chosen],
        "sentences": corpus["sentences"][chosen],
    }
    return join([corpus, copies])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    save_arrays(add_vocoded(read_arrays(options.corpus), options.workers), options.out)
    log.info("wrote %s, %.1f MB", options.out, options.out.stat().st_size / 1e6)


if __name__ == "__main__":
    main()
