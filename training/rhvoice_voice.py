"""Voices of RHVoice, a statistical synthesiser, through its ``RHVoice-test`` program (development only)."""

import subprocess
import tempfile
from pathlib import Path

import soundfile

from training.voices import Utterance, to_16k

RATE_HZ = "24000"


class RHVoiceVoice:
    """A voice by name, such as ``bdl``; phone times come from forced alignment."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, text: str) -> Utterance:
        """Speak; the phones are left out."""
        with tempfile.TemporaryDirectory() as folder:
            wave = Path(folder) / "speech.wav"
            argv = ["RHVoice-test", "-p", self._name, "-R", RATE_HZ, "-o", str(wave)]
            subprocess.run(argv, input=text, check=True, capture_output=True, text=True)
            samples, rate_hz = soundfile.read(wave)
        return Utterance(to_16k(samples, rate_hz), [])
