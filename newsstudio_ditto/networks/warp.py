"""Warping network (W): feature volume and two sets of keypoints -> the feature image that the decoder paints.

Each of the 22 candidate motions is a constant shift, so its deformed volume is a product of three small matrices
(one per axis) with the volume; neither 22 sampling grids nor 22 copies of the volume are ever made. The flow is the
identity grid plus the mask-weighted mean of the shifts, for the same reason.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.networks.config import DenseMotionConfig, WarpConfig
from newsstudio_ditto.networks.layers import (
    ConvNorm2d,
    ConvNorm3d,
    DownBlock3d,
    FixedBuffers,
    UpBlock3d,
    without_autocast,
)
from newsstudio_ditto.networks.picture import PictureWarp, fold_picture, unfold_picture
from newsstudio_ditto.units import NUM_KEYPOINTS

HEAT_VARIANCE = 0.01
NUM_MOTIONS = NUM_KEYPOINTS + 1


def interpolation_matrix(coordinates: Tensor, num_cells: int) -> Tensor:
    """Linear interpolation along one axis, as a matrix.

    Args:
        coordinates: (..., n), -1..1 in the ``align_corners=False`` manner of ``grid_sample``.
        num_cells: cells of the axis that is read.

    Returns:
        (..., n, num_cells); what lies outside the axis has weight zero.
    """
    position = ((coordinates + 1) * num_cells - 1) / 2
    cells = torch.arange(num_cells, device=coordinates.device, dtype=coordinates.dtype)
    return functional.relu(1 - (position[..., None] - cells).abs())


class HourglassEncoder(nn.Module):
    """Halves height and width level by level; returns every level, the input first."""

    def __init__(self, widths: list[int]) -> None:
        """Build the layers."""
        super().__init__()
        self.down_blocks = nn.ModuleList(DownBlock3d(narrow, wide) for narrow, wide in pairwise(widths))

    def forward(self, x: Tensor) -> list[Tensor]:
        """Run all levels."""
        levels = [x]
        for block in self.down_blocks:
            levels.append(block(levels[-1]))
        return levels


class HourglassDecoder(nn.Module):
    """Doubles height and width level by level, each joined with the encoder's level of its size."""

    def __init__(self, encoder_widths: list[int], widths: list[int], *, final_block: bool) -> None:
        """Build the layers."""
        super().__init__()
        blocks = []
        width = encoder_widths[-1]
        for out_width, skip_width in zip(widths, reversed(encoder_widths[:-1]), strict=True):
            blocks.append(UpBlock3d(width, out_width))
            width = out_width + skip_width
        self.up_blocks = nn.ModuleList(blocks)
        self.out_channels = width
        self._final_block = final_block
        if final_block:
            last = ConvNorm3d(width, width)
            self.conv, self.norm = last.conv, last.norm

    def forward(self, levels: list[Tensor]) -> Tensor:
        """Join all levels, the smallest first."""
        x = levels[-1]
        for block, skip in zip(self.up_blocks, reversed(levels[:-1]), strict=True):
            x = torch.cat([block(x), skip], dim=1)
        return functional.relu(self.norm(self.conv(x))) if self._final_block else x


class Hourglass(nn.Module):
    """3-D U-Net that keeps the depth: (B, i, D, h, w) -> (B, o, D, h, w)."""

    def __init__(self, in_channels: int, config: DenseMotionConfig) -> None:
        """Build the layers."""
        super().__init__()
        limited = [min(config.max_features, config.block_expansion << level) for level in range(config.num_blocks + 1)]
        encoder_widths = [in_channels, *limited[1:]]
        self.encoder = HourglassEncoder(encoder_widths)
        self.decoder = HourglassDecoder(encoder_widths, limited[-2::-1], final_block=config.final_block)
        self.out_channels = self.decoder.out_channels

    def forward(self, x: Tensor) -> Tensor:
        """Run encoder and decoder."""
        result: Tensor = self.decoder(self.encoder(x))
        return result


