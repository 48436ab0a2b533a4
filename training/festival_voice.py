"""Voices of the ``festival`` program: synthesis writes down when each phone ends."""

import subprocess
import tempfile
from pathlib import Path

import soundfile

from training.phones import radio_name
from training.viseme import Phone
from training.voices import Utterance, to_16k

SCRIPT = """(voice_{name})
(Parameter.set 'Duration_Stretch {stretch})
(set! spoken (utt.synth (Utterance Text "{text}")))
(utt.save.wave spoken "{wave}" 'riff)
(utt.save.segs spoken "{segments}")
"""


def read_segments(listing: str) -> list[Phone]:
    """Phones of a label file: after a line of ``#``, lines of end time in seconds, colour, name."""
    phones: list[Phone] = []
    start_s = 0.0
    for line in listing.split("#\n", 1)[-1].splitlines():
        end, _, name = line.split()
        phones.append(Phone(radio_name(name), start_s, float(end)))
        start_s = float(end)
    return phones


class FestivalVoice:
    """One of the voices of ``festival``, at ``stretch`` times its usual length."""

    def __init__(self, name: str, *, stretch: float = 1.0) -> None:
        self._name, self._stretch = name, stretch

    def __call__(self, text: str) -> Utterance:
        """Speak."""
        with tempfile.TemporaryDirectory() as folder:
            wave, segments, script = (Path(folder) / name for name in ("speech.wav", "speech.segs", "say.scm"))
            values = {"name": self._name, "stretch": self._stretch, "wave": wave, "segments": segments}
            script.write_text(SCRIPT.format(**values, text=text.replace('"', "")))
            subprocess.run(["festival", "-b", str(script)], check=True, capture_output=True)
            samples, rate_hz = soundfile.read(wave)
            return Utterance(to_16k(samples, rate_hz), read_segments(segments.read_text()))
