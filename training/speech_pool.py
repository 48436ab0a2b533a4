"""The speech corpus on the device: one long line of samples with labels at 100 Hz, and random noisy segments of it."""

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor
from torch.nn import functional

from newsstudio_ditto.maths.audio_windows import WINDOW_SAMPLES, WINDOW_STRIDE
from newsstudio_ditto.units import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, WINDOW_FRAMES
from training.speech_set import read_phones, split_phones
from training.viseme import BILABIALS, PHONE_NAMES, UNITS, Phone, unit_curves

LABEL_HZ = 100
SAMPLES_PER_LABEL = SAMPLE_RATE_HZ // LABEL_HZ
LABELS_PER_FRAME = SAMPLES_PER_FRAME // SAMPLES_PER_LABEL
LEAD_SAMPLES = 2000
GAP_S = 0.6
NUM_WINDOWS = WINDOW_FRAMES // 5
SEGMENT_SAMPLES = (NUM_WINDOWS - 1) * WINDOW_STRIDE + WINDOW_SAMPLES
SPEED_RANGE = (0.82, 1.22)
NUM_CUTS = 3
CUT_FADE_S, CUT_BLUR_S = 0.005, 0.04  # around a cut: half the dip in the sound, half the stretch where units mix
SILENCE = PHONE_NAMES.index("SIL")
CLOSED = tuple(PHONE_NAMES.index(name) for name in BILABIALS)


@dataclass(frozen=True)
class LabelledSpeech:
    """One utterance, or many in a row.

    Args:
        samples: (S,) float32.
        units: (L, len(UNITS)) face units at LABEL_HZ.
        phones: (L,) indices into PHONE_NAMES at LABEL_HZ.
    """

    samples: np.ndarray
    units: np.ndarray
    phones: np.ndarray


def label_speech(samples: np.ndarray, phones: list[Phone]) -> LabelledSpeech:
    """Labels of one utterance, padded to whole labels."""
    num = -(-len(samples) // SAMPLES_PER_LABEL)
    padded = np.pad(samples.astype(np.float32), (0, num * SAMPLES_PER_LABEL - len(samples)))
    index = np.full(num, SILENCE)
    for phone in phones:
        first, last = round(phone.start_s * LABEL_HZ), round(phone.end_s * LABEL_HZ)
        index[first:last] = PHONE_NAMES.index(phone.name)
    return LabelledSpeech(padded, unit_curves(phones, num, rate_hz=LABEL_HZ), index)


def read_corpus(path: Path, split: str, voice: str | None = None) -> list[LabelledSpeech]:
    """Utterances of one split of a corpus of ``training.speech_set``."""
    with np.load(path) as corpus:
        phones = split_phones(corpus["phones"], len(corpus["voices"]))
        chosen = [
            i
            for i, (kind, name) in enumerate(zip(corpus["splits"], corpus["voices"], strict=True))
            if kind == split and voice in (None, name)
        ]
        packed = [(corpus[f"ogg/{i}"].tobytes(), phones[i]) for i in chosen]
    with ThreadPoolExecutor() as threads:
        return list(threads.map(_unpack, *zip(*packed, strict=True))) if packed else []


def _unpack(encoded: bytes, rows: np.ndarray) -> LabelledSpeech:
    samples, _ = soundfile.read(io.BytesIO(encoded), dtype="float32")
    return label_speech(samples, read_phones(rows))


class SpeechPool:
    """All utterances in a row, with silence between them."""

    def __init__(self, spoken: list[LabelledSpeech], device: torch.device) -> None:
        gap = int(GAP_S * LABEL_HZ)
        quiet = LabelledSpeech(
            np.zeros(gap * SAMPLES_PER_LABEL, np.float32),
            np.zeros((gap, len(UNITS)), np.float32),
            np.full(gap, SILENCE),
        )
        line = [part for utterance in spoken for part in (quiet, utterance)] + [quiet] * 12
        self.samples = torch.from_numpy(np.concatenate([part.samples for part in line])).to(device)
        self.units = torch.from_numpy(np.concatenate([part.units for part in line])).to(device)
        self.phones = torch.from_numpy(np.concatenate([part.phones for part in line])).to(device)
        self.device = device

    def read(self, position: Tensor) -> Tensor:
        """Samples at positions, which lie anywhere between two samples."""
        position = position.clamp(0, len(self.samples) - 2)
        left = position.long()
        share = (position - left).to(torch.float32)
        return self.samples[left] * (1 - share) + self.samples[left + 1] * share

    def segments(self, num: int, *, plain_share: float = 0.3, spliced_share: float = 0.0) -> "Segments":
        """Random segments of 80 frames, most of them at a changed speed (which moves pitch and formants too).

        ``spliced_share`` of them jump to other speech at a few moments, often in mid-word, so that the words of the
        corpus can't be learnt instead of their sounds.
        """
        low, high = SPEED_RANGE
        speed = torch.rand(num, 1, device=self.device) * (high - low) + low
        speed = torch.where(torch.rand(num, 1, device=self.device) < plain_share, 1.0, speed).double()
        reach = int(SEGMENT_SAMPLES * high) + 2 * SAMPLES_PER_LABEL
        last = len(self.samples) - reach
        starts = torch.randint(LEAD_SAMPLES * 2, last, (num, NUM_CUTS + 1), device=self.device).double()
        spliced = torch.rand(num, 1, device=self.device) < spliced_share
        cuts = torch.rand(num, NUM_CUTS, device=self.device).sort(1).values * SEGMENT_SAMPLES - LEAD_SAMPLES
        cuts = torch.where(spliced, cuts, torch.inf)

        def find(time: Tensor) -> Tensor:
            piece = (time[None, :, None] >= cuts[:, None]).sum(2)
            return starts.gather(1, piece) + time * speed

        time = torch.arange(-LEAD_SAMPLES, SEGMENT_SAMPLES - LEAD_SAMPLES, device=self.device)
        samples = self.read(find(time)) * (_nearest(time, cuts) / (CUT_FADE_S * SAMPLE_RATE_HZ)).clamp_max(1)
        middle = (torch.arange(WINDOW_FRAMES * LABELS_PER_FRAME, device=self.device) + 0.5) * SAMPLES_PER_LABEL
        index = (find(middle) / SAMPLES_PER_LABEL).long()
        units = self.units[index]
        near = _nearest(middle, cuts) < CUT_BLUR_S * SAMPLE_RATE_HZ
        return Segments(samples, torch.where(near[..., None], _blur(units), units), self.phones[index])


def _nearest(time: Tensor, cuts: Tensor) -> Tensor:
    """How far times (T,) are from the nearest of the cuts (B, K): (B, T)."""
    return (time[None, :, None] - cuts[:, None]).abs().amin(2)


def _blur(units: Tensor) -> Tensor:
    """Mean over the labels within CUT_BLUR_S, of (B, L, U)."""
    half = round(CUT_BLUR_S * LABEL_HZ)
    padded = functional.pad(units.mT, (half, half), mode="replicate")
    return functional.avg_pool1d(padded, 2 * half + 1, 1).mT


@dataclass(frozen=True)
class Segments:
    """Windows of 80 frames.

    Args:
        samples: (B, SEGMENT_SAMPLES), from LEAD_SAMPLES before the first frame on.
        units: (B, 80 * LABELS_PER_FRAME, len(UNITS)).
        phones: (B, 80 * LABELS_PER_FRAME).
    """

    samples: Tensor
    units: Tensor
    phones: Tensor

    def frame_units(self) -> Tensor:
        """Face units (B, 80, len(UNITS)) per video frame."""
        return self.units.unflatten(1, (WINDOW_FRAMES, LABELS_PER_FRAME)).mean(2)

    def closed_frames(self) -> Tensor:
        """Whether the middle of each frame (B, 80) lies in p, b or m."""
        closed = sum((self.phones == phone) for phone in CLOSED) > 0
        return closed.unflatten(1, (WINDOW_FRAMES, LABELS_PER_FRAME))[:, :, 1:3].any(2)


def _spectral(samples: Tensor, response: Tensor) -> Tensor:
    size = samples.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(samples) * response, n=size)


