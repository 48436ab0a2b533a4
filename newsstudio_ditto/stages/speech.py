"""Speech features: what the motion diffusion hears, one row per video frame."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newsstudio_ditto.maths.audio_windows import cut_windows, merge_rows
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.stages.tensor_file import Plain, TensorFile
from newsstudio_ditto.units import count_frames

VERSION = "speech_features.1"

WINDOWS_PER_BATCH = 64
"""13 s of speech; the activations of one batch bound the memory, whatever the length."""


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
def _encode(windows: Tensor, bundle: ModelBundle) -> Tensor:
    # an encoder that onnxruntime runs has no weights of its own, and takes float32
    dtype = next((weight.dtype for weight in bundle.audio_encoder.parameters()), torch.float32)
    rows = bundle.audio_encoder(windows.to(bundle.device, dtype))
    return merge_rows(rows.float()).cpu()


def iterate_speech_features(
    speech: npt.NDArray[np.float32], bundle: ModelBundle, *, windows_per_batch: int = WINDOWS_PER_BATCH
) -> Iterator[Tensor]:
    """Yield the features of a speech in order, (n, A) float32 at a time, T rows in all.

    Every window is encoded by itself, so the rows do not depend on how windows are put into batches.

    Raises:
        EmptyAudioError: there is no sample.
    """
    windows = cut_windows(torch.from_numpy(speech))
    rows_left = count_frames(len(speech))
    for start in range(0, len(windows), windows_per_batch):
        rows = _encode(windows[start : start + windows_per_batch], bundle)[:rows_left]
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
