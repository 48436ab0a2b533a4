"""Text -> 16 kHz speech with phone times, from three synthesisers.

Needs (development only): ``hibari-tts``, the ``flite`` program, the espeak-ng library. Each voice is called as
``voice(text)``.
"""

import ctypes
import importlib.util
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from pathlib import Path

import numpy as np
import onnx
import soundfile
from scipy.signal import resample_poly

from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.phones import IGNORED, radio_name, split_ipa, spread
from training.viseme import Phone

HIBARI_DURATION_OUTPUT = "/Round_output_0"
HIBARI_DURATION_SAMPLES = 600
HIBARI_EARLY_S = 0.06  # its first pad is predicted longer than it sounds; found against forced alignment
PEAK = 0.7


@dataclass(frozen=True)
class Utterance:
    """Samples float32 16 kHz, and phones covering them."""

    samples: np.ndarray
    phones: list[Phone]


Voice = Callable[[str], Utterance]


def to_16k(samples: np.ndarray, rate_hz: int) -> np.ndarray:
    """Resample to 16 kHz float32 with a fixed peak."""
    divisor = gcd(rate_hz, SAMPLE_RATE_HZ)
    out = resample_poly(samples.astype(np.float64), SAMPLE_RATE_HZ // divisor, rate_hz // divisor)
    return (out * (PEAK / max(float(np.abs(out).max()), 1e-6))).astype(np.float32)


class HibariVoice:
    """The voice in the ``hibari-tts`` wheel; durations are read from inside its network."""

    def __init__(self, *, speed: float = 1.0, seed: int = 0) -> None:
        from hibari import Hibari

        spec = importlib.util.find_spec("hibari")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("hibari-tts is not installed")
        model = onnx.load(str(Path(spec.origin).parent / "assets" / "hibari.onnx"))
        output = onnx.helper.make_tensor_value_info(HIBARI_DURATION_OUTPUT, onnx.TensorProto.FLOAT, None)
        model.graph.output.append(output)
        self._file = tempfile.NamedTemporaryFile(suffix=".onnx")  # noqa: SIM115 - lives as long as the voice
        self._file.write(model.SerializeToString())
        self._file.flush()
        self._speech = Hibari(model=self._file.name)
        self._speed = speed
        self._random = np.random.default_rng(seed)

    def __call__(self, text: str) -> Utterance:
        """Speak."""
        from hibari import dsp

        pieces: list[np.ndarray] = []
        phones: list[Phone] = []
        start_s = 0.0
        for line in self._speech.phonemize(text):
            signs = [sign for sign in line if sign in self._speech.vocab]
            feeds = {"ids": np.asarray([self._speech.ids(line)]), "speed": np.asarray([self._speed], np.float32)}
            *spectra, durations = self._speech.sess.run(None, feeds)
            pieces.append(dsp.synth(*(s[0] for s in spectra), self._random))
            lengths_s = durations.ravel() * HIBARI_DURATION_SAMPLES / self._speech.sample_rate
            early_s = min(HIBARI_EARLY_S, lengths_s[0])
            lengths_s[0] -= early_s
            lengths_s[-1] += early_s
            phones += align_signs(["", *signs, ""], lengths_s, start_s)
            start_s += float(lengths_s.sum())
        return Utterance(to_16k(np.concatenate(pieces), self._speech.sample_rate), phones)


def align_signs(signs: list[str], lengths_s: np.ndarray, start_s: float) -> list[Phone]:
    """Phones of a sign string with a duration per sign.

    A stress mark's time goes to the vowel after it, a space's to both neighbours, other marks are silence.
    """
    lengths = [float(x) for x in lengths_s]
    for i, sign in enumerate(signs):
        if sign in IGNORED and sign and i + 1 < len(signs):
            lengths[i + 1] += lengths[i]
            lengths[i] = 0.0
        elif sign == " ":
            before, after = i - 1, i + 1
            lengths[before] += lengths[i] / 2
            lengths[after] += lengths[i] / 2
            lengths[i] = 0.0
    phones: list[Phone] = []
    for sign, length in zip(signs, lengths, strict=True):
        if length > 0:
            phones += spread(split_ipa(sign), start_s, start_s + length)
            start_s += length
    return phones


class FliteVoice:
    """One of the voices of the ``flite`` program; it prints when each phone ends."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, text: str) -> Utterance:
        """Speak."""
        with tempfile.TemporaryDirectory() as folder:
            wave = Path(folder) / "speech.wav"
            argv = ["flite", "-voice", self._name, "-psdur", "-t", text, "-o", str(wave)]
            listing = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
            samples, rate_hz = soundfile.read(wave)
        phones: list[Phone] = []
        offset_s = previous_s = 0.0
        for entry in listing.split():
            name, _, end = entry.rpartition(":")
            if float(end) < previous_s - offset_s:  # a second sentence starts at zero again
                offset_s = previous_s
            end_s = offset_s + float(end)
            phones.append(Phone(radio_name(name), previous_s, end_s))
            previous_s = end_s
        return Utterance(to_16k(samples, rate_hz), phones)


class _EventId(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position_ms", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _EventId),
    )


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
_PHONEME_EVENT = 7
_SYNCHRONOUS = 2
_PHONEMES_IN_IPA = 0x0003
ESPEAK_LATE_S = 0.015  # its events lag the sound by this; found against forced alignment


class EspeakVoice:
    """A variant of espeak-ng's American or British English; phoneme events carry times."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self._library = ctypes.CDLL("libespeak-ng.so.1")
        self._rate_hz = self._library.espeak_Initialize(_SYNCHRONOUS, 200, None, _PHONEMES_IN_IPA)
        self._pcm: list[int] = []
        self._events: list[tuple[float, str]] = []
        self._callback = _CALLBACK(self._receive)

    def _receive(self, wave: "ctypes._Pointer[ctypes.c_short]", num: int, events: "ctypes._Pointer[_Event]") -> int:
        if num > 0:
            self._pcm.extend(wave[:num])
        i = 0
        while events[i].type != 0:
            if events[i].type == _PHONEME_EVENT:
                text = bytes(events[i].id.string).split(b"\0")[0].decode("utf8", "replace")
                self._events.append((max(events[i].audio_position_ms / 1000 - ESPEAK_LATE_S, 0.0), text))
            i += 1
        return 0

    def __call__(self, text: str) -> Utterance:
        """Speak."""
        self._pcm, self._events = [], []
        self._library.espeak_SetSynthCallback(self._callback)
        if self._library.espeak_SetVoiceByName(self._name):
            raise ValueError(f"espeak-ng has no voice {self._name.decode()}")
        raw = text.encode()
        self._library.espeak_Synth(raw, len(raw) + 1, 0, 0, 0, 1, None, None)
        self._library.espeak_Synchronize()
        end_s = len(self._pcm) / self._rate_hz
        starts = [start for start, _ in self._events] + [end_s]
        phones: list[Phone] = []
        for (start, name), end in zip(self._events, starts[1:], strict=True):
            if end > start:
                phones += spread(split_ipa(name), start, end)
        return Utterance(to_16k(np.array(self._pcm) / 32768, self._rate_hz), phones)
