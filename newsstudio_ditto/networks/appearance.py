"""Appearance extractor (F): picture -> feature volume."""

from itertools import pairwise

from torch import Tensor, nn

from newsstudio_ditto.networks.config import AppearanceConfig
from newsstudio_ditto.networks.layers import ConvNorm2d, DownBlock2d, ResBlock3d


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
        self.second = nn.Conv2d(widths[-1], config.volume_channels * config.volume_depth, 1)
        self.resblocks_3d = nn.Sequential()
        for index in range(config.num_resblocks):
            self.resblocks_3d.add_module(f"3dr{index}", ResBlock3d(config.volume_channels))

    def forward(self, image: Tensor) -> Tensor:
        """Feature volume of a picture.

        Args:
            image: (B, 3, 256, 256) RGB, 0..1.

        Returns:
            (B, C, D, h, w), h = w = 64 with two halvings.
        """
        x = self.first(image)
        for block in self.down_blocks:
            x = block(x)
        x = self.second(x)
        volume = x.unflatten(1, (self.config.volume_channels, self.config.volume_depth))
        result: Tensor = self.resblocks_3d(volume)
        return result
