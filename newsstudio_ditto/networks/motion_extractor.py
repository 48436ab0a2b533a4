"""Motion extractor (M): picture -> pose, expression and canonical keypoints. A ConvNeXt-V2 with seven heads."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.networks.config import MotionExtractorConfig
from newsstudio_ditto.networks.layers import ChannelLayerNorm
from newsstudio_ditto.units import NUM_KEYPOINTS, NUM_POSE_BINS

_NORM_EPS = 1e-6


class MotionOutput(NamedTuple):
    """What the extractor reads off a batch of pictures, in the order of the published heads."""

    pitch: Tensor
    """(B, 66) logits over 3 degree bins."""
    yaw: Tensor
    """(B, 66) logits."""
    roll: Tensor
    """(B, 66) logits."""
    translation: Tensor
    """(B, 3)."""
    expression: Tensor
    """(B, 63), 21 keypoints x (x, y, z)."""
    scale: Tensor
    """(B, 1)."""
    canonical: Tensor
    """(B, 63), 21 keypoints x (x, y, z)."""


class GlobalResponseNorm(nn.Module):
    """Scales each channel by its share of the picture's energy; channels last (B, h, w, C)."""

    def __init__(self, channels: int) -> None:
        """Build the layers."""
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, 1, channels))
        self.beta = nn.Parameter(torch.zeros(1, 1, 1, channels))

    def forward(self, x: Tensor) -> Tensor:
        """Run the layer."""
        energy = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
        share = energy / (energy.mean(dim=-1, keepdim=True) + _NORM_EPS)
        return self.gamma * (x * share) + self.beta + x


class ConvNextBlock(nn.Module):
    """ConvNeXt-V2 block on (B, C, h, w)."""

    def __init__(self, channels: int) -> None:
        """Build the layers."""
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=_NORM_EPS)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.grn = GlobalResponseNorm(4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.pwconv2(self.grn(functional.gelu(self.pwconv1(y))))
        return x + y.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """Backbone and heads."""

    def __init__(self, config: MotionExtractorConfig) -> None:
        """Build the layers."""
        super().__init__()
        widths = config.widths
        stem = nn.Sequential(nn.Conv2d(3, widths[0], 4, stride=4), ChannelLayerNorm(widths[0], eps=_NORM_EPS))
        halvings = (
            nn.Sequential(ChannelLayerNorm(narrow, eps=_NORM_EPS), nn.Conv2d(narrow, wide, 2, stride=2))
            for narrow, wide in pairwise(widths)
        )
        self.downsample_layers = nn.ModuleList([stem, *halvings])
        self.stages = nn.ModuleList(
            nn.Sequential(*(ConvNextBlock(width) for _ in range(depth)))
            for depth, width in zip(config.depths, widths, strict=True)
        )
        self.norm = nn.LayerNorm(widths[-1], eps=_NORM_EPS)
        self.fc_pitch = nn.Linear(widths[-1], NUM_POSE_BINS)
        self.fc_yaw = nn.Linear(widths[-1], NUM_POSE_BINS)
        self.fc_roll = nn.Linear(widths[-1], NUM_POSE_BINS)
        self.fc_t = nn.Linear(widths[-1], 3)
        self.fc_exp = nn.Linear(widths[-1], 3 * NUM_KEYPOINTS)
        self.fc_scale = nn.Linear(widths[-1], 1)
        nn.init.ones_(self.fc_scale.bias)
        self.fc_kp = nn.Linear(widths[-1], 3 * NUM_KEYPOINTS)

    def forward(self, image: Tensor) -> MotionOutput:
        """Run backbone and heads."""
        x = image
        for downsample, stage in zip(self.downsample_layers, self.stages, strict=True):
            x = stage(downsample(x))
        pooled = self.norm(x.mean(dim=(2, 3)))
        heads = (self.fc_pitch, self.fc_yaw, self.fc_roll, self.fc_t, self.fc_exp, self.fc_scale, self.fc_kp)
        return MotionOutput(*(head(pooled) for head in heads))


class MotionExtractor(nn.Module):
    """Reads pose, expression and canonical keypoints off a face crop.

    Args:
        config: depths and widths.
    """

    def __init__(self, config: MotionExtractorConfig) -> None:
        """Build the layers."""
        super().__init__()
        self.config = config
        self.detector = ConvNext(config)

    def forward(self, image: Tensor) -> MotionOutput:
        """Motion of a batch of pictures (B, 3, 256, 256) RGB, 0..1."""
        result: MotionOutput = self.detector(image)
        return result
