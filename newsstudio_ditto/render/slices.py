"""Slices of a mapped packet, brought to the device one batch ahead of the engine."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from newsstudio_ditto.maths.paste import CropRegion, PasteWindow, region_read
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.render.frame_pool import SourceRows, convert_rows, read_rows, resident_pools
from newsstudio_ditto.render.paste import paint_planes

PLANES_BYTES = 64 * 2**20
"""Converted frames that the CPU keeps, so that a still and a short loop are converted once."""


@dataclass(frozen=True)
class SourceSlice:
    """What the frames of one batch need of the packet, on the device.

    Args:
        rows: one for each frame of the batch; its planes become the output.
        ready: recorded when the rows have arrived; None where nothing runs asynchronously.
    """

    rows: SourceRows
    ready: torch.cuda.Event | None = None

    def wait(self) -> None:
        """Make the current stream wait for the upload, and keep the memory until that stream has used it."""
        if self.ready is None:
            return
        stream = torch.cuda.current_stream(self.rows.planes.device)
        stream.wait_event(self.ready)
        for tensor in self.rows.tensors:
            tensor.record_stream(stream)

    def region(self) -> CropRegion | None:
        """What of the rendered crops comes into the frames; None where the device would have to be waited for."""
        return None if self.rows.grids.is_cuda else region_read(self.rows.grids)

    def paint(self, images: Tensor, window: PasteWindow, frame_size: FrameSize) -> Tensor:
        """Paste rendered crops (B, 3, S, S) into the frames, once: (B, H*W*3//2) uint8, the planes of the rows."""
        rows = self.rows
        paint_planes(rows.planes, rows.patches, images, rows.grids, rows.masks, rows.face_valid, window, frame_size)
        return rows.planes

    def span(self, span: slice) -> "SourceSlice":
        """Some frames of the batch; the tensors are views."""
        return SourceSlice(SourceRows(*(tensor[span] for tensor in self.rows.tensors)), self.ready)


def read_slices(packet: Packet, batches: Iterable[Sequence[int]], device: torch.device) -> Iterator[SourceSlice]:
    """Yield one slice per batch of source frame indices, in order.

    Private memory: one batch and 64 MB of converted frames on the CPU; on CUDA two page-locked rows, and the device
    memory of the packet's pool.

    Raises:
        PacketFormatError: a file of the packet was cut or rewritten in place since it was opened.
    """
    pool = resident_pools.pool(packet, device) if device.type == "cuda" else None
    host = _HostRows(packet)
    for indices in batches:
        packet.expect_unchanged()
        if pool is None:
            yield SourceSlice(host.gather(indices))
        else:
            yield SourceSlice(*pool.gather(indices))


class _HostRows:
    """Rows for the CPU: copies of mapped rows, with converted frames that come again kept."""

    def __init__(self, packet: Packet) -> None:
        height, width = packet.frame_size
        self._packet = packet
        self._kept: OrderedDict[int, Tensor] = OrderedDict()
        self._num_kept = PLANES_BYTES // (height * width * 3 // 2)

    def gather(self, indices: Sequence[int]) -> SourceRows:
        packet, index = self._packet, torch.as_tensor(indices, dtype=torch.int64)
        rows, columns = packet.paste_window.slices
        window = packet.frames[..., rows, columns]
        parts = (packet.appearance_volumes, packet.grids, packet.masks, window)
        volumes, grids, masks, patches = (part.index_select(0, index) for part in parts)
        planes = torch.cat([self._planes(number) for number in indices])
        return SourceRows(volumes, grids, masks, patches, planes, packet.meta.face_valid[index])

    def _planes(self, number: int) -> Tensor:
        planes = self._kept.get(number)
        if planes is None:
            planes = convert_rows(self._packet, read_rows(self._packet, number, number + 1)).planes
            self._kept[number] = planes
            while len(self._kept) > max(self._num_kept, 1):
                self._kept.popitem(last=False)
        return planes
