"""One window of driving motion: the guided denoiser, captured or not, and the noise that it starts from."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Protocol

import torch
from torch import Tensor

from newsstudio_ditto.maths.diffusion import Schedule
from newsstudio_ditto.networks.motion_diffusion import EncodedCondition, MotionDenoiser, sample_window
from newsstudio_ditto.render.graph import CapturedGraph
from newsstudio_ditto.render.sampling import MOST_STEPS, SamplingGraphs
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
        """Draw the step noise, unless it was drawn lately."""
        self.steps, state = draw_step_noise(seed, num_steps)
        self._generator = torch.Generator()
        self._generator.set_state(state)

    def start(self) -> Tensor:
        """The next (80, 265) of the stream."""
        return torch.randn(WINDOW_FRAMES, MOTION_DIM, generator=self._generator)


@lru_cache(maxsize=2)
def draw_step_noise(seed: int, num_steps: int) -> tuple[Tensor, Tensor]:
    """Noise of every step but the last, (S - 1, 80, 265), and the state of the stream behind it; not to be changed.

    A million numbers take as long as a frame, so that they are drawn before a speech is there.
    """
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randn(num_steps - 1, WINDOW_FRAMES, MOTION_DIM, generator=generator)
    return steps, generator.get_state()


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
        self._whole = SamplingGraphs(denoiser) if is_graphed else None

    def sample(self, noise: Tensor, first_frame: Tensor, condition: Tensor, scale: float) -> Tensor | None:
        """A whole window in one replay; None where nothing is captured, or a run of so many steps is not.

        Args:
            noise: (S, 1, 80, 265), the start and the noise of each step but the last.
            first_frame: (1, 265).
            condition: (80, C) condition rows.
            scale: of the guidance.

        Returns:
            (1, 80, 265) float32, overwritten by the next call.
        """
        if self._whole is None or len(noise) > MOST_STEPS:
            return None
        return self._whole.run(noise, first_frame, condition[None].to(self.device), scale)

    def warm_up(self, num_steps: int, scale: float) -> None:
        """Capture runs of so many steps with guidance ``scale``; nothing to do without graphs, or twice."""
        if self._whole is None or num_steps > MOST_STEPS or self._whole.is_captured(num_steps, scale):
            return
        rows = torch.zeros(WINDOW_FRAMES, self._denoiser.config.condition_dim, device=self.device)
        noise = torch.zeros(num_steps, 1, WINDOW_FRAMES, MOTION_DIM, device=self.device)
        self.sample(noise, noise[0, :, 0], rows, scale)

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
        noise, first_frame = torch.cat([start, self._step_noise]), first_frame[None].to(self._step.device)
        motion = self._step.sample(noise, first_frame, condition, self._scale)
        if motion is None:
            motion = sample_window(
                partial(self._step.predict, scale=self._scale),
                first_frame,
                self._step.encode(condition, self._scale),
                noise,
                self._schedule,
            )
        return motion[0].clone()  # the last step returns the graph's own memory
