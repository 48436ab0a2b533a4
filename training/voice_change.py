"""Other voices out of the ones at hand: formants moved against the pitch, whispers, and bands that a line swallows.

Some also move sluggishly, as those of statistical synthesisers do: their spectra are blurred over time.

Speech is (B, S) at 16 kHz; length, timing and loudness stay.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

WINDOW, HOP = 512, 128
BINS = WINDOW // 2 + 1
LIFTER = 36
FORMANT_SPREAD = 0.25
SLUGGISH_SHARE, MOST_BLUR_HOPS = 0.3, 2.5
WHISPER_SHARE, BAND_SHARE = 0.08, 0.3
MAX_GAIN_NEPER = 4.0
BAND_GAIN = 0.05


def _envelope(log_size: Tensor) -> Tensor:
    """Smooth spectra (B, BINS, T) of log magnitudes, by the first cepstral coefficients."""
    cepstrum = torch.fft.irfft(log_size, n=WINDOW, dim=1)
    quefrency = torch.arange(WINDOW, device=log_size.device)
    distance = torch.minimum(quefrency, WINDOW - quefrency)
    kept = (0.5 + 0.5 * torch.cos(math.pi * distance / LIFTER)) * (distance < LIFTER)
    return torch.fft.rfft(cepstrum * kept[None, :, None], dim=1).real


def _stretch(spectra: Tensor, factor: Tensor) -> Tensor:
    """Spectra (B, BINS, T) with frequencies multiplied by factors (B,)."""
    position = (torch.arange(BINS, device=spectra.device)[None] / factor[:, None]).clamp(max=BINS - 1.001)
    low = position.long()
    share = (position - low)[..., None]
    index = low[..., None].expand(-1, -1, spectra.shape[-1])
    return spectra.gather(1, index) * (1 - share) + spectra.gather(1, index + 1) * share


def _missing_bands(num: int, device: torch.device) -> Tensor:
    """Gains (num, BINS, 1) that take a random band away from a share of the rows."""
    bins = torch.arange(BINS, device=device)[None]
    start = torch.rand(num, 1, device=device) * BINS
    width = torch.rand(num, 1, device=device) * BINS * 0.2
    inside = (bins >= start) & (bins < start + width) & (torch.rand(num, 1, device=device) < BAND_SHARE)
    return torch.where(inside, BAND_GAIN, 1.0)[..., None]


def _blur(log_spectra: Tensor) -> Tensor:
    """Log spectra (B, BINS, T), those of a share of the rows blurred over time: by up to 20 ms, standard deviation."""
    num, device = len(log_spectra), log_spectra.device
    reach = 3 * math.ceil(MOST_BLUR_HOPS)
    hops = torch.arange(-reach, reach + 1, device=device)
    spread = torch.rand(num, 1, device=device) * MOST_BLUR_HOPS * (torch.rand(num, 1, device=device) < SLUGGISH_SHARE)
    kernel = torch.exp(-0.5 * (hops[None] / spread.clamp_min(0.05)).square())
    kernel = (kernel / kernel.sum(1, keepdim=True))[:, None]
    padded = functional.pad(log_spectra, (reach, reach), mode="replicate").transpose(0, 1)
    return functional.conv1d(padded, kernel, groups=num).transpose(0, 1)


def change_voice(samples: Tensor, share: float = 0.75) -> Tensor:
    """Change the voice of a share of the rows."""
    num, size = samples.shape
    device = samples.device
    window = torch.hann_window(WINDOW, device=device)
    spectra = torch.stft(samples, WINDOW, HOP, window=window, return_complex=True)
    log_size = (spectra.abs() + 1e-4).log()
    envelope = _envelope(log_size)
    factor = torch.exp((torch.rand(num, device=device) * 2 - 1) * FORMANT_SPREAD)
    moved = _blur(_stretch(envelope, factor))
    changed = spectra * (moved - envelope).clamp(-MAX_GAIN_NEPER, MAX_GAIN_NEPER).exp()
    breath = torch.randn(*spectra.shape, device=device, dtype=spectra.dtype) * moved.exp()
    whispers = torch.rand(num, 1, 1, device=device) < WHISPER_SHARE
    changed = torch.where(whispers, breath, changed) * _missing_bands(num, device)
    spoken = torch.istft(functional.pad(changed, (0, 1)), WINDOW, HOP, window=window, length=size)
    loudness = samples.square().mean(1, keepdim=True).sqrt()
    spoken = spoken * loudness / (spoken.square().mean(1, keepdim=True).sqrt() + 1e-5)
    return torch.where(torch.rand(num, 1, device=device) < share, spoken, samples)
