"""Source frames on a device: all of an avatar's where they fit, kept between renders, else the ones used last.

Uploads run on a stream of their own, through two page-locked rows. A frame is converted to planes once, when it
arrives.
"""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.paste import frames_to_planes

log = logging.getLogger(__name__)

SWITCH = "DITTO_NO_RESIDENT_FRAMES"
RING_ROWS = 64
"""Frames that are kept on the device where not all of them fit; the largest batch has to fit."""

_NUM_STAGING = 2
_SHARE = 0.5


@dataclass(frozen=True)
class SourceRows:
    """Some source frames, ready to be painted into.

    Args:
        volumes: (B, C, D, h, w), appearance, in the dtype of the packet.
        grids: (B, h, w, 2) float32.
        masks: (B, 1, h, w) uint8.
        patches: (B, 3, h, w) uint8 RGB, the frame inside the paste window.
        planes: (B, H*W*3//2) uint8, the frame as I420; owned by whoever takes the rows.
        face_valid: (B,) bool.
    """

    volumes: Tensor
    grids: Tensor
    masks: Tensor
    patches: Tensor
    planes: Tensor
    face_valid: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them, in the order of the arguments."""
        return self.volumes, self.grids, self.masks, self.patches, self.planes, self.face_valid


def read_rows(packet: Packet, start: int, stop: int) -> tuple[Tensor, ...]:
    """Mapped volumes, grids, masks, frames and face flags of some source frames."""
    span = slice(start, stop)
    return (
        packet.appearance_volumes[span],
        packet.grids[span],
        packet.masks[span],
        packet.frames[span],
        packet.meta.face_valid[span],
    )


def convert_rows(packet: Packet, parts: Sequence[Tensor]) -> SourceRows:
    """Rows of :func:`read_rows`, wherever they are, with the frames as planes and patches."""
    volumes, grids, masks, frames, face_valid = parts
    rows, columns = packet.paste_window.slices
    patches = frames[..., rows, columns].contiguous()
    return SourceRows(volumes, grids, masks, patches, frames_to_planes(frames), face_valid)


def row_bytes(packet: Packet) -> int:
    """Device memory of one source frame in a pool."""
    volumes, grids, masks, frames, _ = read_rows(packet, 0, 1)
    window = packet.paste_window
    return volumes.nbytes + grids.nbytes + masks.nbytes + frames.nbytes // 2 + 3 * window.height * window.width + 1


class FramePool:
    """Source frames of one packet on one device, each brought there when it is first asked for.

    Args:
        packet: the avatar.
        device: where the frames are to be.
        capacity: frames that are kept at most, at least as many as are asked for at once.
    """

    def __init__(self, packet: Packet, device: torch.device, capacity: int) -> None:
        """Allocate everything at once, so that memory that does not suffice is noticed here."""
        self.num_bytes = capacity * row_bytes(packet)
        self._packet, self._device = packet, device
        self._lock = threading.Lock()
        self._slots: OrderedDict[int, int] = OrderedDict()
        self._capacity = capacity
        mapped = read_rows(packet, 0, 1)
        volumes, grids, masks, _, face_valid = (_empty_rows(part, capacity, device) for part in mapped)
        window, (height, width) = packet.paste_window, packet.frame_size
        patches = torch.empty(capacity, 3, window.height, window.width, dtype=torch.uint8, device=device)
        planes = torch.empty(capacity, height * width * 3 // 2, dtype=torch.uint8, device=device)
        self._rows = SourceRows(volumes, grids, masks, patches, planes, face_valid)
        self._is_cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if self._is_cuda else None  # type: ignore[no-untyped-call]
        if self._stream is not None:
            # fresh memory may still be in use by what the current stream was given earlier
            self._stream.wait_stream(torch.cuda.current_stream(device))
        num_staging = min(_NUM_STAGING, packet.num_frames)
        self._staging = [
            tuple(torch.empty(part.shape, dtype=part.dtype, pin_memory=self._is_cuda) for part in mapped)
            for _ in range(num_staging)
        ]
        self._copied = [_event() if self._is_cuda else None for _ in self._staging]
        self.num_uploads = 0

    def gather(self, indices: Sequence[int]) -> tuple[SourceRows, torch.cuda.Event | None]:
        """Copies of some frames' rows, and the event that says when they are there; None where they are already."""
        with self._lock, self._on_stream():
            slots = [self._slot(index, set(indices)) for index in indices]
            picked = torch.tensor(slots, device=self._device)
            rows = SourceRows(*(part.index_select(0, picked) for part in self._rows.tensors))
            ready = None
            if self._stream is not None:
                ready = _event()
                ready.record(self._stream)
        return rows, ready

    def _on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _slot(self, index: int, wanted: set[int]) -> int:
        slot = self._slots.get(index)
        if slot is None:
            slot = len(self._slots) if len(self._slots) < self._capacity else self._evict(wanted)
            self._upload(index, slot)
            self._slots[index] = slot
        self._slots.move_to_end(index)
        return slot

    def _evict(self, wanted: set[int]) -> int:
        oldest = next(index for index in self._slots if index not in wanted)
        return self._slots.pop(oldest)

    def _upload(self, index: int, slot: int) -> None:
        turn = self.num_uploads % len(self._staging)
        self.num_uploads += 1
        copied = self._copied[turn]
        if copied is not None:
            copied.synchronize()
        for host, part in zip(self._staging[turn], read_rows(self._packet, index, index + 1), strict=True):
            host.copy_(part)
        arrived = tuple(host.to(self._device, non_blocking=True) for host in self._staging[turn])
        if copied is not None and self._stream is not None:
            copied.record(self._stream)
        for kept, part in zip(self._rows.tensors, convert_rows(self._packet, arrived).tensors, strict=True):
            kept[slot : slot + 1].copy_(part)


