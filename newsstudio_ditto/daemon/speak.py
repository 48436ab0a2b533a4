"""Typed text becomes a speech, where the optional package hibari-tts is installed. It downloads nothing."""

import importlib
import importlib.util
import re
import threading
import wave
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from newsstudio_ditto.daemon.problems import RequestError

VOICE = "heart"
"""The voice inside the package; the others would be downloaded."""

_RATE_HZ = 24_000
_SAYABLE = re.compile(r"[A-Za-z0-9]")
_one_at_a_time = threading.Lock()


def can_speak() -> bool:
    """Whether the package is installed."""
    return importlib.util.find_spec("hibari") is not None


@lru_cache(maxsize=1)
def _speaker() -> Any:
    return importlib.import_module("hibari").Hibari(voice=VOICE)


def speak(text: str, target: Path, *, most_chars: int) -> None:
    """Write the WAV ``target`` in which an American voice says ``text``.

    Raises:
        RequestError: 409, not installed; 413, too long; 400, nothing that an English voice can say.
    """
    if not can_speak():
        raise RequestError(409, "this daemon cannot speak typed text", 'pip install "newsstudio-ditto[speak]"')
    if len(text) > most_chars:
        raise RequestError(413, f"the text has {len(text)} characters", f"give {most_chars} at most")
    if not _SAYABLE.search(text):
        raise RequestError(400, "the text holds no English word", "give English text")
    with _one_at_a_time:
        samples = np.asarray(_speaker()(text), np.float32)
    if samples.size == 0:
        raise RequestError(400, "nothing in the text can be said", "give English text")
    with wave.open(str(target), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_RATE_HZ)
        file.writeframes((samples.clip(-1.0, 1.0) * 32767).astype("<i2").tobytes())
