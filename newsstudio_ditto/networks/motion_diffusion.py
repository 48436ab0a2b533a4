"""Motion diffusion transformer (LMDM): predicts clean motion from noisy motion, speech features and a first frame.

What depends neither on the step nor on the noisy motion is computed once per window
(:meth:`MotionDenoiser.encode_condition`), and the conditional and the unconditional pass share one batch.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from newsstudio_ditto.maths.diffusion import Schedule, ddim_step, guide
from newsstudio_ditto.networks.config import MotionDiffusionConfig
from newsstudio_ditto.networks.transformer import ConditionLayer, DenoiserStack, RotaryEmbedding, StepEmbedding

NUM_TIME_TOKENS = 2


class EncodedCondition(NamedTuple):
    """What the denoiser needs to know of a window's condition. B rows, or 2 B for guidance (conditional first)."""

    memory: Tensor
    """(B, 80, d), normalised rows that the decoder attends to."""
    hidden: Tensor
    """(B, d), added to the time embedding."""


Prediction = Callable[[Tensor, Tensor, EncodedCondition, Tensor], Tensor]


class MotionDenoiser(nn.Module):
    """Predicts clean motion, one window of 80 frames at a time.

    Args:
        config: widths, and the parts of a condition row.
    """

    def __init__(self, config: MotionDiffusionConfig) -> None:
        """Build the layers."""
        super().__init__()
        self.config = config
        width = config.latent
        self.rotary = RotaryEmbedding(width)
        self.time_mlp = nn.Sequential(StepEmbedding(width), nn.Linear(width, 4 * width), nn.Mish())
        self.to_time_cond = nn.Sequential(nn.Linear(4 * width, width))
        self.to_time_tokens = nn.Sequential(
            nn.Linear(4 * width, NUM_TIME_TOKENS * width), nn.Unflatten(-1, (NUM_TIME_TOKENS, width))
        )
        self.null_cond_embed = nn.Parameter(torch.randn(1, config.window_frames, width))
        self.null_cond_hidden = nn.Parameter(torch.randn(1, width))
        self.norm_cond = nn.LayerNorm(width)
        self.input_projection = nn.Linear(2 * config.motion_dim, width)
        self.cond_projection = nn.Linear(config.condition_dim, width)
        self.cond_encoder = nn.Sequential(
            *(ConditionLayer(config, self.rotary) for _ in range(config.num_condition_layers))
        )
        self.non_attn_cond_projection = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)
        )
        self.seqTransDecoder = DenoiserStack(config, self.rotary)
        self.final_layer = nn.Linear(width, config.motion_dim)

    def encode_condition(self, condition: Tensor) -> EncodedCondition:
        """Encode the condition rows of a window.

        Args:
            condition: (B, 80, condition_dim).
        """
        rows = self.cond_encoder(self.cond_projection(condition))
        hidden = self.non_attn_cond_projection(rows.mean(dim=1))
        return EncodedCondition(self.norm_cond(rows), hidden)

    def null_condition(self, batch_size: int) -> EncodedCondition:
        """What the unconditional pass sees instead of a condition."""
        memory = self.norm_cond(self.null_cond_embed).expand(batch_size, -1, -1)
        return EncodedCondition(memory, self.null_cond_hidden.expand(batch_size, -1))

    def encode_guided(self, condition: Tensor) -> EncodedCondition:
        """Encoded condition (B, 80, condition_dim) and null condition in one batch of 2 B, conditional rows first."""
        given, null = self.encode_condition(condition), self.null_condition(len(condition))
        return EncodedCondition(torch.cat([given.memory, null.memory]), torch.cat([given.hidden, null.hidden]))

    def forward(self, noisy: Tensor, first_frame: Tensor, encoded: EncodedCondition, step: Tensor) -> Tensor:
        """Predict clean motion.

        Args:
            noisy: (B, 80, 265), motion with the noise of its step.
            first_frame: (B, 265), motion that the window continues.
            encoded: condition, B rows.
            step: (B,), 0 (nearly clean) to 999 (pure noise).

        Returns:
            (B, 80, 265).
        """
        repeated = first_frame[:, None].expand(-1, noisy.shape[1], -1)
        x = self.input_projection(torch.cat([noisy, repeated], dim=-1))
        time = self.time_mlp[1:](self.time_mlp[0](step).to(x.dtype))
        embedding = self.to_time_cond(time) + encoded.hidden
        tokens = self.norm_cond(self.to_time_tokens(time))
        memory = torch.cat([encoded.memory, tokens], dim=1)
        result: Tensor = self.final_layer(self.seqTransDecoder(x, memory, self.rotary(memory), embedding))
        return result

    def predict_pair(
        self, noisy: Tensor, first_frame: Tensor, encoded: EncodedCondition, step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Conditional and unconditional prediction, (B, 80, 265) each, from one batch.

        Args:
            noisy: (B, 80, 265).
            first_frame: (B, 265).
            encoded: 2 B rows, of :meth:`encode_guided`.
            step: (B,).
        """
        both = self(noisy.repeat(2, 1, 1), first_frame.repeat(2, 1), encoded, step.repeat(2))
        conditional, unconditional = both.chunk(2)
        return conditional, unconditional

    def predict_guided(
        self, noisy: Tensor, first_frame: Tensor, encoded: EncodedCondition, step: Tensor, guidance_scale: float
    ) -> Tensor:
        """Guided prediction of clean motion, (B, 80, 265).

        Args:
            noisy: (B, 80, 265).
            first_frame: (B, 265).
            encoded: of :meth:`encode_for`, with the same scale.
            step: (B,).
            guidance_scale: 1 runs the conditional pass alone.
        """
        if guidance_scale == 1:
            return self(noisy, first_frame, encoded, step)
        return guide(*self.predict_pair(noisy, first_frame, encoded, step), guidance_scale)

    def encode_for(self, condition: Tensor, guidance_scale: float) -> EncodedCondition:
        """The rows that :meth:`predict_guided` needs: B with a scale of 1, else 2 B."""
        return self.encode_condition(condition) if guidance_scale == 1 else self.encode_guided(condition)


def sample_window(
    predict: Prediction,
    first_frame: Tensor,
    encoded: EncodedCondition,
    noise: Tensor,
    schedule: Schedule,
) -> Tensor:
    """Draw one window of motion: the whole DDIM loop, without a host synchronisation.

    Args:
        predict: ``(noisy, first_frame, encoded, step) -> x0``, such as :meth:`MotionDenoiser.predict_guided` with its
            scale bound, or a captured graph of it.
        first_frame: (B, 265), motion that the window continues.
        encoded: condition of the window.
        noise: (S, B, 80, 265) standard normal: the start, then the fresh noise of each step but the last.
        schedule: S steps.

    Returns:
        (B, 80, 265).
    """
    times = schedule.times.to(noise.device)
    x = noise[0]
    for index, step in enumerate(schedule.steps()):
        clean = predict(x, first_frame, encoded, times[index].expand(len(x)))
        fresh = noise[min(index + 1, len(noise) - 1)]
        x = ddim_step(x, clean, fresh, step)
    return x
