"""Build the speech corpus: ``python -m training.speech_set OUT.npz``.

One archive: compressed speech per utterance, and one table of phones. Sentences from ``NUM_TRAIN`` on are kept for
evaluation, and the voice ``rms`` is never in the training part.
"""

import argparse
import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.align import align_text
from training.sentences import write_sentences
from training.viseme import PHONE_NAMES, Phone
from training.voices import EspeakVoice, FliteVoice, HibariVoice, Utterance, Voice

log = logging.getLogger(__name__)

NUM_SENTENCES = 320
NUM_TRAIN = 300
HELD_OUT_VOICE = "rms"
HIBARI_SPEEDS = (1.0, 0.9, 1.12)
FLITE_TRAIN = {"slt": 100, "awb": 100, "kal16": 80}
REALIGNED = ("hibari",)
ESPEAK_VARIANTS = ("", "+f2", "+f4", "+m3", "+m5", "+klatt2", "+steph", "+Michael", "+Andy")
ESPEAK_TRAIN = {f"en-us{variant}": 28 for variant in ESPEAK_VARIANTS}


@dataclass(frozen=True)
class Job:
    """One utterance to make."""

    voice: str
    split: str
    sentence: int


def list_jobs(scale: float = 1.0) -> Iterator[tuple[str, Job]]:
    """Voice key and job; ``scale`` below 1 makes a smaller corpus."""
    num_train = max(int(NUM_TRAIN * scale), 2)
    for i in range(num_train):
        speed = HIBARI_SPEEDS[i % len(HIBARI_SPEEDS)]
        yield f"hibari@{speed}", Job("hibari", "train", i)
    for shift, (name, count) in enumerate((FLITE_TRAIN | ESPEAK_TRAIN).items()):
        key = f"flite@{name}" if name in FLITE_TRAIN else f"espeak@{name}"
        for i in range(max(int(count * scale), 1)):
            yield key, Job(name, "train", (37 * shift + 3 * i) % NUM_TRAIN)
    for i in range(NUM_TRAIN, NUM_TRAIN + max(int((NUM_SENTENCES - NUM_TRAIN) * scale), 1)):
        yield "hibari@1.0", Job("hibari", "test", i)
        yield f"flite@{HELD_OUT_VOICE}", Job(HELD_OUT_VOICE, "test", i)


def open_voice(key: str) -> Voice:
    """The voice a key names."""
    kind, _, name = key.partition("@")
    if kind == "hibari":
        return HibariVoice(speed=float(name))
    return FliteVoice(name) if kind == "flite" else EspeakVoice(name)


def realign(spoken: Utterance, text: str, voice: str) -> Utterance:
    """Replace the phone times of a voice whose own times are coarse by a forced alignment, where that succeeds."""
    if voice not in REALIGNED:
        return spoken
    try:
        return Utterance(spoken.samples, align_text(spoken.samples, text))
    except ValueError:
        log.info("kept the voice's own phone times: %s", text)
        return spoken


def compress(samples: np.ndarray) -> np.ndarray:
    """16 kHz float samples -> bytes of an Ogg Opus file."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, SAMPLE_RATE_HZ, format="OGG", subtype="OPUS", compression_level=0.93)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def phone_table(utterance: int, phones: list[Phone]) -> np.ndarray:
    """Rows (utterance, phone index, start, end) float32."""
    rows = [(utterance, PHONE_NAMES.index(p.name), p.start_s, p.end_s) for p in phones]
    return np.array(rows, np.float32).reshape(-1, 4)


def build(scale: float = 1.0) -> dict[str, np.ndarray]:
    """All arrays of the archive."""
    sentences = write_sentences(NUM_SENTENCES)
    voices: dict[str, Voice] = {}
    arrays: dict[str, np.ndarray] = {}
    tables: list[np.ndarray] = []
    jobs = list(list_jobs(scale))
    for number, (key, job) in enumerate(jobs):
        voice = voices.setdefault(key, open_voice(key)) if key not in voices else voices[key]
        spoken = realign(voice(sentences[job.sentence]), sentences[job.sentence], job.voice)
        arrays[f"ogg/{number}"] = compress(spoken.samples)
        tables.append(phone_table(number, spoken.phones))
    arrays["phones"] = np.concatenate(tables)
    arrays["voices"] = np.array([job.voice for _, job in jobs])
    arrays["splits"] = np.array([job.split for _, job in jobs])
    arrays["sentences"] = np.array([sentences[job.sentence] for _, job in jobs])
    return arrays


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the utterances")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    np.savez(options.out, **build(options.scale))
    log.info("wrote %s, %.1f MB", options.out, options.out.stat().st_size / 1e6)


if __name__ == "__main__":
    main()
