"""Layers of the motion diffusion transformer. Attribute names are those of the published checkpoint."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.networks.config import MotionDiffusionConfig
from newsstudio_ditto.networks.layers import FixedBuffers, without_autocast


class RotaryEmbedding(FixedBuffers):
    """Turns each pair of neighbouring columns by an angle that grows with the row.

    Args:
        width: columns, even; all of them are turned.
    """

    freqs: Tensor

    def __init__(self, width: int) -> None:
        """Build the layers."""
        super().__init__()
        self.width = width
        self.register_fixed_buffers(persistent=True)

    def make_fixed_buffers(self) -> dict[str, Tensor]:
        """Angle per row of each pair, (width / 2,)."""
        exponent = torch.arange(0, self.width, 2).float() / self.width
        return {"freqs": 1.0 / 10000**exponent}

    def forward(self, x: Tensor) -> Tensor:
        """Turn x (B, rows, width), rows numbered from 0."""
        with without_autocast(x):
            rows = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)
            angle = rows[:, None] * self.freqs
            cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
            even, odd = x[..., 0::2], x[..., 1::2]
            return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)


class Attention(nn.Module):
    """Multi-head attention with queries and keys given apart from values; weights laid out like torch's own.

    Args:
        width: columns.
        num_heads: heads.
    """

    def __init__(self, width: int, num_heads: int) -> None:
        """Build the layers."""
        super().__init__()
        self.num_heads = num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend: query (B, n, d), key and value (B, m, d) -> (B, n, d)."""
        inputs = (query, key, value)
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (
            functional.linear(x, weight, bias).view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
            for x, weight, bias in zip(inputs, weights, biases, strict=True)
        )
        joined = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        result: Tensor = self.out_proj(joined)
        return result


class ConditionLayer(nn.Module):
    """Pre-norm transformer encoder layer with rotary queries and keys."""

    def __init__(self, config: MotionDiffusionConfig, rotary: RotaryEmbedding) -> None:
        """Build the layers."""
        super().__init__()
        width = config.latent
        self.self_attn = Attention(width, config.num_heads)
        self.linear1 = nn.Linear(width, config.feed_forward)
        self.linear2 = nn.Linear(config.feed_forward, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.rotary = rotary

    def forward(self, x: Tensor) -> Tensor:
        """Run the layer on x (B, rows, d)."""
        normal = self.norm1(x)
        turned = self.rotary(normal)
        x = x + self.self_attn(turned, turned, normal)
        result: Tensor = x + self.linear2(functional.gelu(self.linear1(self.norm2(x))))
        return result


class FiLM(nn.Module):
    """Scale and shift of a sublayer's output, from the step and the condition."""

    def __init__(self, width: int) -> None:
        """Build the layers."""
        super().__init__()
        self.block = nn.Sequential(nn.Mish(), nn.Linear(width, 2 * width))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Modulate x (B, rows, d) by the embedding (B, d)."""
        scale, shift = self.block(embedding)[:, None].chunk(2, dim=-1)
        result: Tensor = x * (scale + 1) + shift
        return result


class DenoiserLayer(nn.Module):
    """Pre-norm transformer decoder layer; each sublayer's output is modulated before it is added."""

    def __init__(self, config: MotionDiffusionConfig, rotary: RotaryEmbedding) -> None:
        """Build the layers."""
        super().__init__()
        width = config.latent
        self.self_attn = Attention(width, config.num_heads)
        self.multihead_attn = Attention(width, config.num_heads)
        self.linear1 = nn.Linear(width, config.feed_forward)
        self.linear2 = nn.Linear(config.feed_forward, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.norm3 = nn.LayerNorm(width)
        self.film1 = FiLM(width)
        self.film2 = FiLM(width)
        self.film3 = FiLM(width)
        self.rotary = rotary

    def forward(self, x: Tensor, memory: Tensor, turned_memory: Tensor, embedding: Tensor) -> Tensor:
        """Run the layer.

        Args:
            x: (B, 80, d).
            memory: (B, 82, d), the values of the cross-attention.
            turned_memory: the same after the rotary embedding, its keys.
            embedding: (B, d).
        """
        normal = self.norm1(x)
        turned = self.rotary(normal)
        x = x + self.film1(self.self_attn(turned, turned, normal), embedding)
        crossed = self.multihead_attn(self.rotary(self.norm2(x)), turned_memory, memory)
        x = x + self.film2(crossed, embedding)
        forward = self.linear2(functional.gelu(self.linear1(self.norm3(x))))
        result: Tensor = x + self.film3(forward, embedding)
        return result


class DenoiserStack(nn.Module):
    """All denoiser layers in order."""

    def __init__(self, config: MotionDiffusionConfig, rotary: RotaryEmbedding) -> None:
        """Build the layers."""
        super().__init__()
        self.stack = nn.ModuleList(DenoiserLayer(config, rotary) for _ in range(config.num_layers))

    def forward(self, x: Tensor, memory: Tensor, turned_memory: Tensor, embedding: Tensor) -> Tensor:
        """Run the layers; arguments as in :class:`DenoiserLayer`."""
        for layer in self.stack:
            x = layer(x, memory, turned_memory, embedding)
        return x


class StepEmbedding(FixedBuffers):
    """Sines and cosines of the step number.

    Args:
        width: columns of the result, even.
    """

    frequencies: Tensor

    def __init__(self, width: int) -> None:
        """Build the layers."""
        super().__init__()
        self.width = width
        self.register_fixed_buffers(persistent=False)

    def make_fixed_buffers(self) -> dict[str, Tensor]:
        """Angle per step, (width / 2,)."""
        half = self.width // 2
        return {"frequencies": torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))}

    def forward(self, step: Tensor) -> Tensor:
        """Embed steps (B,) as (B, width), float32."""
        angle = step[:, None].float() * self.frequencies
        return torch.cat([angle.sin(), angle.cos()], dim=-1)
