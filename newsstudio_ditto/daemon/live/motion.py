"""Motion of one utterance while it is spoken, and the keypoints of a picture that never stands still for good."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.config import SamplingOptions, require_range
from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.daemon.live.features import LOOK_AHEAD_FRAMES, silence_row
from newsstudio_ditto.maths.clips import SHORTEST_STREAM_OVERLAP, stream_motion
from newsstudio_ditto.maths.conditions import condition_rows
from newsstudio_ditto.maths.controls import FrameControls
from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.motion_stitch import CLIP_KEYS, STILL_KEYS, stitch_motion
from newsstudio_ditto.maths.motion_vector import MOTION_KEYS
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.render.motion import clip_options, packet_conditioning, starting_motion, steps_and_guidance
from newsstudio_ditto.render.prestitch import stitch_options
from newsstudio_ditto.render.sources import source_motion
from newsstudio_ditto.render.window_sampler import SessionNoise, WindowSampler
from newsstudio_ditto.units import FRAME_RATE_HZ, MOTION_DIM, WINDOW_FRAMES

LONGEST_STREAM_OVERLAP = 78


@dataclass(frozen=True)
class LiveOptions:
    """One live session.

    Args:
        overlap_frames: frames that two windows of the motion share, 40 to 78. The rest of 80 is the stride: motion
            comes out a stride at a time, two strides after its speech.
        num_steps: DDIM steps; None takes the model's own.
        guidance_scale: classifier-free guidance; None takes the model's own.
        seed: of the first utterance; each further one takes the next.
        fade_frames: frames in which speech takes over from idling, and gives back to it.
        gap_s: an utterance ends by itself when no sound comes for this long.
        utterance_s: the longest utterance; speech that goes on after that begins a new one.
        stitch: apply the stitching network.
    """

    overlap_frames: int = 70
    num_steps: int | None = None
    guidance_scale: float | None = None
    seed: int = 0
    fade_frames: int = 8
    gap_s: float = 0.8
    utterance_s: float = 60.0
    stitch: bool = True

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        require_range("overlap_frames", self.overlap_frames, SHORTEST_STREAM_OVERLAP, LONGEST_STREAM_OVERLAP)
        require_range("fade_frames", self.fade_frames, 1, 100)
        require_range("gap_s", self.gap_s, 0.1, 60.0)
        require_range("utterance_s", self.utterance_s, 1.0, 600.0)
        _ = self.sampling(0)

    def sampling(self, num_utterance: int) -> SamplingOptions:
        """Sampling of the utterance of this number, from 0."""
        return SamplingOptions(
            num_steps=self.num_steps,
            guidance_scale=self.guidance_scale,
            overlap_frames=self.overlap_frames,
            seed=self.seed + num_utterance,
        )

    @property
    def look_ahead_frames(self) -> int:
        """The motion of a frame is known once the speech has gone this many frames past it, at most."""
        return 2 * (WINDOW_FRAMES - self.overlap_frames) - 1 + LOOK_AHEAD_FRAMES

    @property
    def look_ahead_ms(self) -> float:
        """:attr:`look_ahead_frames` in milliseconds."""
        return 1000.0 * self.look_ahead_frames / FRAME_RATE_HZ


class LiveMotion:
    """Makes driving motion of utterances, each from a fresh start.

    Args:
        packet: the avatar.
        engine: its denoiser, captured or not.
        options: of the session.
    """

    def __init__(self, packet: Packet, engine: Engine, options: LiveOptions) -> None:
        """Compute what every utterance starts from."""
        config = engine.bundle.config
        self._engine, self._options = engine, options
        self._conditioning = packet_conditioning(packet, config, ControlOptions(), 1)
        self._source = starting_motion(packet, config, ControlOptions()).to(engine.device)
        self._silence = silence_row(engine.bundle).to(engine.device)

    def utter(self, features: Iterable[Tensor], num_utterance: int) -> Iterator[Tensor]:
        """Motion rows (k, 265) on the device, exactly one for each feature row, while features (n, A) arrive.

        What comes out for a frame depends on the speech up to ``options.look_ahead_frames`` past it, on no more, and
        not on the size of the chunks.

        Args:
            features: chunks in order.
            num_utterance: counted from 0; chooses the seed.
        """
        config, sampling = self._engine.bundle.config, self._options.sampling(num_utterance)
        num_steps, scale = steps_and_guidance(sampling, config)
        noise = SessionNoise(sampling.seed, num_steps)
        sampler = WindowSampler(self._engine.guided_step, ddim_schedule(num_steps), scale, noise)
        return stream_motion(
            (chunk.to(self._engine.device) for chunk in features),
            self._silence,
            lambda rows, first_index: condition_rows(rows, self._conditioning, first_index),
            self._source,
            sampler,
            clip_options(sampling, config),
        )


class PoseLine:
    """Keypoints of one output frame after the other; the clip behind them plays back and forth without a break.

    Args:
        packet: the avatar.
        engine: for its bundle and device.
        stitch: apply the stitching network.
    """

    def __init__(self, packet: Packet, engine: Engine, *, stitch: bool = True) -> None:
        """Start at the first source frame."""
        self._source = source_motion(packet)
        self._engine = engine
        self._stitching = engine.bundle.stitching if stitch else None
        is_still = packet.num_frames == 1
        plain = stitch_options(engine.bundle.config)
        # Said outright: a chunk of source frames no longer shows whether they come from a still.
        self._options = replace(
            plain,
            driven_keys=plain.driven_keys or (STILL_KEYS if is_still else CLIP_KEYS),
            drive_eyes=is_still if plain.drive_eyes is None else plain.drive_eyes,
            fade_to="source",
        )
        self._rest = torch.zeros(1, MOTION_DIM, device=engine.device)
        self.next_frame = 0

    def idle(self, count: int) -> FramePlan:
        """The next ``count`` frames with the source's own face."""
        return self.speak(self._rest.expand(count, -1), torch.zeros(count), self._rest[0])

    @torch.no_grad()
    def speak(self, motion: Tensor, weight: Tensor, origin: Tensor) -> FramePlan:
        """The next frames with generated motion.

        Args:
            motion: (k, 265) on the device.
            weight: (k,) of the motion; 0 is the source's own face.
            origin: (265,) first row of the utterance, which models of relative motion measure from.
        """
        numbers = np.arange(self.next_frame, self.next_frame + len(motion), dtype=np.int64)
        index = mirror_index(numbers, self._source.num_frames)
        posed = stitch_motion(
            self._source.rows(torch.from_numpy(index)),
            motion,
            self._options,
            FrameControls(fade=dict.fromkeys(MOTION_KEYS, weight.to(motion.device))),
            origin if self._options.relative == "first" else None,
        )
        driving = posed.driving_keypoints
        if self._stitching is not None:
            dtype = next(self._stitching.parameters()).dtype
            driving = self._stitching(posed.source_keypoints.to(dtype), driving.to(dtype)).float()
        self.next_frame += len(motion)
        return FramePlan(index, posed.source_keypoints, driving)
