"""Build the speech corpus: ``python -m training.speech_set OUT.npz``.

One archive: compressed speech per utterance, and one table of phones. Each voice is made by itself and kept in the
folder OUT.voices until all are there, so a build that was cut off goes on, and ``--workers`` make several at a time.

Three splits: ``train``; ``dev``, sentences and voices that a run never sees, to choose settings by; and ``test``,
other sentences by a known voice and by ``rms``, to be looked at in the end. Half of what is judged by consists of words
that are not trained on either.
"""

import argparse
import hashlib
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.align import align_text
from training.festival_voice import FestivalVoice
from training.files import read_arrays, save_arrays
from training.kokoro_voice import ACCENTED, ENGLISH, SPEEDS, KokoroVoice
from training.pico_voice import PicoVoice
from training.rhvoice_voice import RHVoiceVoice
from training.sentences import write_sentences
from training.viseme import PHONE_NAMES, Phone
from training.voices import EspeakVoice, FliteVoice, HibariVoice, Utterance, Voice
from training.word_sentences import write_word_sentences

log = logging.getLogger(__name__)

NEWS, WORDY, UNHEARD_WORDS = 700, 2000, 40  # sentences of each sort, in this order
FIRST, SECOND, MORE = range(0, 300), range(340, NEWS), range(NEWS, NEWS + WORDY)
TRAIN = (*FIRST, *SECOND, *MORE)
TEST = (*range(300, 320), *range(NEWS + WORDY, NEWS + WORDY + UNHEARD_WORDS // 2))
DEV = (*range(320, 340), *range(NEWS + WORDY + UNHEARD_WORDS // 2, NEWS + WORDY + UNHEARD_WORDS))
HIBARI_TRAIN = (*FIRST[:150], *MORE[:350])
STRIDE = 1017  # two fifths of them, so that even a voice that reads little reads of every sort
HELD_OUT_VOICE = "rms"
DEV_VOICES = {"ked": "festival@ked_diphone", "pico-us": "pico@en-US"}
HIBARI_SPEEDS = (1.0, 0.9, 1.12)
FLITE_TRAIN = {"slt": 300, "awb": 300, "kal16": 140}
FESTIVAL_TRAIN = {"cmu_us_slt_arctic_hts": 160, "kal_diphone": 40}
PICO_TRAIN = {"en-GB": 200}
RHVOICE_TRAIN = {"bdl": 320, "clb": 260, "ksp": 200, "slt": 200}
KOKORO_ENGLISH, KOKORO_ACCENTED, KOKORO_MIXED, KOKORO_MIXTURES = 16, 4, 6, 6
ALIGNED = ("hibari", "kokoro", "pico", "rhvoice")
ESPEAK_FIRST = ("", "+f2", "+f4", "+m3", "+m5", "+klatt2", "+steph", "+Michael", "+Andy")
ESPEAK_MORE = (
    "+whisper",
    "+croak",
    "+klatt4",
    "+Annie",
    "+grandma",
    "+grandpa",
    "+f5",
    "+m7",
    "+Denis",
    "+Jacky",
    "+linda",
    "+max",
    "+norbert",
    "+belinda",
    "+Storm",
    "+ed",
)
ESPEAK_ACCENTS = (
    "gmw/en",
    "gmw/en+f3",
    "gmw/en-GB-scotland",
    "gmw/en-GB-scotland+f1",
    "gmw/en-029",
    "gmw/en-029+Annie",
    "gmw/en-GB-x-rp+m2",
    "gmw/en-US-nyc+m4",
    "gmw/en-GB-x-gbclan+klatt",
)
ESPEAK_TRAIN = (
    {f"en-us{variant}": 16 for variant in ESPEAK_FIRST}
    | {f"en-us{variant}": 9 for variant in ESPEAK_MORE}
    | dict.fromkeys(ESPEAK_ACCENTS, 9)
)


@dataclass(frozen=True)
class Job:
    """One utterance to make."""

    voice: str
    split: str
    sentence: int


def _counts() -> dict[str, int]:
    """Utterances of each voice that takes its sentences in turn, by key."""
    kokoro = (
        dict.fromkeys(ENGLISH, KOKORO_ENGLISH)
        | dict.fromkeys(ACCENTED, KOKORO_ACCENTED)
        | dict.fromkeys(map(str, range(KOKORO_MIXTURES)), KOKORO_MIXED)
    )
    paced = {f"kokoro@{name}@{SPEEDS[i % len(SPEEDS)]}": count for i, (name, count) in enumerate(kokoro.items())}
    return (
        {f"flite@{name}": count for name, count in FLITE_TRAIN.items()}
        | {f"festival@{name}": count for name, count in FESTIVAL_TRAIN.items()}
        | {f"espeak@{name}": count for name, count in ESPEAK_TRAIN.items()}
        | {f"pico@{name}": count for name, count in PICO_TRAIN.items()}
        | paced
        | {f"rhvoice@{name}": count for name, count in RHVOICE_TRAIN.items()}
    )


def corpus_sentences() -> list[str]:
    """All sentences, by number: news, those of many words, and those of words that are only judged by."""
    unheard = write_word_sentences(UNHEARD_WORDS, judged=True)
    return [*write_sentences(NEWS), *write_word_sentences(WORDY, judged=False), *unheard]


def list_jobs(scale: float = 1.0) -> Iterator[tuple[str, Job]]:
    """Voice key and job; ``scale`` below 1 makes a smaller corpus."""
    for i in HIBARI_TRAIN[: max(int(len(HIBARI_TRAIN) * scale), 2)]:
        yield f"hibari@{HIBARI_SPEEDS[i % len(HIBARI_SPEEDS)]}", Job("hibari", "train", i)
    for shift, (key, count) in enumerate(_counts().items()):
        for i in range(max(int(count * scale), 1)):
            yield key, Job(key, "train", TRAIN[(37 * shift + STRIDE * i) % len(TRAIN)])
    for split, voices, sentences in (
        ("dev", {"hibari": "hibari@1.0"} | DEV_VOICES, DEV),
        ("test", {"hibari": "hibari@1.0", HELD_OUT_VOICE: f"flite@{HELD_OUT_VOICE}"}, TEST),
    ):
        for name, key in voices.items():
            for i in sentences[: max(int(len(sentences) * scale), 1)]:
                yield key, Job(name, split, i)


def open_voice(key: str) -> Voice:
    """The voice a key names."""
    kind, _, name = key.partition("@")
    match kind:
        case "hibari":
            return HibariVoice(speed=float(name))
        case "kokoro":
            style, _, speed = name.partition("@")
            return KokoroVoice(style, speed=float(speed))
    makers: dict[str, Callable[[str], Voice]] = {
        "flite": FliteVoice,
        "festival": FestivalVoice,
        "pico": PicoVoice,
        "espeak": EspeakVoice,
        "rhvoice": RHVoiceVoice,
    }
    return makers[kind](name)


def realign(spoken: Utterance, text: str, key: str) -> Utterance | None:
    """Give a voice whose own times are coarse, or that has none, those of a forced alignment.

    Where that fails, the voice's own are kept; none if it has none.
    """
    if key.partition("@")[0] not in ALIGNED:
        return spoken
    try:
        return Utterance(spoken.samples, align_text(spoken.samples, text))
    except ValueError:
        log.info("no alignment with %s: %s", key, text)
        return spoken if spoken.phones else None


def compress(samples: np.ndarray) -> np.ndarray:
    """16 kHz float samples -> bytes of an Ogg Opus file."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, SAMPLE_RATE_HZ, format="OGG", subtype="OPUS", compression_level=0.93)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def phone_table(utterance: int, phones: list[Phone]) -> np.ndarray:
    """Rows (utterance, phone index, start, end) float32."""
    rows = [(utterance, PHONE_NAMES.index(p.name), p.start_s, p.end_s) for p in phones]
    return np.array(rows, np.float32).reshape(-1, 4)


def split_phones(table: np.ndarray, count: int) -> list[np.ndarray]:
    """Rows (kind, start, end) of each of ``count`` utterances, of a table of them in order."""
    return np.split(table[:, 1:], np.searchsorted(table[:, 0], np.arange(1, count)))


def read_phones(rows: np.ndarray) -> list[Phone]:
    """Phones of rows (kind, start, end) of one utterance."""
    return [Phone(PHONE_NAMES[int(kind)], float(start), float(end)) for kind, start, end in rows]


def _archive(spoken: list[tuple[Job, Utterance]], sentences: list[str]) -> dict[str, np.ndarray]:
    return {f"ogg/{i}": compress(one.samples) for i, (_, one) in enumerate(spoken)} | {
        "phones": np.concatenate([phone_table(i, one.phones) for i, (_, one) in enumerate(spoken)]),
        "voices": np.array([job.voice for job, _ in spoken]),
        "splits": np.array([job.split for job, _ in spoken]),
        "sentences": np.array([sentences[job.sentence] for job, _ in spoken]),
    }


def build_voice(key: str, jobs: list[Job], folder: Path) -> Path:
    """Make all utterances of a voice, unless its archive is there; the archive's path."""
    sentences = corpus_sentences()
    asked = hashlib.sha256(repr([(job, sentences[job.sentence]) for job in jobs]).encode()).hexdigest()[:8]
    path = folder / f"{key.replace('/', '_')}-{asked}.npz"
    if path.exists():
        return path
    voice = open_voice(key)
    made = ((job, realign(voice(sentences[job.sentence]), sentences[job.sentence], key)) for job in jobs)
    archive = _archive([(job, spoken) for job, spoken in made if spoken is not None], sentences)
    save_arrays(archive, path)
    log.info("made %s: %d utterances", key, len(archive["voices"]))
    return path


def merge(paths: list[Path]) -> dict[str, np.ndarray]:
    """One archive of the utterances of many."""
    return join(map(read_arrays, paths))


def join(parts: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The same of archives that were read."""
    arrays: dict[str, np.ndarray] = {}
    tables: dict[str, list[np.ndarray]] = {"phones": [], "voices": [], "splits": [], "sentences": []}
    count = 0
    for part in parts:
        num = len(part["voices"])
        arrays |= {f"ogg/{count + i}": part[f"ogg/{i}"] for i in range(num)}
        tables["phones"].append(part["phones"] + np.array([count, 0, 0, 0], np.float32))
        for name in ("voices", "splits", "sentences"):
            tables[name].append(part[name])
        count += num
    return arrays | {name: np.concatenate(pieces) for name, pieces in tables.items()}


def build(folder: Path, scale: float = 1.0, workers: int = 1) -> dict[str, np.ndarray]:
    """All arrays of the archive; each voice's own are kept in ``folder``."""
    jobs: dict[str, list[Job]] = {}
    for key, job in list_jobs(scale):
        jobs.setdefault(key, []).append(job)
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers) as pool:
        return merge(list(pool.map(partial(build_voice, folder=folder), jobs, jobs.values())))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the utterances")
    parser.add_argument("--workers", type=int, default=1, help="voices at a time")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    save_arrays(build(options.out.with_suffix(".voices"), options.scale, options.workers), options.out)
    log.info("wrote %s, %.1f MB", options.out, options.out.stat().st_size / 1e6)


if __name__ == "__main__":
    main()
