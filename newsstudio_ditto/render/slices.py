"""Slices of a mapped packet, brought to the device one batch ahead of the engine."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from newsstudio_ditto.packet.reader import Packet

_NUM_STAGING = 2
_CACHE_SHARE = 0.5


@dataclass(frozen=True)
class SourceSlice:
    """What the frames of one batch need of the packet, on the device.

    Args:
        volumes: (B, C, D, h, w), appearance, in the dtype of the packet.
        grids: (B, h, w, 2) float32.
        masks: (B, 1, h, w) uint8.
        frames: (B, 3, H, W) uint8.
        face_valid: (B,) bool.
        ready: recorded when the tensors have arrived; None where nothing runs asynchronously.
    """

    volumes: Tensor
    grids: Tensor
    masks: Tensor
    frames: Tensor
    face_valid: Tensor
    ready: torch.cuda.Event | None = None

    def wait(self) -> None:
        """Make the current stream wait for the upload, and keep the memory until that stream has used it."""
        if self.ready is None:
            return
        stream = torch.cuda.current_stream(self.frames.device)
        stream.wait_event(self.ready)
        for tensor in (self.volumes, self.grids, self.masks, self.frames, self.face_valid):
            tensor.record_stream(stream)


def _slice(columns: Sequence[Tensor], ready: torch.cuda.Event | None = None) -> SourceSlice:
    volumes, grids, masks, frames, face_valid = columns
    return SourceSlice(volumes, grids, masks, frames, face_valid, ready)


def _parts(packet: Packet) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return packet.appearance_volumes, packet.grids, packet.masks, packet.frames, packet.meta.face_valid


def read_slices(packet: Packet, batches: Iterable[Sequence[int]], device: torch.device) -> Iterator[SourceSlice]:
    """Yield one slice per batch of source frame indices, in order.

    Private memory: one batch on the CPU; on CUDA two page-locked rows, and device memory for the rows kept there.
    """
    if device.type != "cuda":
        parts = _parts(packet)
        for indices in batches:
            index = torch.as_tensor(indices, dtype=torch.int64)
            yield _slice([part.index_select(0, index) for part in parts])
        return
    rows = _DeviceRows(packet, device)
    for indices in batches:
        yield rows.gather(indices)


class _DeviceRows:
    """Source frames on the card, each uploaded once while memory allows, on a stream of their own.

    A still or a short loop stays resident, so a long speech costs no further copies.
    """

    def __init__(self, packet: Packet, device: torch.device) -> None:
        self._parts = _parts(packet)
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._rows: OrderedDict[int, tuple[Tensor, ...]] = OrderedDict()
        row_bytes = sum(part[0].numel() * part.element_size() for part in self._parts)
        free_bytes, _total = torch.cuda.mem_get_info(device)
        self._capacity = max(1, int(free_bytes * _CACHE_SHARE) // row_bytes)
        self._staging = [
            tuple(torch.empty(part[:1].shape, dtype=part.dtype, pin_memory=True) for part in self._parts)
            for _ in range(min(_NUM_STAGING, packet.num_frames))
        ]
        self._copied = [torch.cuda.Event() for _ in self._staging]  # type: ignore[no-untyped-call]
        self._num_uploads = 0

    def gather(self, indices: Sequence[int]) -> SourceSlice:
        with torch.cuda.stream(self._stream):
            rows = [self._row(index) for index in indices]
            columns = [torch.cat(column) for column in zip(*rows, strict=True)]
            ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
            ready.record(self._stream)
        return _slice(columns, ready)

    def _row(self, index: int) -> tuple[Tensor, ...]:
        row = self._rows.get(index)
        if row is None:
            row = self._upload(index)
            self._rows[index] = row
            if len(self._rows) > self._capacity:
                self._rows.popitem(last=False)
        self._rows.move_to_end(index)
        return row

    def _upload(self, index: int) -> tuple[Tensor, ...]:
        turn = self._num_uploads % len(self._staging)
        self._num_uploads += 1
        self._copied[turn].synchronize()
        for part, host in zip(self._parts, self._staging[turn], strict=True):
            host.copy_(part[index : index + 1])
        row = tuple(host.to(self._device, non_blocking=True) for host in self._staging[turn])
        self._copied[turn].record(self._stream)
        return row
