"""Add vocoded copies to a speech corpus: ``python -m training.revoice CORPUS.npz OUT.npz``.

Each utterance that is trained on is taken apart by the WORLD vocoder and spoken again as statistical synthesisers do
it: fewer spectral coefficients, often means over what the voice says alike, blurred over time, less noise in the
voice, another pitch and moved formants. Utterances of voices that are such synthesisers have several copies. Times
stay. Needs ``pyworld``.
"""

import argparse
import io
import logging
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
from scipy.ndimage import gaussian_filter1d

from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.averaging import Pool, average_alike, frame_states
from training.files import read_arrays, save_arrays
from training.speech_set import compress, join, split_phones
from training.voices import to_16k

log = logging.getLogger(__name__)

SUFFIX = "-vocoded"
FRAME_PERIOD_MS = 5.0
FEWEST_COEFFICIENTS, MOST_COEFFICIENTS = 16, 40
LOWEST_MEAN_HZ, HIGHEST_MEAN_HZ = 75.0, 260.0
LEAST_BLUR_FRAMES, MOST_BLUR_FRAMES = 0.1, 3.0  # the least blurs nothing
FORMANT_SPREAD = 0.15
FLATTEST, LIVELIEST = 0.2, 1.3
AVERAGED_SHARE = 0.6  # of the copies
SMALLEST_MEAN, LARGEST_MEAN = 0.005, 0.15  # of the frames that a voice has in a part of a sound
POOL_UTTERANCES = 60
STATISTICAL, STATISTICAL_COPIES = ("slt", "awb", "hts", "pico", "rhvoice"), 2

