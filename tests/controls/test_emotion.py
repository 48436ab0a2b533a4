"""Emotion columns of the condition rows."""

from dataclasses import replace

import pytest
import torch

from newsstudio_ditto.controls import Emotion
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.conditions import EMOTIONS, emotion_rows
from newsstudio_ditto.networks.config import MINI, OFFICIAL
from newsstudio_ditto.render.control_plan import emotion_condition

PARTS = OFFICIAL.networks.motion_diffusion
HAPPY, NEUTRAL, SAD = (EMOTIONS.index(label) for label in ("happy", "neutral", "sad"))


def rows(emotion: Emotion | None, num_frames: int = 5) -> torch.Tensor:
    condition = emotion_condition(emotion, PARTS, num_frames)
    assert condition is not None
    return condition


def test_a_label_and_a_mix_are_those_of_the_official_code() -> None:
    assert torch.equal(rows("happy"), emotion_rows(HAPPY))
    assert torch.equal(rows(("happy", "sad")), emotion_rows([HAPPY, SAD]))
    assert torch.equal(rows(None), emotion_rows(NEUTRAL))


def test_weights_leave_the_rest_to_neutral() -> None:
    mixed = rows({"happy": 0.75})
    torch.testing.assert_close(mixed, (0.75 * emotion_rows(HAPPY) + 0.25 * emotion_rows(NEUTRAL)).expand(5, -1))
    torch.testing.assert_close(rows({"happy": 1.0}), emotion_rows(HAPPY).expand(5, -1))


def test_weights_may_change_with_time() -> None:
    mixed = rows({"happy": ((0.0, 0.0), (0.16, 1.0)), "sad": 1.0})
    torch.testing.assert_close(mixed.sum(dim=1), torch.ones(5))
    assert (mixed[:, HAPPY].diff() > 0.05).all()
    assert (mixed[:, SAD].diff() < -0.05).all()
    torch.testing.assert_close(mixed[4, HAPPY], mixed[4, SAD])


def test_a_model_without_emotions_refuses_them() -> None:
    without = MINI.networks.motion_diffusion
    assert emotion_condition(None, without, 5) is None
    assert emotion_condition(None, replace(PARTS, use_emotion=False), 5) is None
    with pytest.raises(UsageError, match="emotion: this model was trained without emotions"):
        emotion_condition("happy", without, 5)