class DenseMotionNetwork(FixedBuffers):
    """Estimates, for every cell of the volume, where to read the source, and where nothing can be read.

    Args:
        config: of the whole warp.
    """

    axis_px: Tensor
    axis_depth: Tensor

    def __init__(self, config: WarpConfig) -> None:
        """Build the layers."""
        super().__init__()
        self.config = config
        motion = config.dense_motion
        compressed = motion.compressed_channels
        self.compress = nn.Conv3d(config.learned_channels, compressed, 1)
        self.norm = nn.BatchNorm3d(compressed)
        self.hourglass = Hourglass(NUM_MOTIONS * (1 + compressed), motion)
        width = self.hourglass.out_channels
        self.mask = nn.Conv3d(width, NUM_MOTIONS, motion.mask_kernel, padding=motion.mask_kernel // 2)
        self.occlusion = nn.Conv2d(
            width * config.volume_depth, 1, motion.occlusion_kernel, padding=motion.occlusion_kernel // 2
        )
        self.register_fixed_buffers(persistent=False)

    def make_fixed_buffers(self) -> dict[str, Tensor]:
        """Coordinates of the cells, -1..1 from the first to the last, along x and y, and along z."""
        return {
            "axis_px": torch.linspace(-1, 1, self.config.dense_motion.motion_grid_px),
            "axis_depth": torch.linspace(-1, 1, self.config.volume_depth),
        }

    def compress_volume(self, volume: Tensor) -> Tensor:
        """Few channels of the volume, on the motion grid: (B, C, D, h, w) -> (B, c, D, g, g)."""
        shrink = self.config.volume_px // self.config.dense_motion.motion_grid_px
        small = functional.avg_pool3d(volume, (1, shrink, shrink)) if shrink > 1 else volume
        return functional.relu(self.norm(self.compress(small)))

    def _axes(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.axis_px, self.axis_px, self.axis_depth

    def heat_maps(self, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        """Gaussians at the driving keypoints minus those at the source's: (B, 22, D, g, g), the first all zero."""

        def gaussians(keypoints: Tensor) -> Tensor:
            x, y, z = (
                torch.exp(-((axis - keypoints[..., i, None]) ** 2) / (2 * HEAT_VARIANCE))
                for i, axis in enumerate(self._axes())
            )
            return z[..., :, None, None] * (y[..., :, None] * x[..., None, :])[..., None, :, :]

        heat = gaussians(driving_keypoints) - gaussians(source_keypoints)
        return functional.pad(heat, (0, 0, 0, 0, 0, 0, 1, 0))

    def deform(self, compressed: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        """The volume, moved by each of the 22 candidate motions: (B, c, D, g, g) -> (B, 22, c, D, g, g)."""
        source = functional.pad(source_keypoints, (0, 0, 1, 0))
        driving = functional.pad(driving_keypoints, (0, 0, 1, 0))
        along_x, along_y, along_z = (
            interpolation_matrix(axis - driving[..., i, None] + source[..., i, None], len(axis))
            for i, axis in enumerate(self._axes())
        )
        moved = torch.einsum("bcdhw,bkxw->bkcdhx", compressed, along_x)
        moved = torch.einsum("bkcdhx,bkyh->bkcdyx", moved, along_y)
        return torch.einsum("bkcdyx,bkzd->bkczyx", moved, along_z)

    def flow(self, mask: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        """Sampling grid (B, D, g, g, 3), (x, y, z) last, from the mask (B, 22, D, g, g)."""
        shift = functional.pad(source_keypoints - driving_keypoints, (0, 0, 1, 0))
        offset = torch.einsum("bkdhw,bkc->bdhwc", mask, shift)
        x, y, z = self._axes()
        size = offset.shape[1:4]
        identity = torch.stack([x.expand(size), y[:, None].expand(size), z[:, None, None].expand(size)], dim=-1)
        return identity + offset

    def forward(self, volume: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> tuple[Tensor, Tensor]:
        """Flow and occlusion map.

        Args:
            volume: (B, C, D, h, w).
            source_keypoints: (B, 21, 3), float32, -1..1 across the crop.
            driving_keypoints: (B, 21, 3), float32.

        Returns:
            Flow (B, D, h, w, 3), float32, for ``grid_sample(align_corners=False)``; occlusion (B, 1, h, w), float32,
            1 where the source can be seen.
        """
        compressed = self.compress_volume(volume)
        with without_autocast(volume):
            heat = self.heat_maps(source_keypoints, driving_keypoints)
            moved = self.deform(compressed.float(), source_keypoints, driving_keypoints)
            candidates = torch.cat([heat[:, :, None], moved], dim=2).flatten(1, 2)
        features = self.hourglass(candidates.to(volume.dtype))
        logits, occlusion = self.mask(features), self.occlusion(features.flatten(1, 2))
        with without_autocast(volume):
            flow = self.flow(logits.float().softmax(dim=1), source_keypoints, driving_keypoints)
            return self._enlarge(flow, torch.sigmoid(occlusion.float()))

    def _enlarge(self, flow: Tensor, occlusion: Tensor) -> tuple[Tensor, Tensor]:
        size = self.config.volume_px
        if size == self.config.dense_motion.motion_grid_px:
            return flow, occlusion
        channels_first = flow.permute(0, 4, 1, 2, 3)
        large = functional.interpolate(channels_first, size=(self.config.volume_depth, size, size), mode="trilinear")
        occlusion = functional.interpolate(occlusion, size=(size, size), mode="bilinear")
        return large.permute(0, 2, 3, 4, 1), occlusion


class WarpingNetwork(nn.Module):
    """Moves the source's features to the driving keypoints.

    Args:
        config: widths.
    """

    def __init__(self, config: WarpConfig) -> None:
        """Build the layers."""
        super().__init__()
        self.config = config
        self.dense_motion_network = DenseMotionNetwork(config)
        self.third = ConvNorm2d(
            config.learned_channels * config.volume_depth, config.learned_features, negative_slope=0.01
        )
        self.fourth = nn.Conv2d(config.learned_features, config.learned_features, 1)
        if config.picture_px is not None:
            self.picture = PictureWarp(config.learned_features, config.volume_depth)

    def forward(self, volume: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        """Feature image.

        Args:
            volume: (B, C, D, h, w), any floating dtype.
            source_keypoints: (B, 21, 3), float32.
            driving_keypoints: (B, 21, 3), float32.

        Returns:
            (B, feature_channels, h, w).
        """
        volume, carried = volume.to(self.fourth.weight.dtype).split_with_sizes(
            [self.config.learned_channels, volume.shape[1] - self.config.learned_channels], dim=1
        )
        flow, occlusion = self.dense_motion_network(volume, source_keypoints, driving_keypoints)
        with without_autocast(volume):
            moved = functional.grid_sample(volume.float(), flow, align_corners=False).to(volume.dtype)
        third = self.third(moved.flatten(1, 2))
        feature: Tensor = self.fourth(third)
        feature = feature * occlusion.to(feature.dtype)
        if self.config.picture_px is None:
            return feature
        picture = self.picture(unfold_picture(carried.flatten(1, 2)), third, self._shift(flow))
        return torch.cat([feature, fold_picture(picture, self.config.volume_px).to(feature.dtype)], dim=1)

    def _shift(self, flow: Tensor) -> Tensor:
        """How far the flow reads from where it writes, across and down: (B, D, h, w, 3) -> (B, D, h, w, 2)."""
        axis = self.dense_motion_network.axis_px
        here = functional.interpolate(axis[None, None], size=self.config.volume_px, mode="linear")[0, 0]
        return flow[..., :2] - torch.stack([here.expand(len(here), -1), here[:, None].expand(-1, len(here))], dim=-1)
