"""The source picture that a feature volume may carry, so that warp and decoder can copy what does not change.

It is folded into cells of the volume's size: 512 px in 64 cells make 3 x 8 x 8 values per cell, spread over the depth.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.networks.layers import channels_last, without_autocast

PICTURE_COLOURS = 3
_SLOPE = 0.2
_HIDDEN, _REFINED = 32, 64
_LOGIT_MARGIN = 0.01


def fold_picture(picture: Tensor, cells: int) -> Tensor:
    """Picture (B, 3, P, P) -> values of its cells (B, 3 (P / cells)**2, cells, cells)."""
    return functional.pixel_unshuffle(picture, picture.shape[-1] // cells)


def unfold_picture(values: Tensor) -> Tensor:
    """Values of cells (B, 3 k k, h, w) -> picture (B, 3, k h, k w)."""
    return functional.pixel_shuffle(values, round((values.shape[1] // PICTURE_COLOURS) ** 0.5))


def cell_centres(size: int, device: torch.device) -> Tensor:
    """Coordinates (size,) of the centres of cells, in the ``align_corners=False`` manner of ``grid_sample``."""
    return (torch.arange(size, device=device, dtype=torch.float32) * 2 + 1) / size - 1


class PictureWarp(nn.Module):
    """Moves the source picture by the flow of the volume, corrected where depth alone does not say which flow holds.

    Args:
        feature_channels: of the moved features that it looks at.
        depth: D of the volume.
    """

    def __init__(self, feature_channels: int, depth: int) -> None:
        """Build the layers."""
        super().__init__()
        self.first = nn.Conv2d(feature_channels + 2 * depth, _HIDDEN, 3, padding=1)
        self.second = nn.Conv2d(_HIDDEN, _REFINED, 3, padding=1)
        self.third = nn.Conv2d(_REFINED, _HIDDEN, 3, padding=1)
        self.last = nn.Conv2d(_HIDDEN, depth + 2, 3, padding=1)

    def forward(self, picture: Tensor, features: Tensor, shift: Tensor) -> Tensor:
        """The picture as the driving keypoints want it.

        Args:
            picture: (B, 3, P, P).
            features: (B, feature_channels, h, w), moved already.
            shift: (B, D, h, w, 2), float32: where the flow reads, relative to where it writes; half the crop is 1.

        Returns:
            (B, 3, P, P), float32.
        """
        batch, depth, height, width, _ = shift.shape
        planes = shift.permute(0, 1, 4, 2, 3).reshape(batch, 2 * depth, height, width)
        hidden = functional.leaky_relu(self.first(torch.cat([features, planes.to(features.dtype)], 1)), _SLOPE)
        hidden = hidden + self.third(functional.leaky_relu(self.second(hidden), _SLOPE))
        logits, correction = self.last(hidden).split((depth, 2), dim=1)
        with without_autocast(picture):
            share = logits.float().softmax(dim=1)
            moved = torch.einsum("bdhw,bdhwc->bchw", share, shift) + correction.float()
            size = picture.shape[-1]
            fine = functional.interpolate(moved, size=(size, size), mode="bilinear")
            centres = cell_centres(size, picture.device)
            grid = fine.permute(0, 2, 3, 1) + torch.stack(
                [centres.expand(size, size), centres[:, None].expand(size, size)], -1
            )
            return functional.grid_sample(
                picture.float(), grid, mode="bicubic", padding_mode="border", align_corners=False
            )


class PictureSkip(nn.Module):
    """What the decoder adds to its own picture from the moved source picture, at half the output's size.

    Args:
        channels: of the decoder's features at that size.
        fold: pixels of the source picture a side under one of those features.
    """

    def __init__(self, channels: int, fold: int) -> None:
        """Build the layers."""
        super().__init__()
        self.fold = fold
        values = PICTURE_COLOURS * fold**2
        self.first = nn.Conv2d(channels + values, _HIDDEN, 3, padding=1)
        self.second = nn.Conv2d(_HIDDEN, _HIDDEN, 3, padding=1)
        self.gate = nn.Conv2d(_HIDDEN, fold**2, 3, padding=1)
        self.last = nn.Conv2d(_HIDDEN + values, PICTURE_COLOURS * 4, 3, padding=1)

    def forward(self, x: Tensor, picture: Tensor) -> Tensor:
        """Logits (B, 12, s, s) to add before the last doubling.

        Args:
            x: (B, channels, s, s) features.
            picture: (B, 3, fold s, fold s), 0..1; it enters as logits, so that copying is linear, and a gate for every
                pixel says where it is of use: not inside a mouth that was closed, or on a lid that was open.
        """
        logits = torch.logit(picture.float(), eps=_LOGIT_MARGIN).to(x.dtype)
        logits = channels_last(functional.pixel_unshuffle(logits, self.fold))
        hidden = functional.leaky_relu(self.first(torch.cat([x, logits], 1)), _SLOPE)
        hidden = functional.leaky_relu(self.second(hidden), _SLOPE)
        gate = self.gate(hidden).sigmoid()
        gated = [gate * colour for colour in logits.chunk(PICTURE_COLOURS, dim=1)]
        added: Tensor = self.last(torch.cat([hidden, *gated], 1))
        return added
