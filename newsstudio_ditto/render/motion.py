"""Driving motion of a whole speech: guided diffusion, window after window, from one seeded stream of noise."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.maths.clips import ClipOptions, generate_motion
from newsstudio_ditto.maths.conditions import Conditioning, condition_rows
from newsstudio_ditto.maths.diffusion import Schedule, ddim_schedule
from newsstudio_ditto.maths.motion_vector import EXPRESSION_START, pack_motion
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.networks.motion_diffusion import EncodedCondition, MotionDenoiser, sample_window
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.control_plan import emotion_condition, require_eye_condition
from newsstudio_ditto.render.graph import CapturedGraph
from newsstudio_ditto.render.sources import source_motion
from newsstudio_ditto.units import MOTION_DIM, WINDOW_FRAMES


class MotionNoise(Protocol):
    """Where the sampler's random numbers come from.

    Attributes:
        steps: (S - 1, 80, 265), noise of every DDIM step but the last, the same for every window of a session.
    """

    @property
    def steps(self) -> Tensor:
        """(S - 1, 80, 265)."""
        ...

    def start(self) -> Tensor:
        """Pure noise (80, 265) that the next window starts from."""
        ...


class SessionNoise:
    """One seeded stream, drawn on the CPU, so that every device draws the same numbers.

    The step noise comes first and serves every window; then each window takes its start.

    Args:
        seed: of the stream.
        num_steps: DDIM steps of the session.
    """

    def __init__(self, seed: int, num_steps: int) -> None:
        """Draw the step noise."""
        self._generator = torch.Generator().manual_seed(seed)
        self.steps = torch.randn(num_steps - 1, WINDOW_FRAMES, MOTION_DIM, generator=self._generator)

    def start(self) -> Tensor:
        """The next (80, 265) of the stream."""
        return torch.randn(WINDOW_FRAMES, MOTION_DIM, generator=self._generator)


class GuidedStep:
    """The denoiser's guided prediction, replayed as a graph where graphs are on.

    Args:
        denoiser: on its device, float32.
        is_graphed: capture on the first call with each guidance scale.
    """

    def __init__(self, denoiser: MotionDenoiser, *, is_graphed: bool) -> None:
        """Hold the network; the first call captures."""
        self.device = next(denoiser.parameters()).device
        self._denoiser = denoiser
        self._is_graphed = is_graphed
        self._graphs: dict[float, CapturedGraph] = {}

    def encode(self, condition: Tensor, scale: float) -> EncodedCondition:
        """Encode the condition rows (80, C) of one window for predictions with guidance ``scale``."""
        return self._denoiser.encode_for(condition[None].to(self.device), scale)

    def predict(
        self, noisy: Tensor, first_frame: Tensor, encoded: EncodedCondition, step: Tensor, scale: float
    ) -> Tensor:
        """Predict clean motion.

        Args:
            noisy: (1, 80, 265) float32.
            first_frame: (1, 265) float32.
            encoded: of :meth:`encode` with the same scale.
            step: (1,) int64.
            scale: of the guidance.

        Returns:
            (1, 80, 265) float32; with graphs it is overwritten by the next call.
        """
        if not self._is_graphed:
            return self._denoiser.predict_guided(noisy, first_frame, encoded, step, scale)
        inputs = {
            "noisy": noisy,
            "first_frame": first_frame,
            "memory": encoded.memory,
            "hidden": encoded.hidden,
            "step": step,
        }
        graph = self._graphs.get(scale)
        if graph is None:
            graph = self._graphs[scale] = CapturedGraph(self._function(scale), inputs)
        return graph(**inputs)

    def _function(self, scale: float) -> Callable[..., Tensor]:
        def guided(noisy: Tensor, first_frame: Tensor, memory: Tensor, hidden: Tensor, step: Tensor) -> Tensor:
            known = EncodedCondition(memory, hidden)
            return self._denoiser.predict_guided(noisy, first_frame, known, step, scale)

        return guided


class WindowSampler:
    """One run of the diffusion model: ``sampler(kp_cond (265,), condition (80, C)) -> (80, 265)``.

    Args:
        step: the guided denoiser.
        schedule: DDIM steps.
        guidance_scale: 1 is the conditional prediction alone.
        noise: of the session.
    """

    def __init__(self, step: GuidedStep, schedule: Schedule, guidance_scale: float, noise: MotionNoise) -> None:
        """Bring the step noise to the device once."""
        self._step = step
        self._schedule = schedule
        self._scale = guidance_scale
        self._noise = noise
        self._step_noise = noise.steps[:, None].to(step.device)

    @torch.no_grad()
    def __call__(self, first_frame: Tensor, condition: Tensor) -> Tensor:
        """Denoise one window."""
        start = self._noise.start()[None, None].to(self._step.device)
        motion = sample_window(
            partial(self._step.predict, scale=self._scale),
            first_frame[None].to(self._step.device),
            self._step.encode(condition, self._scale),
            torch.cat([start, self._step_noise]),
            self._schedule,
        )
        return motion[0].clone()  # the last step returns the graph's own memory


def clip_options(options: SamplingOptions, config: BundleConfig) -> ClipOptions:
    """How windows are chained for a bundle.

    Motion relative to its first frame is conditioned on the source's expression at every window, so that a long
    speech does not drift away from the presenter's face; motion relative to rest continues the window before.
    """
    is_anchored = config.relative != "rest"
    return ClipOptions(
        overlap_frames=options.overlap_frames,
        smoothing_frames=options.smoothing_frames,
        reset_every=1 if is_anchored else 0,
        carried_dims=(0, EXPRESSION_START) if is_anchored else (0, 0),
    )


def packet_conditioning(
    packet: Packet, config: BundleConfig, controls: ControlOptions, num_frames: int
) -> Conditioning:
    """What an avatar and the controls contribute to the condition rows, as far as the bundle's denoiser takes it."""
    parts, meta = config.networks.motion_diffusion, packet.meta
    require_eye_condition(controls, parts)
    conditioning = Conditioning(
        emotion=emotion_condition(controls.emotion, parts, num_frames),
        eye_open=meta.eye_open if parts.use_eye_open else None,
        eye_ball=meta.eye_ball if parts.use_eye_ball else None,
        identity=meta.sc if parts.use_canonical else None,
    )
    return conditioning.freeze_eyes() if controls.freeze_eyes else conditioning


