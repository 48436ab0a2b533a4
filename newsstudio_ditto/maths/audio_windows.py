"""Cutting speech into encoder windows and merging what the encoder returns into one row per video frame."""

from torch import Tensor
from torch.nn import functional as F

from newsstudio_ditto.errors import EmptyAudioError
from newsstudio_ditto.units import SAMPLES_PER_FRAME, count_frames

FRAMES_BEFORE, FRAMES_PER_WINDOW, FRAMES_AFTER = 3, 5, 2
RECEPTIVE_EXCESS = 80  # the encoder's receptive field is this much longer than its hop
WINDOW_SAMPLES = (FRAMES_BEFORE + FRAMES_PER_WINDOW + FRAMES_AFTER) * SAMPLES_PER_FRAME + RECEPTIVE_EXCESS
WINDOW_STRIDE = FRAMES_PER_WINDOW * SAMPLES_PER_FRAME
ROWS_PER_FRAME = 2
_KEPT_ROWS = slice(FRAMES_BEFORE * ROWS_PER_FRAME, (FRAMES_BEFORE + FRAMES_PER_WINDOW) * ROWS_PER_FRAME)
_STREAM_LEAD = FRAMES_BEFORE * SAMPLES_PER_FRAME
_WHOLE_LEAD = _STREAM_LEAD + RECEPTIVE_EXCESS


def count_windows(num_samples: int) -> int:
    """Windows of a whole speech: one for every five video frames, the last one begun."""
    return -(-count_frames(num_samples) // FRAMES_PER_WINDOW)


def cut_windows(speech: Tensor) -> Tensor:
    """Windows of a whole speech, one for every five video frames.

    Args:
        speech: (samples,) 16 kHz mono.

    Returns:
        (num_windows, 6480); window i is centred on frames 5i to 5i+4.

    Raises:
        EmptyAudioError: there is no sample.
    """
    return cut_some_windows(speech, 0, count_windows(_require_samples(speech)))


def cut_some_windows(speech: Tensor, start: int, stop: int) -> Tensor:
    """Windows ``start`` to ``stop`` of :func:`cut_windows`; no other samples are read.

    Args:
        speech: (samples,) 16 kHz mono, all of it.
        start: first window.
        stop: end of the windows, above ``start``.

    Returns:
        (stop - start, 6480).
    """
    first = start * WINDOW_STRIDE - _WHOLE_LEAD
    last = (stop - 1) * WINDOW_STRIDE - _WHOLE_LEAD + WINDOW_SAMPLES
    return _cut(F.pad(speech[max(first, 0) : last], (max(-first, 0), 0)), stop - start)


def cut_stream_windows(speech: Tensor) -> Tensor:
    """Windows of the streaming protocol: 5 ms later than :func:`cut_windows`, and one for any rest of the samples.

    Args:
        speech: (samples,) 16 kHz mono.

    Returns:
        (num_windows, 6480).

    Raises:
        EmptyAudioError: there is no sample.
    """
    num_windows = -(-(_require_samples(speech) + _STREAM_LEAD) // WINDOW_STRIDE)
    return _cut(F.pad(speech, (_STREAM_LEAD, 0)), num_windows)


def merge_rows(encoded: Tensor, num_frames: int | None = None) -> Tensor:
    """Keep the middle of each window and average pairs of 50 Hz rows into 25 Hz rows.

    Args:
        encoded: (num_windows, 20, A) encoder output.
        num_frames: rows to return; ``None`` returns five per window.

    Returns:
        (num_frames, A).
    """
    kept = encoded[:, _KEPT_ROWS]
    pairs = kept.reshape(-1, ROWS_PER_FRAME, encoded.shape[-1])
    return pairs.mean(dim=1)[:num_frames]


def _require_samples(speech: Tensor) -> int:
    if speech.numel() == 0:
        raise EmptyAudioError("the speech has no samples", "give a recording that is not empty")
    return speech.numel()


def _cut(speech: Tensor, num_windows: int) -> Tensor:
    length = (num_windows - 1) * WINDOW_STRIDE + WINDOW_SAMPLES
    whole = F.pad(speech, (0, max(length - len(speech), 0)))[:length]
    return whole.unfold(0, WINDOW_SAMPLES, WINDOW_STRIDE)
