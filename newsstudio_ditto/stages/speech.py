"""Speech features: what the motion diffusion hears, one row per video frame."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newsstudio_ditto.errors import EmptyAudioError
from newsstudio_ditto.maths.audio_windows import FRAMES_PER_WINDOW, count_windows, cut_some_windows, merge_rows
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.stages.tensor_file import Plain, TensorFile
from newsstudio_ditto.units import WINDOW_FRAMES, count_frames

VERSION = "speech_features.1"

Encoder = Callable[[Tensor], Tensor]

WINDOWS_PER_BATCH = 64
"""13 s of speech; the activations of one batch bound the memory, whatever the length."""

FIRST_WINDOWS = WINDOW_FRAMES // FRAMES_PER_WINDOW
"""What the first window of motion hears. It is encoded alone, so that this motion need not wait for the rest."""


def compute_speech_features(speech: npt.NDArray[np.float32], bundle: ModelBundle) -> Tensor:
    """Features of a whole speech.

    Args:
        speech: (samples,) 16 kHz mono, -1..1.
        bundle: its audio encoder runs where the bundle lives.

    Returns:
        (T, A) float32 on the CPU; T is the ceiling of samples / 640.

    Raises:
        EmptyAudioError: there is no sample.
    """
    return torch.cat(list(iterate_speech_features(speech, bundle)))


@torch.no_grad()
def encode_windows(windows: Tensor, bundle: ModelBundle, encoder: Encoder | None = None) -> Tensor:
    """Feature rows, float32 on the CPU, of windows of samples; arguments as in :func:`iterate_speech_features`."""
    # an encoder that onnxruntime runs has no weights of its own, and takes float32
    dtype = next((weight.dtype for weight in bundle.audio_encoder.parameters()), None)
    run = bundle.audio_encoder if encoder is None or dtype is None else encoder
    rows = run(windows.to(bundle.device, dtype or torch.float32))
    return _to_host(merge_rows(rows.float()))


def _to_host(rows: Tensor) -> Tensor:
    """Rows on the CPU, through page-locked memory where they come from a CUDA device.

    While a copy to other memory waits for the device, no thread can start a copy of its own: that held up first frames.
    """
    if not rows.is_cuda:
        return rows.cpu()
    host = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
    host.copy_(rows, non_blocking=True)
    copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    copied.record(torch.cuda.current_stream(rows.device))
    copied.synchronize()
    return host


def iterate_speech_features(
    speech: npt.NDArray[np.float32],
    bundle: ModelBundle,
    *,
    windows_per_batch: int = WINDOWS_PER_BATCH,
    encoder: Encoder | None = None,
) -> Iterator[Tensor]:
    """Yield the features of a speech in order, (n, A) float32 at a time, T rows in all.

    Every window is encoded by itself, so the rows do not depend on how windows are put into batches.

    Args:
        speech: (samples,) 16 kHz mono, -1..1.
        bundle: its audio encoder runs where the bundle lives.
        windows_per_batch: windows that are encoded at once, at most; the first batch is a short one.
        encoder: the bundle's audio encoder made faster, such as a captured one; None takes it as it is.

    Raises:
        EmptyAudioError: there is no sample.
    """
    samples, num_windows = torch.from_numpy(speech), count_windows(len(speech))
    if num_windows == 0:
        raise EmptyAudioError("the speech has no samples", "give a recording that is not empty")
    rows_left = count_frames(len(speech))
    first = min(FIRST_WINDOWS, windows_per_batch, num_windows)
    starts = [0, *range(first, num_windows, windows_per_batch)]
    for start, stop in pairwise([*starts, num_windows]):
        windows = cut_some_windows(samples, start, stop)
        rows = encode_windows(windows, bundle, encoder)[:rows_left]
        rows_left -= len(rows)
        yield rows


def to_tensors(features: Tensor, bundle: ModelBundle) -> TensorFile:
    """Features (T, A) as a file to keep, with the weights that made them."""
    header: dict[str, Plain] = {
        "kind": "speech_features",
        "stage_version": VERSION,
        "model_fingerprint": bundle.fingerprint,
    }
    return TensorFile({"features": features}, header)
