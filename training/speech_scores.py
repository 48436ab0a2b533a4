"""How well trained speech networks move the lips, on utterances with known phones."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from newsstudio_ditto.maths.audio_windows import WINDOW_SAMPLES
from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.maths.motion_vector import EXPRESSION_START
from newsstudio_ditto.networks.config import MINI
from newsstudio_ditto.networks.motion_diffusion import EncodedCondition, sample_window
from newsstudio_ditto.units import MOTION_DIM, SAMPLES_PER_FRAME, WINDOW_FRAMES
from training.lips import closure_share, lagged_correlations
from training.speech_pool import LABEL_HZ, LABELS_PER_FRAME, LEAD_SAMPLES, SEGMENT_SAMPLES, LabelledSpeech
from training.speech_training import LOWER_LIP_Y, UPPER_LIP_Y, SpeechNetworks, SpeechTraining, merge_windows, unit_gaps
from training.viseme import PHONE_NAMES, Phone

GAP_COLUMNS = (EXPRESSION_START + UPPER_LIP_Y, EXPRESSION_START + LOWER_LIP_Y)
STILL_GAP = 1e-4


@dataclass(frozen=True)
class LipScores:
    """Of one voice, over all of its utterances.

    Args:
        correlation: of the lips' opening with the labelled one.
        best_lag: in frames, at which it is highest.
        gain: opening over the labelled one.
        closures: share of p, b and m that close the lips, as ``training.lips.closure_share`` has it.
        num_closures: how many there are.
        silence: mean opening in crop units where it should be none.
    """

    correlation: float
    best_lag: int
    gain: float
    closures: float
    num_closures: int
    silence: float


@torch.no_grad()
def predict_gaps(
    networks: SpeechNetworks,
    spoken: list[LabelledSpeech],
    device: torch.device,
    *,
    num_steps: int = MINI.num_steps,
    guidance_scale: float = MINI.guidance_scale,
) -> list[np.ndarray]:
    """Opening of the lips (T,) in crop units that the networks make of each utterance, every window by itself."""
    counts = [len(one.units) // LABELS_PER_FRAME for one in spoken]
    windows = [-(-count // WINDOW_FRAMES) for count in counts]
    segments = torch.cat([_cut(one, num) for one, num in zip(spoken, windows, strict=True)]).to(device)
    condition = merge_windows(networks.encode(segments).float())
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(num_steps, len(segments), WINDOW_FRAMES, MOTION_DIM, generator=generator).to(device)

    def predict(noisy: Tensor, first: Tensor, encoded: EncodedCondition, step: Tensor) -> Tensor:
        return networks.diffusion.predict_guided(noisy, first, encoded, step, guidance_scale)

    encoded = networks.diffusion.encode_for(condition, guidance_scale)
    rest = noise.new_zeros(len(segments), MOTION_DIM)
    motion = sample_window(predict, rest, encoded, noise, ddim_schedule(num_steps))
    gap = (motion[..., GAP_COLUMNS[1]] - motion[..., GAP_COLUMNS[0]]).float().cpu().numpy()
    ends = np.cumsum(windows)
    return [gap[end - num : end].reshape(-1)[:count] for end, num, count in zip(ends, windows, counts, strict=True)]


def _cut(spoken: LabelledSpeech, num: int) -> Tensor:
    """Segments (num, SEGMENT_SAMPLES), one per window of 80 frames."""
    step = WINDOW_FRAMES * SAMPLES_PER_FRAME
    padded = functional.pad(torch.from_numpy(spoken.samples), (LEAD_SAMPLES, num * step + WINDOW_SAMPLES))
    return torch.stack([padded[i * step : i * step + SEGMENT_SAMPLES] for i in range(num)])


def phone_runs(labels: np.ndarray) -> list[Phone]:
    """Phones with times from indices (L,) at LABEL_HZ; two equal ones in a row count as one."""
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1), len(labels)]
    return [Phone(PHONE_NAMES[labels[start]], start / LABEL_HZ, end / LABEL_HZ) for start, end in pairwise(edges)]


def score_gaps(gaps: list[np.ndarray], spoken: list[LabelledSpeech], opened: np.ndarray) -> LipScores:
    """Judge openings (T,) of utterances; ``opened`` (U,) is what each face unit opens, in crop units."""
    wanted: list[np.ndarray] = []
    phones: list[Phone] = []
    for gap, one in zip(gaps, spoken, strict=True):
        start_s = sum(map(len, wanted)) * LABELS_PER_FRAME / LABEL_HZ
        rows = one.units[: len(gap) * LABELS_PER_FRAME].reshape(len(gap), LABELS_PER_FRAME, -1).mean(1)
        wanted.append(np.maximum(rows @ opened, 0))
        phones += [Phone(p.name, p.start_s + start_s, p.end_s + start_s) for p in phone_runs(one.phones)]
    x, y = np.concatenate(gaps), np.concatenate(wanted)
    lags = lagged_correlations(x, y)
    closures, num_closures = closure_share(x, y, phones)
    still = y < STILL_GAP
    return LipScores(
        correlation=lags[0],
        best_lag=max(lags, key=lambda lag: lags[lag]),
        gain=float(np.polyfit(y, x, 1)[0]),
        closures=closures,
        num_closures=num_closures,
        silence=float(np.abs(x[still]).mean()) if still.any() else 0.0,
    )


def score_voice(training: SpeechTraining, spoken: list[LabelledSpeech]) -> LipScores:
    """Judge the running means of a run on the utterances of a voice."""
    gaps = predict_gaps(training.mean.module, spoken, training.device)
    return score_gaps(gaps, spoken, unit_gaps(training.basis).cpu().numpy())
