"""Forced alignment of a known text with pocketsphinx: independent phone times for evaluation.

Needs ``pocketsphinx`` (development only).
"""

import re

import numpy as np

from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.viseme import PHONE_NAMES, Phone

LEVEL = 0.9
SPHINX_FRAME_S = 0.01
PAUSE_PROBABILITY = 0.9
"""Of a pause between two words. With the decoder's own 0.005, short ones become part of a vowel: openings then
correlate with those of the known times of flite's slt, awb and kal16 by 0.959, 0.950 and 0.955; with this by 0.968,
0.968 and 0.966."""
EXTRA_WORDS = {"queued": "K Y UW D"}
"""Words of the test bulletins that pocketsphinx's dictionary lacks."""


def align_text(samples: np.ndarray, text: str) -> list[Phone]:
    """Phones of ``samples`` (16 kHz float), given the words spoken.

    Raises:
        ValueError: a word is not in pocketsphinx's dictionary, or the text does not fit the audio.
    """
    from pocketsphinx import Decoder

    words = re.sub(r"[^a-z' ]+", " ", text.lower()).split()
    decoder = Decoder(lm=None, samprate=float(SAMPLE_RATE_HZ), silprob=PAUSE_PROBABILITY, loglevel="FATAL")
    for word, phones in EXTRA_WORDS.items():
        if decoder.lookup_word(word) is None:
            decoder.add_word(word, phones, True)
    unknown = [word for word in words if decoder.lookup_word(word) is None]
    if unknown:
        raise ValueError(f"not in the dictionary: {unknown}")
    peak = max(float(np.abs(samples).max()), 1e-6)
    pcm = (samples / peak * LEVEL * 32767).astype(np.int16).tobytes()
    decoder.set_align_text(" ".join(words))
    try:
        for second_pass in (False, True):
            if second_pass:
                decoder.set_alignment()
            decoder.start_utt()
            decoder.process_raw(pcm, full_utt=True)
            decoder.end_utt()
    except RuntimeError as error:
        raise ValueError("the text does not fit the audio") from error
    alignment = decoder.get_alignment()
    if alignment is None:
        raise ValueError("the text does not fit the audio")
    return [
        Phone(
            p.name if p.name in PHONE_NAMES else "SIL",
            p.start * SPHINX_FRAME_S,
            (p.start + p.duration) * SPHINX_FRAME_S,
        )
        for word in alignment
        for p in word
    ]
