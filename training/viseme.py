"""Phones with times -> curves of face units: what a mouth does for each sound of English.

Phones are ARPAbet names in upper case without stress; ``SIL`` is silence.
"""

from dataclasses import dataclass

import numpy as np

from newsstudio_ditto.units import FRAME_RATE_HZ

OVERSAMPLING = 4
COARTICULATION_S = 0.042
CLOSURE_SHOULDER_S = 0.022
CLOSURE_STRENGTH = 0.97
AMPLITUDE = 1.15

UNITS = (
    "jawOpen",
    "mouthPucker",
    "mouthFunnel",
    "mouthRollLower",
    "mouthRollUpper",
    "mouthPress",
    "mouthUpperUp",
    "mouthLowerDown",
    "mouthStretch",
    "mouthSmile",
)
PAIRED = ("mouthPress", "mouthUpperUp", "mouthLowerDown", "mouthStretch", "mouthSmile")
OPENING = ("jawOpen", "mouthUpperUp", "mouthLowerDown", "mouthFunnel", "mouthStretch")
BILABIALS = ("P", "B", "M")


@dataclass(frozen=True)
class Phone:
    """One phone of a recording, times in seconds."""

    name: str
    start_s: float
    end_s: float


def _shape(**units: float) -> dict[str, float]:
    unknown = set(units) - set(UNITS)
    assert not unknown, unknown
    return units


_CLOSED = _shape(mouthPress=0.35, mouthRollLower=0.25, mouthRollUpper=0.15)
_LIP_TEETH = _shape(jawOpen=0.05, mouthRollLower=0.45, mouthUpperUp=0.25)
_TONGUE_TIP = _shape(jawOpen=0.12, mouthStretch=0.15, mouthUpperUp=0.15, mouthLowerDown=0.2)
_HUSHING = _shape(jawOpen=0.10, mouthFunnel=0.5, mouthUpperUp=0.1)
_RHOTIC = _shape(jawOpen=0.14, mouthFunnel=0.35, mouthPucker=0.2)
_BACK = _shape(jawOpen=0.16, mouthStretch=0.1)
_OPEN = _shape(jawOpen=0.44, mouthStretch=0.1, mouthLowerDown=0.2, mouthUpperUp=0.12)
_CENTRAL = _shape(jawOpen=0.25, mouthLowerDown=0.1)
_MID_FRONT = _shape(jawOpen=0.29, mouthStretch=0.25, mouthLowerDown=0.15)
_CLOSE_FRONT = _shape(jawOpen=0.13, mouthStretch=0.4, mouthSmile=0.2, mouthLowerDown=0.2)
_CLOSE_ROUND = _shape(jawOpen=0.12, mouthPucker=0.65)
_MID_ROUND = _shape(jawOpen=0.30, mouthFunnel=0.45, mouthPucker=0.2)

SHAPES: dict[str, dict[str, float]] = (
    dict.fromkeys(BILABIALS, _CLOSED)
    | dict.fromkeys(("F", "V"), _LIP_TEETH)
    | dict.fromkeys(("TH", "DH", "T", "D", "N", "L", "S", "Z"), _TONGUE_TIP)
    | dict.fromkeys(("SH", "ZH", "CH", "JH"), _HUSHING)
    | dict.fromkeys(("R", "ER"), _RHOTIC)
    | dict.fromkeys(("K", "G", "NG", "HH", "Y"), _BACK)
    | dict.fromkeys(("AA", "AE"), _OPEN)
    | {"W": _shape(jawOpen=0.05, mouthPucker=0.8), "AH": _CENTRAL, "EH": _MID_FRONT, "AO": _MID_ROUND}
    | dict.fromkeys(("IY", "IH"), _CLOSE_FRONT)
    | dict.fromkeys(("UW", "UH"), _CLOSE_ROUND)
    | {"SIL": {}}
)
DIPHTHONGS = {"AY": ("AA", "IH"), "AW": ("AA", "UH"), "OY": ("AO", "IH"), "EY": ("EH", "IH"), "OW": ("AO", "UH")}
DIPHTHONG_SPLIT = 0.55
PHONE_NAMES = ("SIL", *sorted((set(SHAPES) | set(DIPHTHONGS)) - {"SIL"}))


def _targets(phone: Phone) -> list[Phone]:
    if phone.name not in DIPHTHONGS:
        return [phone]
    first, second = DIPHTHONGS[phone.name]
    middle = phone.start_s + DIPHTHONG_SPLIT * (phone.end_s - phone.start_s)
    return [Phone(first, phone.start_s, middle), Phone(second, middle, phone.end_s)]


def _closure(phone: Phone, times_s: np.ndarray) -> np.ndarray:
    outside = np.maximum(np.maximum(phone.start_s - times_s, times_s - phone.end_s), 0) + 0.0
    return np.exp(-0.5 * (outside / CLOSURE_SHOULDER_S) ** 2)


def unit_curves(phones: list[Phone], num_frames: int, *, rate_hz: float = FRAME_RATE_HZ) -> np.ndarray:
    """Curves (T, len(UNITS)) of face units at ``rate_hz``; frame i covers [i, i+1) / rate."""
    fine_hz = rate_hz * OVERSAMPLING
    times_s = (np.arange(num_frames * OVERSAMPLING) + 0.5) / fine_hz
    curves = np.zeros((len(times_s), len(UNITS)))
    for phone in (part for whole in phones for part in _targets(whole)):
        inside = (times_s >= phone.start_s) & (times_s < phone.end_s)
        for unit, weight in SHAPES[phone.name].items():
            curves[inside, UNITS.index(unit)] = weight
    reach = int(3 * COARTICULATION_S * fine_hz) + 1
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (COARTICULATION_S * fine_hz)) ** 2)
    padded = np.pad(curves, ((reach, reach), (0, 0)))
    smooth = np.stack([np.convolve(column, kernel / kernel.sum(), "valid") for column in padded.T], 1)
    opening = [UNITS.index(unit) for unit in OPENING]
    for phone in phones:
        if phone.name in BILABIALS:
            smooth[:, opening] *= 1 - CLOSURE_STRENGTH * _closure(phone, times_s)[:, None]
    return (AMPLITUDE * smooth.reshape(num_frames, OVERSAMPLING, -1).mean(1)).astype(np.float32)


def unit_coefficients(row: np.ndarray) -> dict[str, float]:
    """One row of ``unit_curves`` -> coefficients by face unit name, left and right given apart."""
    named: dict[str, float] = {}
    for unit, weight in zip(UNITS, row, strict=True):
        sides = (f"{unit}Left", f"{unit}Right") if unit in PAIRED else (unit,)
        named |= dict.fromkeys(sides, float(weight))
    return named
