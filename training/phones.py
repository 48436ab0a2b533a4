# ruff: noqa: RUF001 - phonetic signs are meant
"""Other phone alphabets -> ARPAbet names of ``viseme.PHONE_NAMES``."""

from training.viseme import Phone

PAIRS = {
    "aɪ": "AY",
    "aʊ": "AW",
    "ɔɪ": "OY",
    "eɪ": "EY",
    "oʊ": "OW",
    "əʊ": "OW",
    "tʃ": "CH",
    "dʒ": "JH",
    "ɜɹ": "ER",
    "əɹ": "ER",
}
SINGLES = (
    dict.fromkeys("ɑaɒ", "AA")
    | dict.fromkeys("ʌəɐᵊ", "AH")
    | dict.fromkeys("ɪᵻ", "IH")
    | dict.fromkeys("ɚɜ", "ER")
    | dict.fromkeys("ɹr", "R")
    | dict.fromkeys("lɫ", "L")
    | dict.fromkeys("ɡg", "G")
    | dict.fromkeys("tTʔ", "T")
    | {"æ": "AE", "ɔ": "AO", "ɛ": "EH", "e": "EH", "i": "IY", "u": "UW", "ʊ": "UH", "o": "OW"}
    | {"A": "EY", "I": "AY", "O": "OW", "Q": "OW", "W": "AW", "Y": "OY", "ʧ": "CH", "ʤ": "JH"}
    | {
        "p": "P",
        "b": "B",
        "m": "M",
        "f": "F",
        "v": "V",
        "θ": "TH",
        "ð": "DH",
        "d": "D",
        "ɾ": "D",
        "n": "N",
        "s": "S",
        "z": "Z",
    }
    | {"ʃ": "SH", "ʒ": "ZH", "k": "K", "ŋ": "NG", "h": "HH", "j": "Y", "w": "W", "x": "K"}
)
IGNORED = frozenset("ˈˌː̩̃ʲʰ")
RADIO = {"ax": "AH", "axr": "ER", "dx": "D", "nx": "N", "ix": "IH", "el": "L", "em": "M", "en": "N", "hv": "HH"}
SILENCES = frozenset({"pau", "ssil", "brth", "h#", ""})


def split_ipa(text: str) -> list[str]:
    """ARPAbet names of one IPA string; marks and unknown signs are left out."""
    signs = [sign for sign in text if sign not in IGNORED]
    names: list[str] = []
    i = 0
    while i < len(signs):
        pair = "".join(signs[i : i + 2])
        if pair in PAIRS:
            names.append(PAIRS[pair])
            i += 2
            continue
        if signs[i] in SINGLES:
            names.append(SINGLES[signs[i]])
        i += 1
    return names


def radio_name(name: str) -> str:
    """ARPAbet name of a phone of the flite voices."""
    return "SIL" if name in SILENCES else RADIO.get(name, name.upper())


def spread(names: list[str], start_s: float, end_s: float) -> list[Phone]:
    """Phones of equal length between two times; silence if there is no name."""
    names = names or ["SIL"]
    step = (end_s - start_s) / len(names)
    return [Phone(name, start_s + i * step, start_s + (i + 1) * step) for i, name in enumerate(names)]