Average = Callable[[np.ndarray, float], np.ndarray]


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
        averaged: share of what the voice has in a part of a sound that each spectrum is the mean of; 0 for none.
    """

    coefficients: int
    blur_frames: float
    mean_hz: float
    liveliness: float
    formants: float
    noise: float
    averaged: float = 0.0

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
            averaged=_draw_averaged(random),
        )


def _draw_averaged(random: np.random.Generator) -> float:
    share = float(np.exp(random.uniform(*np.log([SMALLEST_MEAN, LARGEST_MEAN]))))
    return share if random.random() < AVERAGED_SHARE else 0.0


@dataclass(frozen=True)
class Analysis:
    """An utterance taken apart, a row every :data:`FRAME_PERIOD_MS`.

    Args:
        num_samples: at 16 kHz.
        pitch_hz: (T,), zero where there is no voice.
        envelope: (T, F) spectra.
        noise: (T, F) aperiodicity, 0 to 1.
    """

    num_samples: int
    pitch_hz: np.ndarray
    envelope: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, samples: np.ndarray) -> "Analysis":
        """Take samples (S,) at 16 kHz apart."""
        import pyworld

        plain = samples.astype(np.float64)
        coarse, times_s = pyworld.dio(plain, SAMPLE_RATE_HZ, frame_period=FRAME_PERIOD_MS)
        pitch_hz = pyworld.stonemask(plain, coarse, times_s, SAMPLE_RATE_HZ)
        envelope = pyworld.cheaptrick(plain, pitch_hz, times_s, SAMPLE_RATE_HZ)
        return cls(len(plain), pitch_hz, envelope, pyworld.d4c(plain, pitch_hz, times_s, SAMPLE_RATE_HZ))


def code(envelope: np.ndarray, coefficients: int) -> np.ndarray:
    """Mel cepstrum (T, coefficients) of envelopes (T, F)."""
    import pyworld

    return np.asarray(pyworld.code_spectral_envelope(envelope, SAMPLE_RATE_HZ, coefficients))


def revoice(plain: Analysis, change: Change, average: Average | None = None) -> np.ndarray:
    """Samples (S,) float32 at 16 kHz: an utterance spoken by another voice at the same times.

    Args:
        plain: the utterance.
        change: what becomes of its voice.
        average: cepstrum and share -> averaged cepstrum; needed where ``change.averaged`` is not 0.
    """
    import pyworld

    cepstrum = code(plain.envelope, change.coefficients)
    if change.averaged and average is not None:
        cepstrum = average(cepstrum, change.averaged)
    smooth = np.ascontiguousarray(blur(cepstrum, change.blur_frames))
    size = (plain.envelope.shape[1] - 1) * 2
    moved = move_formants(pyworld.decode_spectral_envelope(smooth, SAMPLE_RATE_HZ, size), change.formants)
    noise = np.where(plain.noise < 1, plain.noise * change.noise, plain.noise)
    pitch_hz = move_pitch(plain.pitch_hz, change.mean_hz, change.liveliness)
    spoken = pyworld.synthesize(pitch_hz, moved, noise, SAMPLE_RATE_HZ, FRAME_PERIOD_MS)[: plain.num_samples]
    return to_16k(np.pad(spoken, (0, plain.num_samples - len(spoken))), SAMPLE_RATE_HZ)


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


@dataclass(frozen=True)
class Part:
    """Some utterances of one voice.

    Args:
        packed: bytes of Ogg files, by number of the utterance.
        phones: rows (kind, start, end) of each.
        copies: how many to make of each.
    """

    packed: dict[int, bytes]
    phones: dict[int, np.ndarray]
    copies: int


def revoice_part(part: Part, seed: int) -> list[tuple[int, np.ndarray]]:
    """Number of the utterance and Ogg bytes of every copy."""
    plain = {i: Analysis.of(soundfile.read(io.BytesIO(one), dtype="float32")[0]) for i, one in part.packed.items()}
    cepstra = {i: code(one.envelope, MOST_COEFFICIENTS) for i, one in plain.items()}
    states = {i: frame_states(part.phones[i], len(one), FRAME_PERIOD_MS / 1000) for i, one in cepstra.items()}
    pool = Pool.of(cepstra, states)

    def average(utterance: int, cepstrum: np.ndarray, share: float) -> np.ndarray:
        return average_alike(cepstrum, states[utterance], utterance, pool, share)

    made = []
    for i, one in plain.items():
        for copy in range(part.copies):
            change = Change.draw(np.random.default_rng([seed, i, copy]))
            made.append((i, compress(revoice(one, change, partial(average, i)))))
    return made


def list_parts(corpus: dict[str, np.ndarray]) -> list[Part]:
    """What is trained on, voice by voice, in parts that share a pool; the largest first."""
    phones = split_phones(corpus["phones"], len(corpus["voices"]))
    trained = corpus["splits"] == "train"
    parts = []
    for voice in dict.fromkeys(corpus["voices"][trained]):
        numbers = np.flatnonzero(trained & (corpus["voices"] == voice))
        copies = STATISTICAL_COPIES if any(name in voice for name in STATISTICAL) else 1
        for some in np.array_split(numbers, -(-len(numbers) // POOL_UTTERANCES)):
            packed = {int(i): corpus[f"ogg/{i}"].tobytes() for i in some}
            parts.append(Part(packed, {i: phones[i] for i in packed}, copies))
    return sorted(parts, key=lambda part: -part.copies * len(part.packed))


def add_vocoded(corpus: dict[str, np.ndarray], workers: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The corpus with vocoded copies of each utterance that is trained on."""
    with ProcessPoolExecutor(workers) as pool:
        made = [copy for some in pool.map(partial(revoice_part, seed=seed), list_parts(corpus)) for copy in some]
    chosen = [i for i, _ in made]
    phones = split_phones(corpus["phones"], len(corpus["voices"]))
    tables = [np.insert(phones[i], 0, number, axis=1) for number, i in enumerate(chosen)]
    copies = {
        **{f"ogg/{number}": packed for number, (_, packed) in enumerate(made)},
        "phones": np.concatenate(tables),
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
