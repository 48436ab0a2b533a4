"""Appearance extractor (F): picture -> feature volume."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.networks.config import AppearanceConfig
from newsstudio_ditto.networks.layers import ConvNorm2d, DownBlock2d, ResBlock3d
from newsstudio_ditto.networks.picture import fold_picture
from newsstudio_ditto.units import NETWORK_INPUT_PX


class AppearanceExtractor(nn.Module):
    """Turns a face crop into a volume that the warp can deform.

    Args:
        config: widths.
    """

    def __init__(self, config: AppearanceConfig) -> None:
        """Build the layers."""
        super().__init__()
        self.config = config
        widths = [
            min(config.max_features, config.block_expansion << level) for level in range(config.num_down_blocks + 1)
        ]
        self.first = ConvNorm2d(3, widths[0])
        self.down_blocks = nn.ModuleList(DownBlock2d(narrow, wide) for narrow, wide in pairwise(widths))
        self.second = nn.Conv2d(widths[-1], config.learned_channels * config.volume_depth, 1)
        self.resblocks_3d = nn.Sequential()
        for index in range(config.num_resblocks):
            self.resblocks_3d.add_module(f"3dr{index}", ResBlock3d(config.learned_channels))

    def forward(self, image: Tensor) -> Tensor:
        """Feature volume of a picture.

        Args:
            image: (B, 3, P, P) RGB, 0..1; P is the config's ``input_px``, 256 or 512.

        Returns:
            (B, C, D, h, w), h = w = 64 with two halvings.
        """
        shrink = self.config.input_px // NETWORK_INPUT_PX
        x = self.first(functional.avg_pool2d(image, shrink) if shrink > 1 else image)
        for block in self.down_blocks:
            x = block(x)
        x = self.second(x)
        volume: Tensor = self.resblocks_3d(x.unflatten(1, (self.config.learned_channels, self.config.volume_depth)))
        if self.config.picture_px is None:
            return volume
        folded = fold_picture(image, self.config.volume_px)
        picture = folded.reshape(len(folded), -1, self.config.volume_depth, *folded.shape[2:])
        return torch.cat([volume, picture.to(volume.dtype)], dim=1)
