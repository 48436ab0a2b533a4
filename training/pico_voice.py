"""Voices of SVOX Pico, a statistical synthesiser, out of the ``py-nanotts`` wheel (development only)."""

import numpy as np

from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.voices import Utterance, to_16k


class PicoVoice:
    """The voice of a language such as ``en-GB``; phone times come from forced alignment."""

    def __init__(self, language: str) -> None:
        from py_nanotts import NanoTTS

        self._engine, self._language = NanoTTS(), language

    def __call__(self, text: str) -> Utterance:
        """Speak; the phones are left out."""
        samples = np.frombuffer(self._engine.speak(text, voice=self._language), np.int16) / 32768
        return Utterance(to_16k(samples, SAMPLE_RATE_HZ), [])
