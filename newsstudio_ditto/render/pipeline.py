"""From a packet and posed keypoints to finished I420 frames, one batch ahead on the device."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newsstudio_ditto.config import RenderOptions
from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.colour import rgb_to_yuv420
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.control_plan import plan_controls
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.motion import packet_conditioning, sample_motion
from newsstudio_ditto.render.paste import paste_back
from newsstudio_ditto.render.prefetch import prefetch
from newsstudio_ditto.render.prestitch import prestitch, stitch_options
from newsstudio_ditto.render.ring import HostRing
from newsstudio_ditto.render.slices import SourceSlice, read_slices
from newsstudio_ditto.render.sources import source_motion

Frame = npt.NDArray[np.uint8]

FRAMES_HELD = 4
"""Finished frames that a reader may hold or queue while it asks for the next one."""


@dataclass(frozen=True)
class FramePlan:
    """Everything about T output frames that is known before the first one is rendered.

    Args:
        source_index: (T,) int64, the source frame behind each output frame.
        source_keypoints: (T, 21, 3) float32 on the engine's device.
        driving_keypoints: (T, 21, 3) float32 on the engine's device.
    """

    source_index: npt.NDArray[np.int64]
    source_keypoints: Tensor
    driving_keypoints: Tensor

    def __post_init__(self) -> None:
        """Refuse parts of different lengths."""
        lengths = {len(self.source_index), len(self.source_keypoints), len(self.driving_keypoints)}
        if len(lengths) != 1:
            raise ValueError(f"parts of a frame plan have different lengths: {sorted(lengths)}")

    @property
    def num_frames(self) -> int:
        """T."""
        return len(self.source_index)


def check_controls(packet: Packet, config: BundleConfig, controls: ControlOptions, *, has_motion: bool) -> None:
    """Raise :class:`UsageError` for what a bundle cannot do, before anything is computed.

    Args:
        packet: the avatar.
        config: of the bundle.
        controls: of the speech.
        has_motion: the motion is made already, so that nothing can condition it any more.
    """
    if has_motion and (controls.emotion is not None or controls.freeze_eyes):
        raise UsageError("emotion and freeze_eyes: this motion is made already", "give them where the motion is made")
    packet_conditioning(packet, config, controls, 1)
    plan_controls(controls, stitch_options(config), config, source_motion(packet), 1)


def plan_frames(
    packet: Packet,
    motion: Tensor,
    bundle: ModelBundle,
    *,
    stitch: bool = True,
    controls: ControlOptions | None = None,
) -> FramePlan:
    """Choose each output frame's source frame (ping-pong) and pose its keypoints, all frames in one pass.

    Args:
        packet: the avatar.
        motion: (T, 265) float32 driving motion, on the device where the keypoints are to be.
        bundle: for the stitching network, and for which points speech drives.
        stitch: apply the stitching network.
        controls: of the speech; None changes nothing.

    Raises:
        UsageError: the bundle cannot do what a control asks for.
    """
    source_index = mirror_index(np.arange(len(motion), dtype=np.int64), packet.num_frames)
    network = bundle.stitching if stitch else None
    source = source_motion(packet)
    plain = stitch_options(bundle.config)
    plan = plan_controls(controls or ControlOptions(), plain, bundle.config, source, len(motion))
    stitched = prestitch(source, motion, plan.options, network, plan.frames)
    return FramePlan(source_index, stitched.source_keypoints, stitched.driving_keypoints)


def render_frames(
    packet: Packet, speech_features: Tensor, bundle: ModelBundle, engine: Engine, options: RenderOptions
) -> Iterator[Frame]:
    """Render a speech: motion, pre-stitch, then :func:`render_plan`.

    Args:
        packet: the avatar.
        speech_features: (T, A) float32, one row per video frame.
        bundle: networks of the motion side.
        engine: warp and decode.
        options: sampling, stitching, controls and batch size.
    """
    motion = sample_motion(
        bundle,
        speech_features,
        packet,
        options.sampling,
        engine.device,
        step=engine.guided_step,
        controls=options.controls,
    )
    plan = plan_frames(packet, motion, bundle, stitch=options.stitch, controls=options.controls)
    return render_plan(packet, plan, engine, batch_size=options.batch_size)


def render_plan(
    packet: Packet, plan: FramePlan, engine: Engine, *, batch_size: int | None = None, frames_held: int = FRAMES_HELD
) -> Iterator[Frame]:
    """Yield finished frames in order.

    The device works on batch k + 1 while the frames of batch k are read, and the slices of batch k + 2 are on
    their way. A frame is a view of a reused host buffer: it stays what it is until ``frames_held + 1`` further frames
    have been taken, so ``prefetch(frames, depth=frames_held - 1)`` is safe, with one frame in the reader's hand.

    Args:
        packet: the avatar.
        plan: T frames.
        engine: warp and decode; the caller holds ``engine.busy``.
        batch_size: frames of one batch; None takes the engine's own.
        frames_held: frames that the reader may keep while it asks for another.

    Yields:
        (H*W*3//2,) uint8, planar I420, bt709 limited range.
    """
    size = min(batch_size or engine.batch_size, engine.max_batch_size, plan.num_frames)
    spans = [slice(start, min(start + size, plan.num_frames)) for start in range(0, plan.num_frames, size)]
    height, width = packet.frames.shape[-2:]
    # One batch waits to be read while the next is copied out.
    ring = HostRing(2 * size + frames_held + 1, height * width * 3 // 2, engine.device)
    waiting: list[int] = []
    slices = prefetch(read_slices(packet, [plan.source_index[span].tolist() for span in spans], engine.device), 1)
    try:
        for span, source in zip(spans, slices, strict=True):
            rows = _finish_batch(packet, plan, span, source, engine)
            pushed = [ring.push(row) for row in rows]
            for index in waiting:
                yield ring.read(index)
            waiting = pushed
        for index in waiting:
            yield ring.read(index)
    finally:
        slices.close()


@torch.no_grad()
def _finish_batch(packet: Packet, plan: FramePlan, span: slice, source: SourceSlice, engine: Engine) -> Tensor:
    """Render, paste and convert one batch: (B, H*W*3//2) uint8 on the device."""
    source.wait()
    images = engine.render(source.volumes, plan.source_keypoints[span], plan.driving_keypoints[span])
    frames = paste_back(source.frames, images, source.grids, source.masks, source.face_valid, packet.paste_window)
    return rgb_to_yuv420(frames)
