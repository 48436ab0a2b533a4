import numpy as np
import torch

from newsstudio_ditto.render.ring import HostRing

CPU = torch.device("cpu")


def _row(value: int) -> torch.Tensor:
    return torch.full((1, 7), value, dtype=torch.uint8)


def test_a_row_stays_until_as_many_rows_as_slots_have_followed() -> None:
    ring = HostRing(3, 7, CPU)
    first = ring.read(ring.push(_row(1))[0])
    ring.push(_row(2))
    ring.push(_row(3))
    np.testing.assert_array_equal(first, np.full(7, 1, np.uint8))
    ring.push(_row(4))
    np.testing.assert_array_equal(first, np.full(7, 4, np.uint8))


def test_the_source_may_be_overwritten_after_a_push() -> None:
    ring, row = HostRing(2, 7, CPU), _row(9)
    (index,) = ring.push(row)
    row.zero_()
    np.testing.assert_array_equal(ring.read(index), np.full(7, 9, np.uint8))
