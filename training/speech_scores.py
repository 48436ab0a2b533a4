"""How well trained speech networks move the lips, on utterances with known phones."""

import numpy as np
import torch
from torch.nn import functional

from newsstudio_ditto.maths.audio_windows import WINDOW_SAMPLES
from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.maths.motion_vector import EXPRESSION_START
from newsstudio_ditto.networks.motion_diffusion import sample_window
from newsstudio_ditto.units import MOTION_DIM, WINDOW_FRAMES
from training.speech_pool import (
    LABELS_PER_FRAME,
    LEAD_SAMPLES,
    SEGMENT_SAMPLES,
    LabelledSpeech,
)
from training.speech_training import SpeechNetworks, SpeechTraining, merge_windows
from training.viseme import PHONE_NAMES

GAP_COLUMNS = (EXPRESSION_START + 1, EXPRESSION_START + 4)
SCORED_STEPS = 5


@torch.no_grad()
def predict_gap(networks: SpeechNetworks, spoken: LabelledSpeech, device: torch.device) -> np.ndarray:
    """Opening of the lips (T,) in crop units that the networks make of an utterance.

    By a short sampling of each window.
    """
    num = len(spoken.units) // LABELS_PER_FRAME
    count = -(-num // WINDOW_FRAMES)
    padded = functional.pad(
        torch.from_numpy(spoken.samples), (LEAD_SAMPLES, count * WINDOW_FRAMES * 640 + WINDOW_SAMPLES)
    )
    starts = [i * WINDOW_FRAMES * 640 for i in range(count)]
    segments = torch.stack([padded[start : start + SEGMENT_SAMPLES] for start in starts]).to(device)
    encoded = networks.diffusion.encode_condition(merge_windows(networks.encode(segments)))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(SCORED_STEPS, count, WINDOW_FRAMES, MOTION_DIM, generator=generator).to(device)
    rest = noise.new_zeros(count, MOTION_DIM)
    motion = sample_window(networks.diffusion, rest, encoded, noise, ddim_schedule(SCORED_STEPS)).flatten(0, 1)[:num]
    return (motion[:, GAP_COLUMNS[1]] - motion[:, GAP_COLUMNS[0]]).float().cpu().numpy()


def score_voice(training: SpeechTraining, spoken: list[LabelledSpeech]) -> dict[str, float]:
    """Correlation of predicted with labelled lip opening, its best lag in frames, and the share of closures kept."""
    columns = training.basis[:, 4].cpu().numpy() - training.basis[:, 1].cpu().numpy()
    mine, wanted, closed = [], [], []
    for one in spoken:
        gap = predict_gap(training.mean.module, one, training.device)
        units = one.units[: len(gap) * LABELS_PER_FRAME].reshape(len(gap), LABELS_PER_FRAME, -1).mean(1)
        target = units @ columns
        mine.append(gap)
        wanted.append(target)
        bilabial = np.isin(one.phones, [PHONE_NAMES.index(p) for p in ("P", "B", "M")])
        closed.append(bilabial[: len(gap) * LABELS_PER_FRAME].reshape(len(gap), LABELS_PER_FRAME)[:, 1:3].any(1))
    x, y, shut = np.concatenate(mine), np.concatenate(wanted), np.concatenate(closed)
    lags = {lag: float(np.corrcoef(np.roll(x, -lag)[5:-5], y[5:-5])[0, 1]) for lag in range(-4, 5)}
    opening = np.median(x[y > 0.02]) if (y > 0.02).any() else 0.0
    return {
        "correlation": lags[0],
        "best_lag": max(lags, key=lambda lag: lags[lag]),
        "gain": float(np.polyfit(y, x, 1)[0]),
        "closed": float((x[shut] < opening / 3).mean()) if shut.any() else 1.0,
        "silence": float(np.abs(x[y < 1e-4]).mean()) if (y < 1e-4).any() else 0.0,
    }
