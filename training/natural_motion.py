"""Keep the motion that is made among motions that mouths make.

Where the encoder is in doubt, a loss on the lips' gap teaches the diffusion to close the two inner lip points alone,
with jaw and outer lips left open. No picture was trained on that, and what is drawn stays open. So the gap that is made
is kept, and all points take the shape in which mouths have that gap. The map is linear: it is put into the diffusion's
last layer and costs nothing.
"""

from pathlib import Path

import numpy as np
import torch

from newsstudio_ditto.maths.motion_vector import EXPRESSION_START
from newsstudio_ditto.networks.motion_diffusion import MotionDenoiser
from newsstudio_ditto.units import FRAME_RATE_HZ
from training.files import read_arrays
from training.speech_set import read_phones, split_phones
from training.speech_training import LOWER_LIP_Y, UPPER_LIP_Y, expression_basis
from training.viseme import unit_curves

INNER_LIPS = (UPPER_LIP_Y, LOWER_LIP_Y)
LEAST_MOVEMENT = 1e-4
EVERY = 9  # of the utterances: some 40,000 frames


def natural_map(units: np.ndarray) -> np.ndarray:
    """What makes natural motion of any: ``map @ e`` of expression offsets e (63,).

    All points but the inner lips say which face units there are. Where the gap of these units is not the one that the
    inner lips have, the units change as they do with the gap when mouths speak (regression). Motion that face units
    make stays as it is.

    Args:
        units: (T, len(UNITS)) face units of mouths that speak.

    Returns:
        (63, 63).
    """
    basis = np.asarray(expression_basis().numpy(), np.float64)
    others = np.flatnonzero(np.abs(basis).max(0) > LEAST_MOVEMENT)
    others = others[~np.isin(others, INNER_LIPS)]
    found = np.zeros(basis.shape)
    found[:, others] = np.linalg.pinv(basis[:, others].T)
    gap = np.zeros(basis.shape[1])
    gap[LOWER_LIP_Y], gap[UPPER_LIP_Y] = 1, -1
    opened, spread = basis @ gap, np.cov(units.T)
    slope = spread @ opened / (opened @ spread @ opened)
    return np.asarray(basis.T @ (found + np.outer(slope, gap - opened @ found)))


def put_into(denoiser: MotionDenoiser, mapped: np.ndarray) -> None:
    """Have a denoiser whose motion is relative to rest make what the map makes of its motion, in place."""
    layer, kept = denoiser.final_layer, slice(EXPRESSION_START, None)
    matrix = torch.from_numpy(mapped).to(layer.weight)
    with torch.no_grad():
        layer.weight[kept] = matrix @ layer.weight[kept]
        layer.bias[kept] = matrix @ layer.bias[kept]


def spoken_units(corpus: Path) -> np.ndarray:
    """Face units (T, len(UNITS)), a row a video frame, of every so many utterances that are trained on."""
    arrays = read_arrays(corpus)
    phones = split_phones(arrays["phones"], len(arrays["voices"]))
    curves = []
    for number in np.flatnonzero(arrays["splits"] == "train")[::EVERY]:
        spoken = read_phones(phones[number])
        curves.append(unit_curves(spoken, int(max(phone.end_s for phone in spoken) * FRAME_RATE_HZ)))
    return np.concatenate(curves)
