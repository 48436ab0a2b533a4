import numpy as np
import pytest
import torch

from newsstudio_ditto.errors import EmptyAudioError
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.stages.speech import compute_speech_features, iterate_speech_features, to_tensors

NUM_FRAMES = 58


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return np.random.default_rng(5).standard_normal(NUM_FRAMES * 640 - 3).astype(np.float32) * 0.1


@pytest.mark.parametrize("windows_per_batch", [1, 5, 64])
def test_features_do_not_depend_on_the_batches(windows_per_batch: int, speech: np.ndarray, bundle: ModelBundle) -> None:
    chunks = list(iterate_speech_features(speech, bundle, windows_per_batch=windows_per_batch))
    assert max(len(chunk) for chunk in chunks) <= 5 * windows_per_batch
    features = compute_speech_features(speech, bundle)
    assert features.shape == (NUM_FRAMES, 16)
    torch.testing.assert_close(torch.cat(chunks), features, atol=1e-5, rtol=1e-5)


def test_features_follow_the_speech(speech: np.ndarray, bundle: ModelBundle) -> None:
    changed = speech.copy()
    changed[30 * 640 : 31 * 640] = 0
    difference = (compute_speech_features(speech, bundle) - compute_speech_features(changed, bundle)).abs().amax(dim=1)
    assert difference[25:35].max() > 1e-4
    assert difference[:15].max() == 0
    assert difference[-15:].max() == 0


def test_a_speech_without_samples_is_refused(bundle: ModelBundle) -> None:
    with pytest.raises(EmptyAudioError):
        compute_speech_features(np.zeros(0, np.float32), bundle)


def test_the_kept_file_says_which_weights_listened(bundle: ModelBundle) -> None:
    kept = to_tensors(torch.zeros(3, 16), bundle)
    assert kept.header["kind"] == "speech_features"
    assert kept.header["model_fingerprint"] == bundle.fingerprint
    assert kept.tensors["features"].shape == (3, 16)
