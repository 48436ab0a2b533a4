"""Lip opening measured on a video, and the one that its phones ask for."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from newsstudio_ditto.faces.finder import FaceFinder
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.units import FRAME_RATE_HZ
from training.head_model import expression_offsets, head_pack
from training.viseme import BILABIALS, Phone, unit_coefficients, unit_curves

UPPER_LIP, LOWER_LIP, LEFT_EYE, RIGHT_EYE = 13, 14, 33, 263
LIP_LANDMARKS = (61, 291, 0, 17, 13, 14, 37, 267, 84, 314, 78, 308, 81, 311, 178, 402)
MAX_LAG = 4
OPEN_SHARE = 0.25
SILENCE_MARGIN_FRAMES = 4
MIN_SILENCE_FRAMES = 4


@dataclass(frozen=True)
class LipTrack:
    """Lips of N frames.

    Args:
        gap: (N,) inner lip distance over eye distance; NaN where no face was found.
        lips: (N, L, 2) lip landmarks in the frame of the eyes: origin between them, unit their distance.
    """

    gap: np.ndarray
    lips: np.ndarray


def track_lips(frames: Iterable[np.ndarray], finder: FaceFinder) -> LipTrack:
    """Measure every frame (H, W, 3) uint8."""
    gaps, lips = [], []
    for face in finder.track(frames):
        if face is None:
            gaps.append(np.nan)
            lips.append(np.full((len(LIP_LANDMARKS), 2), np.nan))
            continue
        points = face.landmarks[:, :2].astype(np.float64)
        across = points[RIGHT_EYE] - points[LEFT_EYE]
        distance = float(np.hypot(*across))
        right = across / distance
        axes = np.stack([right, [-right[1], right[0]]], 1)
        gaps.append(float(np.linalg.norm(points[UPPER_LIP] - points[LOWER_LIP])) / distance)
        middle = (points[LEFT_EYE] + points[RIGHT_EYE]) / 2
        lips.append((points[list(LIP_LANDMARKS)] - middle) @ axes / distance)
    return LipTrack(np.array(gaps), np.array(lips))


def played(clip: LipTrack, num_frames: int) -> LipTrack:
    """The lips of a clip's frames in the order in which a video of ``num_frames`` shows them, to and fro."""
    order = mirror_index(np.arange(num_frames), len(clip.gap))
    return LipTrack(clip.gap[order], clip.lips[order])


def target_gap(phones: list[Phone], num_frames: int) -> np.ndarray:
    """Lip opening (T,) that phones ask for, in crop units; lips pressed together count as closed."""
    pack = head_pack()
    rows = np.stack([pack.unit_weights(unit_coefficients(row)) for row in unit_curves(phones, num_frames)])
    offsets = expression_offsets(rows, pack)
    return np.maximum(offsets[:, 1, 1] - offsets[:, 0, 1], 0)


def lagged_correlations(measured: np.ndarray, target: np.ndarray) -> dict[int, float]:
    """Correlation by lag; a positive lag means that the video is late."""
    valid = np.isfinite(measured)
    filled = np.interp(np.arange(len(measured)), np.flatnonzero(valid), measured[valid])
    num = min(len(filled), len(target))
    result = {}
    for lag in range(-MAX_LAG, MAX_LAG + 1):
        a = filled[max(lag, 0) : num + min(lag, 0)]
        b = target[max(-lag, 0) : num - max(lag, 0)]
        result[lag] = float(np.corrcoef(a, b)[0, 1])
    return result


def closure_share(measured: np.ndarray, target: np.ndarray, phones: list[Phone]) -> tuple[float, int]:
    """Share of p, b and m during which the lips come below a third of the median open gap, and how many there are."""
    num = min(len(measured), len(target))
    is_open = target[:num] > OPEN_SHARE * np.percentile(target[:num], 95)
    limit = float(np.nanmedian(measured[:num][is_open])) / 3
    kept, total = 0, 0
    for phone in phones:
        first, last = int(phone.start_s * FRAME_RATE_HZ), int(np.ceil(phone.end_s * FRAME_RATE_HZ))
        window = measured[first : min(max(last, first + 1), num)]
        if phone.name in BILABIALS and len(window) and np.isfinite(window).any():
            total += 1
            kept += bool(np.nanmin(window) < limit)
    return (kept / total if total else 1.0), total


def silent_frames(phones: list[Phone], num_frames: int) -> np.ndarray:
    """Whether each frame (T,) lies well inside a silence."""
    silent = np.ones(num_frames, bool)
    for phone in phones:
        if phone.name != "SIL":
            first, last = int(phone.start_s * FRAME_RATE_HZ), int(np.ceil(phone.end_s * FRAME_RATE_HZ))
            silent[max(first - SILENCE_MARGIN_FRAMES, 0) : last + SILENCE_MARGIN_FRAMES] = False
    return silent


def movement(track: LipTrack, chosen: np.ndarray | None = None) -> float | None:
    """Mean motion of the lips from frame to frame, relative to the eyes, in percent of the eye distance."""
    steps = np.linalg.norm(np.diff(track.lips, axis=0), axis=2).mean(1)
    if chosen is not None:
        pairs = chosen[: len(steps) + 1]
        steps = steps[: len(pairs) - 1][pairs[1:] & pairs[:-1]]
    steps = steps[np.isfinite(steps)]
    return float(steps.mean() * 100) if len(steps) >= MIN_SILENCE_FRAMES else None
