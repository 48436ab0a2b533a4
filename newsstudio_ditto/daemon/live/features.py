"""Speech features while the speech arrives: the same rows as of the whole speech."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newsstudio_ditto.maths.audio_windows import (
    FRAMES_AFTER,
    FRAMES_PER_WINDOW,
    WINDOW_SAMPLES,
    WINDOW_STRIDE,
)
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.stages.speech import compute_speech_features, encode_windows
from newsstudio_ditto.units import FRAME_RATE_HZ, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, count_frames

LOOK_AHEAD_FRAMES = FRAMES_PER_WINDOW - 1 + FRAMES_AFTER
"""The row of a frame is known once the speech has gone this many frames past it, at most."""

_LEAD_SAMPLES = WINDOW_SAMPLES - WINDOW_STRIDE - FRAMES_AFTER * SAMPLES_PER_FRAME
"""Silence before the first sample, as ``cut_windows`` puts it there."""

Samples = npt.NDArray[np.float32]


class FeatureStream:
    """Turns samples into feature rows as soon as a window of the encoder is full.

    Args:
        bundle: its audio encoder runs where the bundle lives.
    """

    def __init__(self, bundle: ModelBundle) -> None:
        """Start before the first sample."""
        self._bundle = bundle
        self._buffer = torch.zeros(_LEAD_SAMPLES)
        self._num_samples = 0
        self._num_rows = 0

    def feed(self, samples: Samples) -> Tensor:
        """Take samples (n,) and return the rows (k, A) float32 that they complete, k >= 0, on the CPU."""
        self._num_samples += len(samples)
        self._buffer = torch.cat([self._buffer, torch.from_numpy(samples)])
        count = max((len(self._buffer) - WINDOW_SAMPLES) // WINDOW_STRIDE + 1, 0)
        return self._encode(count)

    def finish(self) -> Tensor:
        """The rows (k, A) that are left, k >= 0; as many in all as the samples have frames, the last one begun."""
        rows_left = count_frames(self._num_samples) - self._num_rows
        count = -(-rows_left // FRAMES_PER_WINDOW)
        length = (count - 1) * WINDOW_STRIDE + WINDOW_SAMPLES if count else 0
        missing = max(length - len(self._buffer), 0)
        self._buffer = torch.cat([self._buffer, torch.zeros(missing)])
        return self._encode(count)[:rows_left]

    @torch.no_grad()
    def _encode(self, count: int) -> Tensor:
        audio = self._bundle.config.networks.motion_diffusion.audio_dim
        if count <= 0:
            return torch.zeros(0, audio)
        windows = self._buffer.unfold(0, WINDOW_SAMPLES, WINDOW_STRIDE)[:count]
        rows = encode_windows(windows, self._bundle)
        self._buffer = self._buffer[count * WINDOW_STRIDE :].clone()
        self._num_rows += len(rows)
        return rows


def silence_row(bundle: ModelBundle) -> Tensor:
    """(A,) float32, the features of a frame in the middle of silence."""
    second = np.zeros(SAMPLE_RATE_HZ, np.float32)
    return compute_speech_features(second, bundle)[FRAME_RATE_HZ // 2]
