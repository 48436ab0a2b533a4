"""Blocks that several networks share. Attribute names are those of the published checkpoints."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional


class FixedBuffers(nn.Module):
    """Module whose buffers follow from its settings: they move with it, but stay float32 whatever it is cast to.

    A coordinate grid in half precision would shift what is sampled at it by whole pixels.
    """

    def make_fixed_buffers(self) -> dict[str, Tensor]:
        """Buffers by name, float32."""
        raise NotImplementedError

    def register_fixed_buffers(self, *, persistent: bool) -> None:
        """Register what :meth:`make_fixed_buffers` returns."""
        for name, buffer in self.make_fixed_buffers().items():
            self.register_buffer(name, buffer, persistent=persistent)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        moved: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.restore_fixed_buffers(self.get_buffer(next(iter(self.make_fixed_buffers()))).device)
        return moved

    def restore_fixed_buffers(self, device: torch.device) -> None:
        """Make the buffers anew on ``device``."""
        for name, buffer in self.make_fixed_buffers().items():
            self._buffers[name] = buffer.to(device)


class ConvNorm2d(nn.Module):
    """Convolution that keeps the size, batch norm, (leaky) rectifier: (B, i, h, w) -> (B, o, h, w).

    Args:
        negative_slope: slope below zero; 0 is the plain rectifier.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int = 3, *, negative_slope: float = 0.0) -> None:
        """Build the layers."""
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2)
        self.norm = nn.BatchNorm2d(out_channels)
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        y: Tensor = self.norm(self.conv(x))
        return functional.leaky_relu(y, self.negative_slope) if self.negative_slope else functional.relu(y)


class DownBlock2d(ConvNorm2d):
    """:class:`ConvNorm2d`, then the mean of every 2x2 pixels: (B, i, h, w) -> (B, o, h/2, w/2)."""

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return functional.avg_pool2d(super().forward(x), 2)


class ConvNorm3d(nn.Module):
    """3x3x3 convolution, batch norm, rectifier: (B, i, D, h, w) -> (B, o, D, h, w)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        """Build the layers."""
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, 3, padding=1)
        self.norm = nn.BatchNorm3d(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return functional.relu(self.norm(self.conv(x)))


class DownBlock3d(ConvNorm3d):
    """:class:`ConvNorm3d`, then the mean of every 1x2x2 cells: height and width halve, depth stays."""

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return functional.avg_pool3d(super().forward(x), (1, 2, 2))


class UpBlock3d(ConvNorm3d):
    """Height and width doubled by repetition, then :class:`ConvNorm3d`."""

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return super().forward(functional.interpolate(x, scale_factor=(1.0, 2.0, 2.0)))


class ResBlock3d(nn.Module):
    """Pre-activation residual block on a volume (B, C, D, h, w)."""

    def __init__(self, channels: int) -> None:
        """Build the layers."""
        super().__init__()
        self.conv1 = nn.Conv3d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv3d(channels, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm3d(channels)
        self.norm2 = nn.BatchNorm3d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        y = self.conv1(functional.relu(self.norm1(x)))
        y = self.conv2(functional.relu(self.norm2(y)))
        return x + y


class ChannelLayerNorm(nn.LayerNorm):
    """Layer norm over the channels of a picture (B, C, h, w), at each pixel."""

    def forward(self, x: Tensor) -> Tensor:
        """Run the layer."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def channels_last(x: Tensor) -> Tensor:
    """On the CPU a picture (B, C, h, w) with its channels beside each other, as convolutions there want them."""
    return x.contiguous(memory_format=torch.channels_last) if x.device.type == "cpu" else x


def instance_norm(x: Tensor, eps: float) -> Tensor:
    """Each channel of each picture (B, C, h, w) with mean 0 and variance 1."""
    if x.device.type != "cpu":
        return functional.instance_norm(x, eps=eps)
    # The same, but it keeps channels_last, and is over twenty times faster there.
    return functional.group_norm(x, x.shape[1], eps=eps)


def without_autocast(x: Tensor) -> Any:
    """Context in which coordinates and softmaxes keep float32, also during training under autocast."""
    return torch.autocast(x.device.type, enabled=False)


def restore_fixed_buffers(network: nn.Module, device: torch.device) -> None:
    """Make every fixed buffer of a network anew on ``device``, after it was built without memory or loaded."""
    for module in network.modules():
        if isinstance(module, FixedBuffers):
            module.restore_fixed_buffers(device)
