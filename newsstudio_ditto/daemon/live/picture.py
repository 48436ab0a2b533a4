"""Frames of a live session: small batches, with the packet's slices and host buffers kept between them."""

from collections import deque
from collections.abc import Iterator, Sequence

import torch

from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.render.pipeline import Frame
from newsstudio_ditto.render.ring import HostRing
from newsstudio_ditto.render.slices import read_slices

IDLE_BYTES = 256 * 2**20
"""Idle frames that are kept, so that an idling presenter costs next to nothing."""


class LivePicture:
    """Renders plans a few frames at a time.

    Args:
        packet: the avatar.
        engine: warp and decode; the caller has it to itself.
    """

    def __init__(self, packet: Packet, engine: Engine) -> None:
        """Allocate the host buffers."""
        height, width = packet.frame_size
        self._packet, self._engine = packet, engine
        self._frame_bytes = height * width * 3 // 2
        self._ring = HostRing(engine.batch_size + 1, self._frame_bytes, engine.device)
        self._wanted: deque[Sequence[int]] = deque()
        self._slices = read_slices(packet, self._batches(), engine.device)
        self._idle: dict[int, Frame] = {}

    def render(self, plan: FramePlan) -> Iterator[Frame]:
        """Yield finished frames (H*W*3//2,) uint8, planar I420; each is valid until the next is taken."""
        size = self._engine.batch_size
        for start in range(0, plan.num_frames, size):
            yield from self._batch(plan, slice(start, min(start + size, plan.num_frames)))

    def idle(self, plan: FramePlan) -> Frame:
        """The frame of a plan of one that shows the source's own face; kept, since it comes again."""
        index = int(plan.source_index[0])
        frame = self._idle.get(index)
        if frame is None:
            frame = next(self.render(plan))
            if (len(self._idle) + 1) * self._frame_bytes <= IDLE_BYTES:
                frame = self._idle[index] = frame.copy()
        return frame

    def _batches(self) -> Iterator[Sequence[int]]:
        while True:
            yield self._wanted.popleft()

    @torch.no_grad()
    def _batch(self, plan: FramePlan, span: slice) -> Iterator[Frame]:
        self._wanted.append(plan.source_index[span].tolist())
        source = next(self._slices)
        source.wait()
        images = self._engine.render(
            source.rows.volumes, plan.source_keypoints[span], plan.driving_keypoints[span], region=source.region()
        )
        for index in self._ring.push(source.paint(images, self._packet.paste_window, self._packet.frame_size)):
            yield self._ring.read(index)