def _curve(num: int, bins: int, spread_db: float, device: torch.device, points: int = 10) -> Tensor:
    """Random smooth gains (num, bins) in dB over frequency."""
    knots = torch.randn(num, 1, points, device=device) * spread_db
    return functional.interpolate(knots, size=bins, mode="linear", align_corners=True)[:, 0]


def _reverberate(samples: Tensor) -> Tensor:
    num, size = samples.shape
    length = SAMPLE_RATE_HZ // 2
    time_s = torch.arange(length, device=samples.device) / SAMPLE_RATE_HZ
    decay_s = torch.rand(num, 1, device=samples.device) * 0.06 + 0.012
    tail = torch.randn(num, length, device=samples.device) * torch.exp(-time_s / decay_s)
    tail[:, :40] = 0
    wet = torch.rand(num, 1, device=samples.device) * 0.6
    tail = tail / tail.norm(dim=1, keepdim=True) * wet
    tail[:, 0] = 1
    padded = functional.pad(samples, (0, length))
    return _spectral(padded, torch.fft.rfft(functional.pad(tail, (0, size))))[:, :size]


def make_noisy(samples: Tensor) -> Tensor:
    """Room, microphone and noise on segments (B, S), each on a share of them; the level is random.

    No sample stays exactly zero: on digital silence the encoder's layer norms have no variance to divide by, each one
    multiplies gradients by three hundred, and nothing is learnt from a batch that holds one such window.
    """
    num, size = samples.shape
    device, bins = samples.device, size // 2 + 1

    def choose(changed: Tensor, share: float) -> Tensor:
        return torch.where(torch.rand(num, 1, device=device) < share, changed, samples)

    samples = choose(_reverberate(samples), 0.4)
    samples = choose(_spectral(samples, 10 ** (_curve(num, bins, 5.0, device) / 20)), 0.7)
    level = samples.square().mean(1, keepdim=True).sqrt() + 1e-4
    colour = torch.linspace(0, 1, bins, device=device).add(0.02) ** -(torch.rand(num, 1, device=device) * 1.2)
    hiss = _spectral(torch.randn(num, size, device=device), colour * 10 ** (_curve(num, bins, 4.0, device) / 20))
    hiss = hiss / hiss.square().mean(1, keepdim=True).sqrt()
    snr_db = torch.rand(num, 1, device=device) * 40 + 8
    samples = choose(samples + hiss * level * 10 ** (-snr_db / 20), 0.7)
    others = samples.roll(1, 0) * 10 ** (-(torch.rand(num, 1, device=device) * 15 + 12) / 20)
    samples = choose(samples + others, 0.15)
    gain = 10 ** ((torch.rand(num, 1, device=device) * 24 - 18) / 20)
    floor = 10 ** (torch.rand(num, 1, device=device) * 1.5 - 4.2)
    return (samples * gain + torch.randn_like(samples) * floor).clamp(-1, 1)
