"""From a packet and posed keypoints to finished I420 frames, one batch ahead on the device."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.errors import DeviceError, UsageError
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.control_plan import plan_controls
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan, SpeechPoser, cut_batches
from newsstudio_ditto.render.motion import packet_conditioning
from newsstudio_ditto.render.prefetch import prefetch
from newsstudio_ditto.render.prestitch import stitch_options
from newsstudio_ditto.render.ring import HostRing
from newsstudio_ditto.render.slices import SourceSlice, read_slices
from newsstudio_ditto.render.sources import source_motion
from newsstudio_ditto.render.spread import BatchDealer, merge_batches

log = logging.getLogger(__name__)

Frame = npt.NDArray[np.uint8]

FRAMES_HELD = 4
"""Finished frames that a reader may hold or queue while it asks for the next one."""

MEMORY_HINT = "render with a smaller --batch-size, or free memory of the device (nvidia-smi shows who uses it)"

_SPREAD_DEPTH = 2


def check_controls(packet: Packet, config: BundleConfig, controls: ControlOptions, *, has_motion: bool) -> None:
    """Raise :class:`UsageError` for what a bundle cannot do, before anything is computed.

    Args:
        packet: the avatar.
        config: of the bundle.
        controls: of the speech.
        has_motion: the motion is made already, so that nothing can condition it any more.
    """
    shapes_motion = controls.emotion is not None or controls.freeze_eyes is not None or not controls.reference_character
    if has_motion and shapes_motion:
        raise UsageError(
            "emotion, freeze_eyes and reference_character: this motion is made already",
            "give them where the motion is made",
        )
    packet_conditioning(packet, config, controls, 1)
    plan_controls(controls, stitch_options(config), config, source_motion(packet), 1)


def plan_frames(
    packet: Packet,
    motion: Tensor,
    bundle: ModelBundle,
    *,
    stitch: bool | None = None,
    controls: ControlOptions | None = None,
) -> FramePlan:
    """Choose each output frame's source frame (ping-pong) and pose its keypoints, all frames in one pass.

    Args:
        packet: the avatar.
        motion: (T, 265) float32 driving motion, on the device where the keypoints are to be.
        bundle: for the stitching network, and for which points speech drives.
        stitch: apply the stitching network; None asks the bundle.
        controls: of the speech; None changes nothing.

    Raises:
        UsageError: the bundle cannot do what a control asks for.
    """
    return SpeechPoser(packet, bundle, len(motion), controls=controls, stitch=stitch).pose(motion)


def render_plan(
    packet: Packet,
    plan: FramePlan | Iterable[FramePlan],
    engine: Engine | Sequence[Engine],
    *,
    batch_size: int | None = None,
    frames_held: int = FRAMES_HELD,
) -> Iterator[Frame]:
    """Yield finished frames in order.

    The device works on batch k + 1 while the frames of batch k are read, and the slices of batch k + 2 are on
    their way. A frame is a view of a reused host buffer: it stays what it is until ``frames_held + 1`` further frames
    have been taken, so ``prefetch(frames, depth=frames_held - 1)`` is safe, with one frame in the reader's hand. The
    first batch is a short one, so that the first frame comes soon. A batch that does not fit into the memory of the
    device is halved once, and so are those after it.

    Args:
        packet: the avatar.
        plan: the frames, or chunks of them, which are asked for as they are needed.
        engine: warp and decode; the caller holds ``engine.busy``. Several engines of one model take batches in turn.
        batch_size: frames of one batch; None takes the engine's own.
        frames_held: frames that the reader may keep while it asks for another.

    Yields:
        (H*W*3//2,) uint8, planar I420, bt709 limited range.

    Raises:
        DeviceError: the memory of the device does not suffice for half a batch either.
        PacketFormatError: a file of the packet was cut or rewritten in place since it was opened.
    """
    engines = [engine] if isinstance(engine, Engine) else list(engine)
    plans = [plan] if isinstance(plan, FramePlan) else plan
    size = min(min(batch_size or each.batch_size, each.max_batch_size) for each in engines)
    batches = cut_batches(plans, size, min(size, engines[0].batch_sizes[0]))
    if len(engines) == 1:
        yield from _render_batches(packet, batches, engines[0], size, frames_held)
        return
    dealer = BatchDealer(batches, len(engines))
    held = frames_held + _SPREAD_DEPTH + 1
    parts = [
        prefetch(_render_batches(packet, dealer.hand(index), each, size, held), _SPREAD_DEPTH)
        for index, each in enumerate(engines)
    ]
    try:
        yield from merge_batches(parts, dealer)
    finally:
        for part in parts:
            part.close()


def _render_batches(
    packet: Packet, batches: Iterable[FramePlan], engine: Engine, size: int, frames_held: int
) -> Iterator[Frame]:
    height, width = packet.frame_size
    # One batch waits to be read while the next is copied out.
    ring = HostRing(2 * size + frames_held + 1, height * width * 3 // 2, engine.device)
    renderer = _BatchRenderer(packet, engine)
    waiting: list[int] = []
    slices = prefetch(_with_slices(packet, batches, engine.device), 1)
    try:
        for batch, source in slices:
            pushed = [index for rows in renderer.render(batch, source) for index in ring.push(rows)]
            # Where nothing runs asynchronously, holding a batch back gains nothing.
            waiting, to_read = (pushed, waiting) if ring.is_asynchronous else ([], pushed)
            for index in to_read:
                yield ring.read(index)
        for index in waiting:
            yield ring.read(index)
    except torch.OutOfMemoryError as error:
        raise DeviceError(f"{engine.device} has too little memory for half a batch", MEMORY_HINT) from error
    finally:
        slices.close()


def _with_slices(
    packet: Packet, batches: Iterable[FramePlan], device: torch.device
) -> Iterator[tuple[FramePlan, SourceSlice]]:
    read: deque[FramePlan] = deque()

    def indices() -> Iterator[list[int]]:
        for batch in batches:
            read.append(batch)
            yield batch.source_index.tolist()

    for source in read_slices(packet, indices(), device):
        yield read.popleft(), source


class _BatchRenderer:
    """Renders and paints batches; once one of them did not fit into memory, all in halves.

    Args:
        packet: the avatar.
        engine: warp and decode.
    """

    def __init__(self, packet: Packet, engine: Engine) -> None:
        self._packet, self._engine = packet, engine
        self._is_halved = False

    @torch.no_grad()
    def render(self, batch: FramePlan, source: SourceSlice) -> list[Tensor]:
        """The planes of a batch, (b, H*W*3//2) uint8 on the device, in one part or two."""
        source.wait()
        batch = batch.to(self._engine.device)
        if not self._is_halved:
            try:
                return [self._paint(batch, source)]
            except torch.OutOfMemoryError:
                if batch.num_frames == 1:
                    raise
                self._halve(batch.num_frames)
        middle = -(-batch.num_frames // 2)
        spans = [span for span in (slice(0, middle), slice(middle, batch.num_frames)) if span.start < span.stop]
        return [self._paint(batch.rows(span), source.span(span)) for span in spans]

    def _halve(self, size: int) -> None:
        self._is_halved = True
        log.warning(
            "a batch does not fit into the memory of the device and is halved",
            extra={"device": str(self._engine.device), "batch_size": size},
        )
        if self._engine.device.type == "cuda":
            torch.cuda.empty_cache()

    def _paint(self, batch: FramePlan, source: SourceSlice) -> Tensor:
        images = self._engine.render(
            source.rows.volumes, batch.source_keypoints, batch.driving_keypoints, region=source.region()
        )
        return source.paint(images, self._packet.paste_window, self._packet.frame_size)
