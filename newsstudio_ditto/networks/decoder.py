"""SPADE decoder (G): feature image -> picture."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.maths.paste import CropRegion
from newsstudio_ditto.networks.config import DecoderConfig
from newsstudio_ditto.networks.layers import channels_last, instance_norm
from newsstudio_ditto.networks.picture import PICTURE_COLOURS, PictureSkip, unfold_picture
from newsstudio_ditto.units import CROP_SIZE_PX

_SLOPE = 0.2
_CELL_PX = 8
_NORM_EPS = 1e-5
_REACH_CELLS = 4
"""How far a cell's value is carried by the convolutions after the last norm: 3 1/4 cells where a picture is copied."""


def _leaky(x: Tensor) -> Tensor:
    return functional.leaky_relu(x, _SLOPE)


def _double(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0)


class Spade(nn.Module):
    """Instance norm whose scale and shift are painted by a conditioning image.

    Args:
        channels: of the input that is normalised.
        condition_channels: of the conditioning image.
        hidden_channels: between the two.
    """

    def __init__(self, channels: int, condition_channels: int, hidden_channels: int) -> None:
        """Build the layers."""
        super().__init__()
        self.mlp_shared = nn.Sequential(nn.Conv2d(condition_channels, hidden_channels, 3, padding=1), nn.ReLU())
        self.mlp_gamma = nn.Conv2d(hidden_channels, channels, 3, padding=1)
        self.mlp_beta = nn.Conv2d(hidden_channels, channels, 3, padding=1)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Normalise x (B, channels, h, w); the condition (B, condition_channels, h', w') is resized to it."""
        if condition.shape[-2:] != x.shape[-2:]:
            condition = functional.interpolate(condition, size=x.shape[-2:])
        hidden = self.mlp_shared(condition)
        normalised = instance_norm(x, _NORM_EPS)
        return torch.addcmul(self.mlp_beta(hidden), normalised, 1 + self.mlp_gamma(hidden))


class SpadeResBlock(nn.Module):
    """Residual block with two SPADE layers: (B, i, h, w) -> (B, o, h, w)."""

    def __init__(self, in_channels: int, out_channels: int, condition_channels: int, hidden_channels: int) -> None:
        """Build the layers."""
        super().__init__()
        middle = min(in_channels, out_channels)
        self.has_shortcut = in_channels != out_channels
        self.conv_0 = nn.Conv2d(in_channels, middle, 3, padding=1)
        self.conv_1 = nn.Conv2d(middle, out_channels, 3, padding=1)
        self.norm_0 = Spade(in_channels, condition_channels, hidden_channels)
        self.norm_1 = Spade(middle, condition_channels, hidden_channels)
        if self.has_shortcut:
            self.conv_s = nn.Conv2d(in_channels, out_channels, 1, bias=False)
            self.norm_s = Spade(in_channels, condition_channels, hidden_channels)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Run the block."""
        shortcut = self.conv_s(self.norm_s(x, condition)) if self.has_shortcut else x
        y = self.conv_0(_leaky(self.norm_0(x, condition)))
        y = self.conv_1(_leaky(self.norm_1(y, condition)))
        result: Tensor = shortcut + y
        return result


class SubPixelBlock(nn.Module):
    """Doubles a picture by rearranging channels into pixels: (B, i, h, w) -> (B, o, 2h, 2w)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        """Build the layers."""
        super().__init__()
        self.conv_0 = nn.Conv2d(in_channels, 4 * out_channels, 3, padding=1)
        self.conv_1 = nn.Conv2d(out_channels, out_channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        y: Tensor = self.conv_1(_leaky(functional.pixel_shuffle(self.conv_0(x), 2)))
        return y


class SpadeDecoder(nn.Module):
    """Paints the picture that a feature image describes.

    Args:
        config: widths, and how the picture is enlarged.
    """

    def __init__(self, config: DecoderConfig) -> None:
        """Build the layers."""
        super().__init__()
        self.config = config
        condition, hidden, width = config.learned_features, config.hidden_channels, config.channels
        middle, small = config.up_channels
        self.fc = nn.Conv2d(config.feature_channels, width, 3, padding=1)
        for index in range(config.num_middle_blocks):
            self.add_module(f"G_middle_{index}", SpadeResBlock(width, width, condition, hidden))
        if config.upsampling == "spade":
            self.up_0: nn.Module = SpadeResBlock(width, middle, condition, hidden)
            self.up_1: nn.Module = SpadeResBlock(middle, small, condition, hidden)
        else:
            self.up_0 = SubPixelBlock(width, middle)
            self.up_1 = SubPixelBlock(middle, small)
        self.conv_img = nn.Sequential(nn.Conv2d(small, 3 * 4, 3, padding=1), nn.PixelShuffle(2))
        if config.picture_px is not None:
            self.picture = PictureSkip(small, 2 * config.picture_px // CROP_SIZE_PX)

    def forward(self, feature: Tensor, region: CropRegion | None = None) -> Tensor:
        """Picture of a feature image.

        Args:
            feature: (B, feature_channels, h, w).
            region: what of the picture is wanted. Where pixels are rearranged, only that is enlarged, which takes less
                time, and the rest may be black; SPADE's norms need the whole picture at every size.

        Returns:
            (B, 3, 8h, 8w) RGB, 0..1, in the network's dtype.
        """
        x = self.fc(feature)
        feature, carried = feature.split_with_sizes(
            [self.config.learned_features, feature.shape[1] - self.config.learned_features], dim=1
        )
        feature = channels_last(feature)
        for index in range(self.config.num_middle_blocks):
            x = self.get_submodule(f"G_middle_{index}")(x, feature)
        if self.config.upsampling == "spade":
            x = self.up_0(_double(x), feature)
            return self._paint(self.up_1(_double(x), feature), carried)
        if region is None:
            return self._paint(self.up_1(_leaky(self.up_0(x))), carried)
        height, width = x.shape[-2:]
        rows, columns = region.cells(height, _CELL_PX, _REACH_CELLS)
        part = channels_last(x[..., rows, columns])
        image = x.new_zeros(len(x), PICTURE_COLOURS, _CELL_PX * height, _CELL_PX * width)
        inside = image[..., _in_pixels(rows), _in_pixels(columns)]
        inside.copy_(self._paint(self.up_1(_leaky(self.up_0(part))), carried[..., rows, columns]))
        return image

    def _paint(self, x: Tensor, carried: Tensor) -> Tensor:
        """Picture of features (B, small, 4h, 4w), and of the picture that is carried along (B, 3 k k, h, w)."""
        x = _leaky(x)
        if self.config.picture_px is None:
            image: Tensor = self.conv_img(x)
            return image.sigmoid()
        logits, enlarge = self.conv_img
        picture = self.picture(x, unfold_picture(carried))
        image = enlarge(logits(x) + picture)
        return image.sigmoid()


def _in_pixels(cells: slice) -> slice:
    return slice(_CELL_PX * cells.start, _CELL_PX * cells.stop)
