"""The seam figure sees a step at the mask's edge, and nothing else."""

import numpy as np
import pytest

from training.seam import flat_ground, ring_steps

SIZE = 160


def mask() -> np.ndarray:
    axis = np.arange(SIZE) - SIZE / 2
    distance = np.hypot(axis[:, None], axis[None])
    return np.clip((60 - distance) / 30, 0, 1).astype(np.float32)


def blended(source: np.ndarray, rendered: np.ndarray) -> np.ndarray:
    alpha = mask()[..., None]
    return (source * (1 - alpha) + rendered * alpha).round().astype(np.uint8)


def grey(level: float) -> np.ndarray:
    return np.full((SIZE, SIZE, 3), level, np.uint8)


@pytest.mark.parametrize("step", [0, 4, 20])
def test_a_darker_patch_is_measured_by_how_much_darker_it_is(step: int) -> None:
    steps = ring_steps(blended(grey(120), grey(120 - step)), grey(120), mask())
    assert len(steps) == 32
    assert step * 0.6 - 0.5 <= steps.mean() <= step * 0.9 + 0.5  # the ring has weights from a half to nearly one


def test_a_change_of_the_whole_frame_is_no_seam() -> None:
    assert ring_steps(grey(130), grey(120), mask()).max() == 0


def test_one_colour_alone_counts() -> None:
    tinted = grey(120)
    tinted[..., 2] += 12
    assert ring_steps(blended(grey(120), tinted), grey(120), mask()).mean() > 6


def test_only_flat_ground_is_looked_at() -> None:
    stripes = grey(120)
    stripes[:, : SIZE // 2 : 4] = 160
    assert not flat_ground(stripes)[:, 10 : SIZE // 2 - 10].any()
    steps = ring_steps(blended(stripes, stripes), stripes, mask())
    assert 8 <= len(steps) <= 18
