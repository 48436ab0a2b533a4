"""A ring of host buffers: device rows are copied out without stopping the device, and read when they have arrived."""

from contextlib import AbstractContextManager, nullcontext
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
        is_cuda = device.type == "cuda"
        # Copies have a stream of their own, so that the next batch need not wait for them.
        self._stream = torch.cuda.Stream(device) if is_cuda else None  # type: ignore[no-untyped-call]
        # One block: page-locked memory comes in powers of two.
        rows = torch.empty(num_slots, row_bytes, dtype=torch.uint8, pin_memory=is_cuda)
        self._slots = [_Slot(row, sleeping_event() if is_cuda else None) for row in rows]
        self._num_pushed = 0

    @property
    def is_asynchronous(self) -> bool:
        """Whether rows are still on their way when they have been pushed."""
        return self._stream is not None

    def push(self, rows: Tensor) -> list[int]:
        """Start copying rows (B, row_bytes) uint8 into the next slots and return the slots' numbers.

        On CUDA the copies wait for the work that the current stream was given so far, and nothing waits for them.
        """
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(rows.device))
            rows.record_stream(self._stream)
        with self._on_stream():
            return [self._copy(row) for row in rows]

    def read(self, index: int) -> npt.NDArray[np.uint8]:
        """The (row_bytes,) row of slot ``index``, a view, once its copy has arrived."""
        slot = self._slots[index]
        if slot.copied is not None:
            slot.copied.synchronize()
        return slot.host.numpy()

    def _on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _copy(self, row: Tensor) -> int:
        index = self._num_pushed % len(self._slots)
        slot = self._slots[index]
        slot.host.copy_(row, non_blocking=slot.copied is not None)
        if slot.copied is not None:
            slot.copied.record(self._stream)
        self._num_pushed += 1
        return index


def sleeping_event() -> torch.cuda.Event:
    """An event whose waiting thread sleeps, and leaves its core to the encoder."""
    return torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
