"""A ring of host buffers: device rows are copied out without stopping the device, and read when they have arrived."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True)
class _Slot:
    host: Tensor
    copied: torch.cuda.Event | None


class HostRing:
    """``num_slots`` host rows, reused in turn; page-locked when the device is a CUDA device.

    A row read from the ring stays what it is until ``num_slots`` further rows have been pushed.

    Args:
        num_slots: rows in the ring. A reader behind a queue of ``depth`` needs ``depth + 2``: the one it reads, the
            queue, and one being produced. A producer that pushes ``b`` rows before it hands them on needs ``b - 1``
            more.
        row_bytes: bytes of one row.
        device: where the pushed tensors live.
    """

    def __init__(self, num_slots: int, row_bytes: int, device: torch.device) -> None:
        """Allocate every slot once."""
        pinned = device.type == "cuda"
        self._slots = [
            _Slot(torch.empty(row_bytes, dtype=torch.uint8, pin_memory=pinned), _event() if pinned else None)
            for _ in range(num_slots)
        ]
        self._num_pushed = 0

    def push(self, row: Tensor) -> int:
        """Start copying ``row`` ((row_bytes,) uint8) into the next slot and return the slot's number.

        On CUDA the copy is queued on the current stream, behind the work that makes ``row``.
        """
        index = self._num_pushed % len(self._slots)
        slot = self._slots[index]
        slot.host.copy_(row, non_blocking=slot.copied is not None)
        if slot.copied is not None:
            slot.copied.record(torch.cuda.current_stream(row.device))
        self._num_pushed += 1
        return index

    def read(self, index: int) -> npt.NDArray[np.uint8]:
        """The (row_bytes,) row of slot ``index``, a view, once its copy has arrived."""
        slot = self._slots[index]
        if slot.copied is not None:
            slot.copied.synchronize()
        return slot.host.numpy()


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]
