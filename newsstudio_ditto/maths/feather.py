"""The blend mask of a crop: full weight inside, fading to nothing at the border."""

import numpy as np
import numpy.typing as npt


def feather_mask(width: int, height: int, keep: float = 0.9) -> npt.NDArray[np.float32]:
    """Make the blend mask.

    Weight falls with the distance from the inner rectangle, measured in margins, so that the outermost
    ring is 0, edges ramp linearly and corners are round.

    Args:
        width: of the crop, pixels.
        height: of the crop, pixels.
        keep: share of each side that keeps full weight.

    Returns:
        (height, width) float32 in 0..1.
    """
    across = _distance_in_margins(width, keep)[None, :]
    down = _distance_in_margins(height, keep)[:, None]
    return (1.0 - np.minimum(1.0, np.hypot(across, down))).astype(np.float32)


def _distance_in_margins(length: int, keep: float) -> npt.NDArray[np.float64]:
    inner = int(length * keep)
    before = (length - inner) // 2
    after = length - inner - before
    return np.concatenate([np.linspace(1, 0, before), np.zeros(inner), np.linspace(0, 1, after)])