class ResidentPools:
    """The pools of whole avatars on all devices; those not used for longest make room.

    Args:
        free_bytes: memory of a device that is not in use.
    """

    def __init__(self, free_bytes: Callable[[torch.device], int]) -> None:
        """Hold no pool yet."""
        self._free_bytes = free_bytes
        self._pools: OrderedDict[tuple[str, str, str], FramePool] = OrderedDict()
        self._lock = threading.Lock()

    def pool(self, packet: Packet, device: torch.device) -> FramePool:
        """The pool of a packet: with all of its frames where they fit into half of the free memory, else a ring."""
        key = (str(device), str(packet.folder), packet.generation)
        with self._lock:
            pool = self._pools.get(key)
            if pool is not None:
                self._pools.move_to_end(key)
                return pool
            if not _is_off() and self._make_room(packet.num_frames * row_bytes(packet), device):
                try:
                    self._pools[key] = FramePool(packet, device, packet.num_frames)
                except torch.OutOfMemoryError:
                    log.warning("source frames do not fit on the device after all", extra={"device": str(device)})
                else:
                    return self._pools[key]
        log.info("source frames stream to the device", extra={"avatar_id": packet.avatar_id, "device": str(device)})
        return FramePool(packet, device, min(packet.num_frames, RING_ROWS))

    def clear(self) -> None:
        """Let go of every pool that no render uses."""
        with self._lock:
            self._pools.clear()

    def _make_room(self, num_bytes: int, device: torch.device) -> bool:
        budget = int(self._free_bytes(device) * _SHARE)
        for key in [key for key in self._pools if key[0] == str(device)]:
            if num_bytes <= budget:
                break
            budget += self._pools.pop(key).num_bytes
            log.info("an avatar's frames left the device", extra={"folder": key[1], "device": key[0]})
        return num_bytes <= budget


def free_device_bytes(device: torch.device) -> int:
    """Memory of a CUDA device that nobody uses, what torch's allocator holds in reserve included."""
    free, _total = torch.cuda.mem_get_info(device)
    return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


resident_pools = ResidentPools(free_device_bytes)
"""The pools of this process."""


def _is_off() -> bool:
    return os.environ.get(SWITCH, "") == "1"


def _empty_rows(part: Tensor, count: int, device: torch.device) -> Tensor:
    return torch.empty(count, *part.shape[1:], dtype=part.dtype, device=device)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]
