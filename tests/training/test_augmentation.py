"""Changed voices and mirrored faces keep what the labels say."""

import math

import pytest
import torch
from torch import Tensor

from newsstudio_ditto.maths.keypoints import pose_keypoints, rotation_matrix
from training import voice_change
from training.augment import mirror_some
from training.labels import MIRRORED_KEYPOINTS, MotionLabels, split_motion
from training.voice_change import change_voice

RATE_HZ = 16000


def buzz(formant_hz: float, num: int = 16000) -> Tensor:
    """Harmonics of 120 Hz under one broad resonance."""
    time_s = torch.arange(num) / RATE_HZ
    harmonics = [120.0 * k for k in range(1, 60)]
    return sum(math.exp(-(((hz - formant_hz) / 300) ** 2)) * torch.sin(2 * math.pi * hz * time_s) for hz in harmonics)[
        None
    ] * torch.tensor(0.1)


def centre_hz(samples: Tensor) -> float:
    power = torch.fft.rfft(samples).abs().square().mean(0)
    hz = torch.fft.rfftfreq(samples.shape[-1], 1 / RATE_HZ)
    return float((power * hz).sum() / power.sum())


def test_a_formant_moves_and_the_pitch_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WHISPER_SHARE", "BAND_SHARE"):
        monkeypatch.setattr(voice_change, name, 0.0)
    monkeypatch.setattr(torch, "rand", lambda *shape, device=None: torch.ones(shape) * 0.999)
    spoken = buzz(1500.0)
    moved = change_voice(spoken, share=1.0)
    assert 1.15 < centre_hz(moved) / centre_hz(spoken) < 1.3
    peaks = torch.fft.rfft(moved).abs()[0]
    between = peaks[60::120][:20].max()
    assert peaks.max() > 20 * between  # harmonics of 120 Hz are where they were


def test_length_and_loudness_stay_and_silence_is_silent() -> None:
    torch.manual_seed(0)
    spoken = torch.cat([buzz(1500.0), buzz(700.0), torch.zeros(1, 16000)])
    changed = change_voice(spoken, share=1.0)
    assert changed.shape == spoken.shape
    torch.testing.assert_close(changed.square().mean(1), spoken.square().mean(1), rtol=1e-2, atol=1e-6)


def test_some_rows_stay_as_they_are() -> None:
    torch.manual_seed(0)
    spoken = buzz(1500.0).expand(40, -1)
    kept = (change_voice(spoken) == spoken).all(1)
    assert 0 < kept.sum() < 25


def labels() -> MotionLabels:
    draw = torch.Generator().manual_seed(3)
    points = torch.rand(6, 21, 3, generator=draw) - 0.5
    angles = torch.rand(6, 3, generator=draw) * 30 - 15
    return split_motion(points, torch.rand(6, 21, 3, generator=draw) - 0.5, angles, torch.ones(6))


def test_a_mirrored_face_has_mirrored_labels_that_still_compose() -> None:
    images = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    mirrored, told = mirror_some(images, labels(), 1.0)
    assert torch.equal(mirrored, images.flip(-1))
    order = list(MIRRORED_KEYPOINTS)
    assert torch.equal(told.keypoints[..., 0], -labels().keypoints[:, order, 0])
    turn = rotation_matrix(*told.angles_deg.unbind(-1))
    posed = pose_keypoints(told.canonical, turn, told.expression, told.scale, told.translation)
    torch.testing.assert_close(posed, told.keypoints, atol=1e-5, rtol=0)


def test_mirroring_twice_changes_nothing_and_no_share_mirrors_nothing() -> None:
    images = torch.rand(6, 3, 8, 8)
    assert all(torch.equal(a, b) for a, b in zip(mirror_some(images, labels(), 0.0)[1], labels(), strict=True))
    back = mirror_some(*mirror_some(images, labels(), 1.0), 1.0)
    assert torch.equal(back[0], images)
    torch.testing.assert_close(back[1].expression, labels().expression)
