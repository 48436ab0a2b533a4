"""The ONNX audio encoder: the chunk protocol, and batches that equal single windows."""

from pathlib import Path

import numpy as np
import pytest
import torch

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.maths.audio_windows import cut_windows, merge_rows
from newsstudio_ditto.networks.onnx_encoder import OnnxAudioEncoder
from newsstudio_ditto.units import count_frames
from tests import tolerances
from tests.golden_rules import N, f32, load_golden
from tests.official.nets import constant_net, row_encoder

WIDTH = 1024
KERNEL = f32(np.sin(0.001 * np.outer(np.arange(1, 401), np.arange(1, WIDTH + 1))) / 20)
ARRAYS, _ = load_golden("audio/audio")
KINDS = {"free": ("batch", False), "one": (1, False), "squeezed": (1, True)}


@pytest.fixture(scope="module", params=KINDS)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OnnxAudioEncoder:
    batch, squeezed = KINDS[request.param]
    path = tmp_path_factory.mktemp("nets") / f"{request.param}.onnx"
    made = OnnxAudioEncoder(row_encoder(path, KERNEL, batch=batch, squeezed=squeezed), WIDTH)
    assert made.takes_batches == (request.param == "free")
    return made


@pytest.mark.parametrize("length", [1, 4480, 48123])
def test_features_are_the_golden_ones(encoder: OnnxAudioEncoder, length: int) -> None:
    name = f"offline/{length}"
    if name not in ARRAYS:
        pytest.skip("no golden of this length")
    speech = torch.from_numpy(f32(0.1 * N(f"audio/{length}", (length,))))
    rows = merge_rows(encoder(cut_windows(speech)), count_frames(length))
    golden = ARRAYS[name][: len(rows)]
    np.testing.assert_allclose(rows[:, ::8], golden, atol=tolerances.AUDIO)


def test_all_windows_at_once_equal_one_after_the_other(encoder: OnnxAudioEncoder) -> None:
    windows = cut_windows(torch.from_numpy(f32(0.1 * N("audio/windows", (40_000,)))))
    together = encoder(windows)
    assert together.shape == (len(windows), 20, WIDTH)
    apart = torch.cat([encoder(window[None]) for window in windows])
    torch.testing.assert_close(together, apart, rtol=0, atol=tolerances.AUDIO)


def test_other_precision_and_no_own_weights(encoder: OnnxAudioEncoder) -> None:
    rows = encoder(torch.zeros(2, 6480, dtype=torch.float16))
    assert rows.dtype == torch.float32 and list(encoder.parameters()) == []


def test_a_file_of_another_width_or_kind_is_refused(tmp_path: Path) -> None:
    path = row_encoder(tmp_path / "narrow.onnx", KERNEL[:, :8], batch=1)
    with pytest.raises(BundleError, match=r"narrow.onnx: output encoding_out: expected float32 \(rows, 1024\)"):
        OnnxAudioEncoder(path, WIDTH)
    flat = constant_net(tmp_path / "flat.onnx", (6480,), [np.zeros((20, WIDTH), np.float32)], "input_values")
    with pytest.raises(BundleError, match=r"flat.onnx: input input_values: expected float32 \(1, samples\)"):
        OnnxAudioEncoder(flat, WIDTH)
    with pytest.raises(BundleError, match="does not exist"):
        OnnxAudioEncoder(tmp_path / "absent.onnx", WIDTH)
    (tmp_path / "text.onnx").write_text("no net")
    with pytest.raises(BundleError, match="is no ONNX file"):
        OnnxAudioEncoder(tmp_path / "text.onnx", WIDTH)
