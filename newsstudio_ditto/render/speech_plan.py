"""Plans of a speech's frames while it is still being listened to: features, motion and poses, window after window.

Nothing here grows with the speech but the per-frame arrays of the controls that are in use.
"""

import contextlib
from collections.abc import Generator, Iterable
from typing import TypeVar

import torch
from torch import Tensor

from newsstudio_ditto.config import RenderOptions, SamplingOptions
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan, SpeechPoser
from newsstudio_ditto.render.motion import iterate_motion, steps_and_guidance
from newsstudio_ditto.render.prefetch import prefetch
from newsstudio_ditto.render.ring import sleeping_event
from newsstudio_ditto.render.window_sampler import draw_step_noise

Item = TypeVar("Item")

MOTION_CHUNK = 70
"""Frames of a chunk of motion that was made earlier."""


class SpeechPlanner:
    """Plans one speech; made chunk by chunk, on a CUDA stream of its own where there is one.

    Args:
        packet: the avatar.
        engine: its bundle and its denoiser; the caller holds ``engine.busy``.
        num_frames: T, of the whole speech.
        options: sampling, controls and stitching.
    """

    def __init__(self, packet: Packet, engine: Engine, num_frames: int, options: RenderOptions) -> None:
        """Work out what the controls mean for every frame."""
        self._packet, self._engine = packet, engine
        self._num_frames, self._options = num_frames, options
        self._poser = SpeechPoser(packet, engine.bundle, num_frames, controls=options.controls, stitch=options.stitch)
        self._stream = engine.motion_stream

    def motion(self, features: Iterable[Tensor]) -> Generator[Tensor, None, None]:
        """Motion rows (k, 265) of chunks (n, A) of speech features, as soon as they are settled.

        On CUDA they are still being made, so that :meth:`plans` can be given to the device meanwhile.
        """
        parts = iterate_motion(
            self._engine.bundle,
            features,
            self._num_frames,
            self._packet,
            self._options.sampling,
            self._engine.device,
            step=self._engine.guided_step,
            controls=self._options.controls,
        )
        return self._on_own_stream(parts, is_finished=False)

    def made_motion(self, motion: Tensor) -> Generator[Tensor, None, None]:
        """Chunks of motion (T, 265) that was made earlier, on the engine's device."""
        chunks = (chunk.to(self._engine.device) for chunk in torch.split(motion, MOTION_CHUNK))
        return self._on_own_stream(chunks, is_finished=False)

    def plans(self, motion: Iterable[Tensor]) -> Generator[FramePlan, None, None]:
        """Plans of chunks of motion, made ahead of their reader on CUDA."""
        plans = self._on_own_stream((self._poser.pose(rows) for rows in motion), is_finished=True)
        # On the CPU, running ahead would take cores away from the frames.
        return plans if self._stream is None else prefetch(plans, 1)

    def _on_own_stream(self, items: Iterable[Item], *, is_finished: bool) -> Generator[Item, None, None]:
        """The items, made on the stream; whether it has finished each when it is handed over."""
        iterator = iter(items)
        while True:
            with contextlib.ExitStack() as stack:
                if self._stream is not None:
                    stack.enter_context(torch.cuda.stream(self._stream))
                item = next(iterator, None)
                if self._stream is not None and is_finished:
                    _sleep_until_done(self._stream)
            if item is None:
                return
            yield item


def _sleep_until_done(stream: torch.cuda.Stream) -> None:
    done = sleeping_event()
    done.record(stream)
    done.synchronize()


def warm_up_motion(engine: Engine, sampling: SamplingOptions) -> None:
    """Capture the audio encoder, and the sampler for these steps and this guidance, where graphs are on; draw noise."""
    if engine.speech_encoder is not None:
        engine.speech_encoder.warm_up()
    num_steps, scale = steps_and_guidance(sampling, engine.bundle.config)
    engine.guided_step.warm_up(num_steps, scale)
    draw_step_noise(sampling.seed, num_steps)
