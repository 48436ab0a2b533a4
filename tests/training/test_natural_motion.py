"""The map that keeps motion natural: what mouths do stays, and lips that close alone take the jaw along."""

from functools import cache

import numpy as np
import torch

from newsstudio_ditto.maths.motion_vector import EXPRESSION_START
from newsstudio_ditto.networks.config import MINI_NETWORKS
from newsstudio_ditto.networks.motion_diffusion import MotionDenoiser
from training.natural_motion import natural_map, put_into
from training.speech_training import LOWER_LIP_Y, UPPER_LIP_Y, expression_basis
from training.viseme import PHONE_NAMES, UNITS, Phone, unit_curves

CHIN_Y = 6 * 3 + 1
BASIS = np.asarray(expression_basis().numpy(), np.float64)


@cache
def spoken() -> np.ndarray:
    """Face units of a minute of random phones."""
    random = np.random.default_rng(0)
    starts = np.cumsum(random.uniform(0.05, 0.16, 601))
    names = random.choice(PHONE_NAMES, 600)
    phones = [Phone(str(name), *ends) for name, *ends in zip(names, starts[:-1], starts[1:], strict=True)]
    return unit_curves(phones, int(starts[-1] * 25)).astype(np.float64)


def gap(motion: np.ndarray) -> np.ndarray:
    return np.asarray(motion[..., LOWER_LIP_Y] - motion[..., UPPER_LIP_Y])


def test_natural_motion_stays_as_it_is() -> None:
    motion = spoken() @ BASIS
    np.testing.assert_allclose(motion @ natural_map(spoken()).T, motion, atol=1e-6)


def test_lips_that_close_alone_take_the_jaw_along() -> None:
    motion = spoken() @ BASIS
    wide = motion[gap(motion) > np.quantile(gap(motion), 0.8)]
    torn = wide.copy()
    torn[:, UPPER_LIP_Y] += gap(wide) / 2
    torn[:, LOWER_LIP_Y] -= gap(wide) / 2
    mapped = torn @ natural_map(spoken()).T
    np.testing.assert_allclose(gap(mapped), 0, atol=1e-6)
    assert np.median(mapped[:, CHIN_Y] / wide[:, CHIN_Y]) < 0.3
    units = np.linalg.lstsq(BASIS.T, mapped.T, rcond=None)[0]
    assert units.shape == (len(UNITS), len(wide))
    np.testing.assert_allclose(BASIS.T @ units, mapped.T, atol=1e-6)  # nothing but face units is left


def test_a_denoiser_makes_what_the_map_makes_of_its_motion() -> None:
    torch.manual_seed(0)
    mapped, denoiser = natural_map(spoken()), MotionDenoiser(MINI_NETWORKS.motion_diffusion).eval()
    hidden = torch.randn(5, denoiser.final_layer.in_features)
    with torch.no_grad():
        before = denoiser.final_layer(hidden).numpy()
        put_into(denoiser, mapped)
        after = denoiser.final_layer(hidden).numpy()
    np.testing.assert_array_equal(after[:, :EXPRESSION_START], before[:, :EXPRESSION_START])
    np.testing.assert_allclose(after[:, EXPRESSION_START:], before[:, EXPRESSION_START:] @ mapped.T, atol=1e-4)
