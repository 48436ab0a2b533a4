"""The steps that warp and decoder are made of, in plain torch: any device, any floating dtype.

Tensors are channels last, (B, D, H, W, C), and outputs are written into views that the caller gives, so that a step can
fill a slice of a concatenation. :mod:`newsstudio_ditto.render.fast.kernel_operators` has the same steps as kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from newsstudio_ditto.networks.warp import HEAT_VARIANCE, interpolation_matrix
from newsstudio_ditto.render.fast.kernels import Axis, Kernel

NORM_EPS = 1e-5


@dataclass(frozen=True, eq=False)
class Convolution:
    """Sum of convolutions of one or several inputs, and a bias.

    Args:
        kernels: one per input, all with the same output channels and output grid.
        bias: (N,), or (phases of y, phases of x, N); float32 unless everything is float64. Or none.
    """

    kernels: tuple[Kernel, ...]
    bias: Tensor | None = None

    @property
    def num_outputs(self) -> int:
        """N."""
        return self.kernels[0].num_outputs


@dataclass(frozen=True)
class GridShape:
    """Shape of the motion grid.

    Args:
        depth: D.
        px: height and width.
        motions: candidate motions, the identity first.
    """

    depth: int
    px: int
    motions: int


class TorchOperators:
    """Every step as torch operations."""

    def prepare(self, convolution: Convolution, dtype: torch.dtype) -> Convolution:
        """A convolution with its weights in ``dtype`` and in the layout that :meth:`convolve` reads."""
        kernels = tuple(kernel.to(dtype) for kernel in convolution.kernels)
        bias = convolution.bias
        if bias is not None and dtype != torch.float64:
            bias = bias.float()
        return replace(convolution, kernels=kernels, bias=bias)

    def convolve(
        self,
        inputs: Sequence[Tensor],
        convolution: Convolution,
        out: Tensor,
        *,
        slope: float = 1.0,
        residual: Tensor | None = None,
        scale: Tensor | None = None,
        rest: Tensor | None = None,
        with_moments: bool = False,
    ) -> Tensor | None:
        """``out`` = leaky(sum of convolutions + bias + residual) * scale.

        Args:
            inputs: (B, D, H, W, C_i), one per kernel.
            convolution: from :meth:`prepare`.
            out: (B, D', s H, s W, N), s from the kernels' axes; positions that no axis names are left alone.
            slope: below zero; 1 leaves values as they are, 0 is the plain rectifier.
            residual: (B, D', s H, s W, N), or a whole factor smaller in height and width and then enlarged.
            scale: (B, H, W) float32, of outputs that have the input's size and D' = 1.
            rest: takes the output channels for which ``out`` has no room; only without residual, scale and moments.
            with_moments: return mean and inverse deviation of every channel, (B, 2, N).
        """
        if rest is not None:
            room, total = out.shape[-1], out.new_empty(*out.shape[:-1], convolution.num_outputs)
            self.convolve(inputs, convolution, total, slope=slope)
            out.copy_(total[..., :room])
            rest[..., : total.shape[-1] - room] = total[..., room:]
            return None
        _convolve(inputs, convolution, out)
        if residual is not None:
            out += _enlarge(residual, out.shape[2] // residual.shape[2])
        if slope != 1.0:
            out.copy_(functional.leaky_relu(out, slope))
        if scale is not None:
            out *= scale[:, None, :, :, None].to(out.dtype)
        return _moments(out) if with_moments else None

    def modulate(
        self, hidden: Tensor, convolution: Convolution, x: Tensor, moments: Tensor, out: Tensor, *, slope: float
    ) -> None:
        """SPADE: ``out`` = leaky((x - mean) / deviation * gamma + beta).

        Args:
            hidden: (B, 1, H, W, hidden channels), what gamma and beta are convolved from.
            convolution: with gamma and beta of each channel side by side (2 N outputs), or gamma alone (N); the
                gammas' bias includes the one that is added to them.
            x: (B, 1, H / f, W / f, N), enlarged f times by repetition.
            moments: (B, 2, N) of ``x``.
            out: (B, 1, H, W, N).
            slope: below zero.
        """
        channels = out.shape[-1]
        maps = out.new_empty(*out.shape[:-1], convolution.num_outputs)
        _convolve([hidden], convolution, maps)
        mean, inverse = moments[:, :, None, None, None].unbind(1)
        normal = _enlarge((x - mean) * inverse, out.shape[2] // x.shape[2])
        if convolution.num_outputs == channels:
            result = normal * maps
        else:
            gamma, beta = maps[..., ::2], maps[..., 1::2]
            result = normal * gamma + beta
        out.copy_(functional.leaky_relu(result, slope))

    def paint(self, x: Tensor, convolution: Convolution, image: Tensor) -> None:
        """``image`` (B, 3, 2 H, 2 W) = sigmoid of the pixel-shuffled convolution of x (B, 1, H, W, C)."""
        parts = x.new_empty(*x.shape[:-1], convolution.num_outputs)
        _convolve([x], convolution, parts)
        image.copy_(functional.pixel_shuffle(parts[:, 0].permute(0, 3, 1, 2), 2).sigmoid())

    def halve(self, x: Tensor, out: Tensor) -> None:
        """Mean of every 1x2x2 cells: (B, D, H, W, C) -> (B, D, H / 2, W / 2, C)."""
        pooled = functional.avg_pool3d(x.permute(0, 4, 1, 2, 3), (1, 2, 2))
        out.copy_(pooled.permute(0, 2, 3, 4, 1))

    def compress(self, volume: Tensor, weight: Tensor, bias: Tensor, grid: GridShape) -> tuple[Tensor, Tensor]:
        """Channels-last copy of the volume (B, C, D, h, w), and its few channels on the motion grid (B, D, g, g, c)."""
        shrink = volume.shape[-1] // grid.px
        small = functional.avg_pool3d(volume, (1, shrink, shrink)) if shrink > 1 else volume
        few = torch.einsum("jc,bcdhw->bdhwj", weight.to(volume.dtype), small)
        few = functional.relu(few + bias.to(volume.dtype))
        return volume.permute(0, 2, 3, 4, 1).contiguous(), few

    def candidates(
        self,
        compressed: Tensor,
        source_keypoints: Tensor,
        driving_keypoints: Tensor,
        grid: GridShape,
        outs: Sequence[Tensor],
    ) -> None:
        """Heat maps of all K candidate motions, then for each of them the volume that it moves.

        Args:
            compressed: (B, D, g, g, c).
            source_keypoints: (B, K - 1, 3) float32.
            driving_keypoints: (B, K - 1, 3) float32.
            grid: shape of the motion grid.
            outs: one or two views that take (B, D, g, g, K + K c), channels within a motion.
        """
        axes = _axes(grid, source_keypoints)

        def gaussians(keypoints: Tensor) -> Tensor:
            x, y, z = (
                torch.exp(-((axis - keypoints[..., i, None]) ** 2) / (2 * HEAT_VARIANCE)) for i, axis in enumerate(axes)
            )
            return torch.einsum("bkz,bky,bkx->bzyxk", z, y, x)

        heat = functional.pad(gaussians(driving_keypoints) - gaussians(source_keypoints), (1, 0))
        shift = functional.pad(source_keypoints - driving_keypoints, (0, 0, 1, 0))
        x, y, z = (interpolation_matrix(axis + shift[..., i, None], len(axis)) for i, axis in enumerate(axes))
        moved = torch.einsum("bdhwc,bkxw->bkcdhx", compressed.to(x.dtype), x)
        moved = torch.einsum("bkcdhx,bkyh->bkcdyx", moved, y)
        moved = torch.einsum("bkcdyx,bkzd->bzyxkc", moved, z)
        whole, start = torch.cat([heat, moved.flatten(-2)], dim=-1), 0
        for out in outs:
            out.copy_(whole[..., start : start + out.shape[-1]])
            start += out.shape[-1]

    def visibility(self, parts: Tensor, bias: Tensor, kernel: int) -> Tensor:
        """Occlusion map (B, g, g) from what every tap (B, 1, g, g, kernel**2) adds, before shifting."""
        size, reach = parts.shape[2], kernel // 2
        padded = functional.pad(parts[:, 0], (0, 0, reach, reach, reach, reach))
        total = bias.to(padded.dtype).expand(parts.shape[0], size, size)
        for y in range(kernel):
            for x in range(kernel):
                total = total + padded[:, y : y + size, x : x + size, y * kernel + x]
        return total.sigmoid()

    def flow(
        self, parts: Tensor, bias: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor, grid: GridShape
    ) -> Tensor:
        """Sampling grid (B, D, g, g, 3), (x, y, z) last.

        Args:
            parts: (B, D, g, g, k * K or more), what each of the k taps of z adds to the mask's K logits.
            bias: (K,) of the logits.
            source_keypoints: (B, K - 1, 3) float32.
            driving_keypoints: (B, K - 1, 3) float32.
            grid: shape of the motion grid.
        """
        dtype = source_keypoints.dtype
        taps, depth = parts.shape[-1] // grid.motions, grid.depth
        parts = parts[..., : taps * grid.motions].to(dtype).reshape(*parts.shape[:-1], taps, grid.motions)
        padded = functional.pad(parts, (0, 0, 0, 0, 0, 0, 0, 0, taps // 2, taps // 2))
        logits = bias.to(dtype) + sum(padded[:, tap : tap + depth, :, :, tap] for tap in range(taps))
        shift = functional.pad(source_keypoints - driving_keypoints, (0, 0, 1, 0))
        offset = torch.einsum("bzyxk,bkc->bzyxc", logits.softmax(-1), shift)
        x, y, z = _axes(grid, source_keypoints)
        size = offset.shape[1:4]
        identity = torch.stack([x.expand(size), y[:, None].expand(size), z[:, None, None].expand(size)], dim=-1)
        return identity + offset

    def move(
        self,
        volume: Tensor,
        parts: Tensor,
        bias: Tensor,
        source_keypoints: Tensor,
        driving_keypoints: Tensor,
        grid: GridShape,
        out: Tensor,
    ) -> None:
        """Sample the volume (B, D, h, w, C) along the flow of :meth:`flow`: ``out`` (B, 1, h, w, D C)."""
        flow = self.flow(parts, bias, source_keypoints, driving_keypoints, grid)
        size = volume.shape[2]
        if size != grid.px:
            first = flow.permute(0, 4, 1, 2, 3)
            flow = functional.interpolate(first, size=(grid.depth, size, size), mode="trilinear").permute(0, 2, 3, 4, 1)
        moved = functional.grid_sample(volume.permute(0, 4, 1, 2, 3).to(flow.dtype), flow, align_corners=False)
        out[:, 0] = moved.permute(0, 3, 4, 2, 1).flatten(-2)

    def enlarge_map(self, visible: Tensor, size: int) -> Tensor:
        """Map (B, g, g) at (B, size, size)."""
        if visible.shape[-1] == size:
            return visible
        return functional.interpolate(visible[:, None], size=(size, size), mode="bilinear")[:, 0]


def _axes(grid: GridShape, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    px = torch.linspace(-1, 1, grid.px, dtype=like.dtype, device=like.device)
    return px, px, torch.linspace(-1, 1, grid.depth, dtype=like.dtype, device=like.device)


def _enlarge(x: Tensor, factor: int) -> Tensor:
    return x if factor == 1 else x.repeat_interleave(factor, 2).repeat_interleave(factor, 3)


def _moments(x: Tensor) -> Tensor:
    wide = x if x.dtype == torch.float64 else x.float()
    variance, mean = torch.var_mean(wide, dim=(1, 2, 3), correction=0)
    return torch.stack([mean, torch.rsqrt(variance + NORM_EPS)], dim=1)


def _reach(x: Tensor, axis: Axis, phase: int, dim: int, length: int) -> Tensor:
    """Rows that a phase reads for ``length`` outputs, zero outside."""
    first = axis.first_tap(phase)
    before, after = max(0, -first), max(0, first + length + axis.taps - 1 - x.shape[dim])
    pads = [0, 0] * (x.dim() - 1 - dim) + [before, after]
    return functional.pad(x, pads).narrow(dim, first + before, length + axis.taps - 1)


def _convolve(inputs: Sequence[Tensor], convolution: Convolution, out: Tensor) -> None:
    first = convolution.kernels[0]
    for row in range(first.y.phases):
        for column in range(first.x.phases):
            total: Tensor | None = None
            for x, kernel in zip(inputs, convolution.kernels, strict=True):
                part = _phase(x, kernel, row, column, out)
                total = part if total is None else total + part
            assert total is not None
            if convolution.bias is not None:
                total = total + convolution.bias.expand(first.y.phases, first.x.phases, -1)[row, column].to(total.dtype)
            for y_target in first.y.targets(row):
                for x_target in first.x.targets(column):
                    view = out[:, :, y_target :: first.y.scale, x_target :: first.x.scale]
                    view[..., : total.shape[-1]] = total


def _phase(x: Tensor, kernel: Kernel, row: int, column: int, out: Tensor) -> Tensor:
    rows, columns = out.shape[2] // kernel.y.scale, out.shape[3] // kernel.x.scale
    x = _reach(x, kernel.z, 0, 1, out.shape[1])
    x = _reach(_reach(x, kernel.y, row, 2, rows), kernel.x, column, 3, columns)
    weight = kernel.weight[row, column].permute(0, 4, 1, 2, 3)
    return functional.conv3d(x.permute(0, 4, 1, 2, 3), weight).permute(0, 2, 3, 4, 1)
