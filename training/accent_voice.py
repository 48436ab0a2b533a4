"""English read by the Italian, Czech and Finnish diphone voices of ``festival``: more speakers, with an accent.

An English voice plans phones, durations and pitch; the foreign voice speaks the nearest phones that it has. Closures
of the lips are the same in all of them, and the times are exact.
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import soundfile

from training.festival_voice import read_segments, run_festival
from training.viseme import Phone
from training.voices import Utterance, to_16k

PLANNER = "kal_diphone"
PLAN = """(voice_{planner})
(set! planned (utt.synth (Utterance Text "{text}")))
(utt.save.segs planned "{segments}")
(set! file (fopen "{pitch}" "w"))
(mapcar (lambda (t) (format file "%f %f\\n" (item.feat t 'pos) (item.feat t 'f0))) (utt.relation.leafs planned 'Target))
(fclose file)
"""
SPEAK = """(voice_{name})
(set! spoken (utt.synth (Utterance Segments ({segments}))))
(utt.save.wave spoken "{wave}" 'riff)
"""

COMMON = {name: name.lower() for name in ("P", "B", "M", "F", "V", "T", "D", "S", "K", "N", "L", "R")} | {
    "SIL": "#",
    "HH": "#",
    "IY": "i",
    "IH": "i",
    "EY": "e i",
    "EH": "e",
    "AE": "a",
    "AA": "a",
    "AH": "a",
    "AO": "o",
    "OW": "o u",
    "UW": "u",
    "UH": "u",
    "AY": "a i",
    "AW": "a u",
    "OY": "o i",
    "ER": "e r",
    "G": "g",
    "Y": "j",
    "TH": "t",
    "DH": "d",
}
ITALIAN = COMMON | {"W": "w", "NG": "ng", "Z": "z", "SH": "S", "ZH": "Z", "CH": "tS", "JH": "dZ"}
CZECH = COMMON | {"W": "u", "NG": "n*", "Z": "z", "SH": "s~", "ZH": "z~", "CH": "c~", "JH": "dz~", "HH": "h"}
FINNISH = COMMON | {"W": "u", "NG": "N", "Z": "s", "SH": "s", "ZH": "s", "CH": "t s", "JH": "d s", "HH": "h"}
FINNISH |= {"AE": "@"}


@dataclass(frozen=True)
class Accent:
    """A foreign voice.

    Args:
        phones: its own phones by English one, several with a space between.
        pitch: its pitch over the planning voice's.
    """

    phones: dict[str, str]
    pitch: float


ACCENTS = {
    "lp_diphone": Accent(ITALIAN, 1.75),
    "pc_diphone": Accent(ITALIAN, 1.1),
    "czech_dita": Accent(CZECH, 1.8),
    "czech_krb": Accent(CZECH, 1.5),
    "czech_machac": Accent(CZECH, 1.0),
    "czech_ph": Accent(CZECH, 1.05),
    "suo_fi_lj_diphone": Accent(FINNISH, 1.7),
    "hy_fi_mv_diphone": Accent(FINNISH, 0.95),
}


def write_segments(phones: list[Phone], pitch: list[tuple[float, float]], accent: Accent) -> str:
    """Festival's list of segments, each with its length and the pitch targets (position s, Hz) that lie in it."""
    entries: list[str] = []
    for phone in phones:
        names = accent.phones[phone.name].split()
        length_s = (phone.end_s - phone.start_s) / len(names)
        for i, name in enumerate(names):
            start_s = phone.start_s + i * length_s
            inside = [(at - start_s, hz * accent.pitch) for at, hz in pitch if start_s <= at < start_s + length_s]
            targets = " ".join(f"({at:.4f} {hz:.1f})" for at, hz in inside)
            entries.append(f"({name} {length_s:.4f} {targets})")
    return "\n".join(entries)


class AccentVoice:
    """One of ``ACCENTS``."""

    def __init__(self, name: str) -> None:
        self._name, self._accent = name, ACCENTS[name]

    def __call__(self, text: str) -> Utterance:
        """Speak."""
        with tempfile.TemporaryDirectory() as folder:
            wave, segments, pitch, script = (Path(folder) / name for name in ("s.wav", "s.segs", "s.f0", "say.scm"))
            values = {"planner": PLANNER, "segments": segments, "pitch": pitch}
            run_festival(script, PLAN.format(**values, text=re.sub(r'["\\]', "", text)))
            phones = read_segments(segments.read_text())
            targets = [tuple(map(float, line.split())) for line in pitch.read_text().splitlines()]
            listed = write_segments(phones, [(at, hz) for at, hz in targets], self._accent)
            run_festival(script, SPEAK.format(name=self._name, segments=listed, wave=wave))
            samples, rate_hz = soundfile.read(wave)
        return Utterance(to_16k(samples, rate_hz), phones)
