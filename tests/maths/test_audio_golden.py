"""The audio window protocol with the golden stand-in encoder."""

import numpy as np
import pytest
from torch import Tensor

from newsstudio_ditto.maths.audio_windows import cut_stream_windows, cut_windows, merge_rows
from newsstudio_ditto.units import count_frames
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import N, f32, load_golden
from tests.maths.motions import tensor

ARRAYS, FACTS = load_golden("audio/audio")
BASIS = np.sin(0.001 * np.outer(np.arange(1, 401), np.arange(1, 1025)))


def encode(windows: Tensor) -> Tensor:
    return tensor(f32(windows.unfold(-1, 400, 320).double().numpy() @ BASIS / 20))


def speech(length: int) -> Tensor:
    return tensor(f32(0.1 * N(f"audio/{length}", (length,))))


@pytest.mark.parametrize("length", FACTS["offline"])
def test_whole_speech(length: str) -> None:
    """The reference counts one frame too many at some multiples of 640 samples (4480); ours is the exact ceiling."""
    encoded = encode(cut_windows(speech(int(length))))
    expected = ARRAYS[f"offline/{length}"]
    as_reference = merge_rows(encoded, FACTS["offline"][length]["num_frames"])[:, ::8].numpy()
    assert_golden("audio", f"offline/{length}", as_reference, expected, tolerances.AUDIO)
    ours = merge_rows(encoded, count_frames(int(length)))
    assert len(ours) == FACTS["offline"][length]["ceil_div_640"]
    assert_golden("audio", f"offline/{length}, exact count", ours[:, ::8], expected[: len(ours)], tolerances.AUDIO)


@pytest.mark.parametrize("length", FACTS["online"])
def test_streamed_speech(length: str) -> None:
    windows = cut_stream_windows(speech(int(length)))
    assert len(windows) == FACTS["online"][length]["num_chunks"]
    rows = merge_rows(encode(windows))[:, ::8].numpy()
    assert_golden("audio", f"online/{length}", rows, ARRAYS[f"online/{length}"], tolerances.AUDIO)


@pytest.mark.parametrize("frames", FACTS["ceil_quirk_k"][:8])
def test_exact_multiples_get_no_extra_frame(frames: int) -> None:
    assert count_frames(640 * frames) == frames


@pytest.mark.parametrize("frame", [1615, 3205])
def test_late_windows_start_on_the_sample(frame: int) -> None:
    """In floats these windows start one sample early."""
    ramp = tensor(np.arange((frame + 5) * 640, dtype=np.float32))
    window = cut_windows(ramp)[frame // 5]
    assert window[2000].item() == 640 * frame
