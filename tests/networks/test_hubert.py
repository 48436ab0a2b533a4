"""One HuBERT by two ways, transformers and ONNX, under one chunk protocol: all chunks at once equal one by one."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import HubertModel

from newsstudio_ditto.networks.audio_encoder import AudioEncoder, hubert_config
from newsstudio_ditto.networks.build import load_network
from newsstudio_ditto.networks.bundle import ModelBundle, seeded_bundle
from newsstudio_ditto.networks.checkpoints import unwrap_hubert
from newsstudio_ditto.networks.onnx_encoder import OnnxAudioEncoder
from newsstudio_ditto.networks.weights import read_weights
from newsstudio_ditto.stages.speech import compute_speech_features, iterate_speech_features
from newsstudio_ditto.units import count_frames
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.networks.sizes import TINY, TINY_NETWORKS

WINDOW, HOP, LEAD = 6480, 3200, 2000
SPEECH = (0.1 * np.random.default_rng(9).standard_normal(83 * 640 - 17)).astype(np.float32)


@pytest.fixture(scope="module")
def original() -> HubertModel:
    """As transformers makes it, with its weight norm; fixed numbers."""
    with torch.random.fork_rng():
        torch.manual_seed(21)
        return HubertModel(hubert_config(TINY_NETWORKS.audio_encoder)).eval().requires_grad_(False)


class LastState(nn.Module):
    """What the published file computes: the rows of one window, or of a batch."""

    def __init__(self, model: HubertModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_values: Tensor) -> Tensor:
        return self.model(input_values).last_hidden_state


def export(model: HubertModel, path: Path, *, is_free: bool) -> Path:
    axes = {"input_values": {0: "batch", 1: "samples"}, "encoding_out": {0: "batch", 1: "rows"}} if is_free else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            LastState(model),
            (torch.zeros(1, WINDOW),),
            str(path),
            input_names=["input_values"],
            output_names=["encoding_out"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    return path


def transformers_encoder(model: HubertModel, folder: Path) -> nn.Module:
    """Through a weight file, as ``hubert=PATH`` takes it."""
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / "hubert.safetensors")
    state = unwrap_hubert(read_weights(folder / "hubert.safetensors"))
    cpu = torch.device("cpu")
    encoder = load_network(TINY_NETWORKS, "audio_encoder", state, device=cpu, dtype=torch.float32, origin="hubert")
    assert isinstance(encoder, AudioEncoder)
    return encoder


ENCODERS: dict[str, Callable[[HubertModel, Path], nn.Module]] = {
    "transformers": transformers_encoder,
    "onnx, free batch": lambda model, folder: OnnxAudioEncoder(export(model, folder / "a.onnx", is_free=True), 16),
    "onnx, one window": lambda model, folder: OnnxAudioEncoder(export(model, folder / "b.onnx", is_free=False), 16),
}


@pytest.fixture(scope="module", params=ENCODERS)
def bundle(
    request: pytest.FixtureRequest, original: HubertModel, tmp_path_factory: pytest.TempPathFactory
) -> ModelBundle:
    made = seeded_bundle(TINY)
    made.audio_encoder = ENCODERS[request.param](original, tmp_path_factory.mktemp("encoder"))  # type: ignore[assignment]
    return made


def chunk_by_chunk(model: HubertModel, speech: np.ndarray) -> Tensor:
    """The protocol of the reference, one window after the other, with slices written as it writes them."""
    num_frames = count_frames(len(speech))
    padded = np.concatenate([np.zeros(LEAD, np.float32), speech, np.zeros(WINDOW, np.float32)])
    chunks = []
    for frame in range(0, num_frames, 5):
        rows = model(torch.from_numpy(padded[640 * frame : 640 * frame + WINDOW])[None]).last_hidden_state[0]
        chunks.append(rows[-14:-4].reshape(5, 2, -1).mean(dim=1))
    return torch.cat(chunks)[:num_frames]


def test_all_chunks_at_once_equal_the_reference_chunk_by_chunk(bundle: ModelBundle, original: HubertModel) -> None:
    expected = chunk_by_chunk(original, SPEECH)
    assert expected.shape == (83, 16) and expected.std() > 0.1
    name = type(bundle.audio_encoder).__name__
    assert_golden("audio, HuBERT", name, compute_speech_features(SPEECH, bundle), expected, tolerances.HUBERT)


@pytest.mark.parametrize("size", [1, 3])
def test_batches_of_any_size_give_the_same_rows(bundle: ModelBundle, size: int) -> None:
    parts = list(iterate_speech_features(SPEECH, bundle, windows_per_batch=size))
    assert len(parts) == -(-17 // size)
    torch.testing.assert_close(
        torch.cat(parts), compute_speech_features(SPEECH, bundle), rtol=0, atol=tolerances.HUBERT
    )


def test_one_chunk_more_changes_no_row_before_it(bundle: ModelBundle) -> None:
    shorter = compute_speech_features(SPEECH[: 40 * 640], bundle)
    longer = compute_speech_features(SPEECH, bundle)[:35]
    torch.testing.assert_close(shorter[:35], longer, rtol=0, atol=tolerances.HUBERT)