def sample_motion(
    bundle: ModelBundle,
    features: Tensor,
    packet: Packet,
    options: SamplingOptions,
    device: torch.device,
    *,
    step: GuidedStep | None = None,
    controls: ControlOptions | None = None,
) -> Tensor:
    """Generate the driving motion of a speech.

    Args:
        bundle: its motion diffusion, and the defaults of ``options``.
        features: (T, A) float32 speech features, T >= 1.
        packet: source motion and conditioning.
        options: steps, guidance, overlap, smoothing and seed.
        device: where the denoiser runs.
        step: the engine's, already captured; None makes an eager one.
        controls: whose emotion and eyes condition the motion; None is neutral.

    Returns:
        (T, 265) float32 on ``device``; scale is stored less 1, poses are logits. Equal inputs and seeds give
        equal rows.

    Raises:
        UsageError: the bundle takes no emotion, or no eyes, and the controls ask for them.
    """
    config = bundle.config
    num_steps = options.num_steps or config.num_steps
    scale = config.guidance_scale if options.guidance_scale is None else options.guidance_scale
    guided = step or GuidedStep(bundle.motion_diffusion, is_graphed=False)
    sampler = WindowSampler(guided, ddim_schedule(num_steps), scale, SessionNoise(options.seed, num_steps))
    conditioning = packet_conditioning(packet, config, controls or ControlOptions(), len(features))
    conditions = condition_rows(features.to(device), conditioning)
    source = (
        torch.zeros(1, MOTION_DIM) if config.relative == "rest" else pack_motion(source_motion(packet).rows(slice(1)))
    )
    return generate_motion(conditions, source[0].to(device), sampler, clip_options(options, config))
