"""The steps of :mod:`newsstudio_ditto.render.fast.operators` as kernels, for float16 on Hopper."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from triton.experimental.gluon.language import NVMMASharedLayout
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from newsstudio_ditto.networks.warp import HEAT_VARIANCE
from newsstudio_ditto.render.fast import gluon_kernels, triton_kernels
from newsstudio_ditto.render.fast.kernels import Axis, Kernel
from newsstudio_ditto.render.fast.operators import (
    NORM_EPS,
    Convolution,
    GridShape,
    TorchOperators,
)
from newsstudio_ditto.render.fast.tiles import (
    BLOCK_K,
    Tile,
    box,
    choose_tile,
    thread_order,
)


@dataclass(frozen=True, eq=False)
class PackedConvolution(Convolution):
    """A convolution with its weights as matrices.

    Args:
        matrices: one per kernel, (phases * padded N, taps * blocks of input channels), zero where padded.
        blocks: one per kernel, blocks of input channels.
        padded: rows of a phase.
        flat_bias: (phases, N) float32, or none.
    """

    matrices: tuple[Tensor, ...] = ()
    blocks: tuple[int, ...] = ()
    padded: int = 0
    flat_bias: Tensor | None = None


class KernelOperators(TorchOperators):
    """Every step as a kernel; a step that no kernel fits runs as torch operations."""

    def __init__(self) -> None:
        """Nothing is packed yet."""
        self._ordered: dict[tuple[int, int, int], Tensor] = {}

    def launcher(self, kernel: Any, programs: tuple[int, ...]) -> Any:
        """What to call with a kernel's arguments to run it as so many programs."""
        return kernel[programs]

    def prepare(self, convolution: Convolution, dtype: torch.dtype) -> PackedConvolution:
        """A convolution with packed weights, and without the others."""
        first = convolution.kernels[0]
        phases = first.y.phases * first.x.phases
        padded = -(-convolution.num_outputs // 256) * 256
        packed = [_pack(kernel, padded, dtype) for kernel in convolution.kernels]
        bias = None
        if convolution.bias is not None:
            bias = convolution.bias.float().expand(first.y.phases, first.x.phases, -1).reshape(phases, -1).contiguous()
        shapes = tuple(
            replace(
                kernel,
                weight=kernel.weight.new_empty(0).expand(*kernel.weight.shape[:-1], 0),
            )
            for kernel in convolution.kernels
        )
        return PackedConvolution(
            shapes,
            convolution.bias,
            tuple(m for m, _ in packed),
            tuple(b for _, b in packed),
            padded,
            bias,
        )

    def _matrix(self, matrix: Tensor, tile: Tile) -> Tensor:
        key = (matrix.data_ptr(), tile.columns, tile.tail)
        found = self._ordered.get(key)
        if found is None:
            width = tile.columns + tile.tail
            order = [
                *thread_order(tile.columns),
                *(tile.columns + place for place in thread_order(tile.tail)),
            ]
            rows = torch.arange(matrix.shape[0], device=matrix.device)
            whole = 256 // width * width if tile.tail else 256
            index = torch.tensor(order, device=matrix.device)
            phase, place = rows // 256, rows % 256
            ordered = torch.where(place < whole, place // width * width + index[place % width], place)
            self._ordered[key] = found = matrix[phase * 256 + ordered].contiguous()
        return found

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
        """See :meth:`TorchOperators.convolve`."""
        assert isinstance(convolution, PackedConvolution)
        first, outputs = convolution.kernels[0], convolution.num_outputs
        batch, depth = out.shape[:2]
        height, width = out.shape[2] // first.y.scale, out.shape[3] // first.x.scale
        phases = first.y.phases * first.x.phases
        tile = choose_tile((batch, depth, height, width), outputs, phases, has_tail=len(inputs) < 3)
        shape = box(tile.group_rows, depth, height, width)
        pairs = [
            _descriptors(x, self._matrix(m, tile), shape, tile.columns)
            for x, m in zip(inputs, convolution.matrices, strict=True)
        ]
        tails = [
            _weights(self._matrix(m, tile), tile.tail) if tile.tail else w
            for m, (_, w) in zip(convolution.matrices, pairs, strict=True)
        ]
        sources = [(*pair, tail) for pair, tail in zip(pairs, tails, strict=True)]
        sources += [sources[0]] * (3 - len(sources))
        tiles = -(-depth // shape[0]) * (height // shape[1]) * (width // shape[2])
        partial = out.new_empty(batch, tiles, 2, outputs, dtype=torch.float32) if with_moments else out
        extra = out if residual is None else residual
        total = -(-outputs // (tile.columns + tile.tail)) * phases * batch * (tiles // tile.groups)
        self.launcher(gluon_kernels.convolve, (min(total, _programs(out.device, tile)),))(
            *sources[0], *sources[1], *sources[2][:2], out, out if rest is None else rest,
            out if convolution.flat_bias is None else convolution.flat_bias, extra,
            out if scale is None else scale, partial,
            *out.stride()[:4], *(out if rest is None else rest).stride()[:4], *extra.stride()[:4],
            depth, height, width, outputs, total,
            *shape, tile.columns, BLOCK_K, tile.tail, tile.stages, 4,
            first.y.taps, first.x.taps, convolution.blocks[0],
            first.z.taps * first.y.taps * first.x.taps * convolution.blocks[0], first.z.offset,
            *_axis(first.y), *_axis(first.x), *_second(convolution), *_square(convolution, 2),
            slope, convolution.flat_bias is not None, residual is not None,
            0 if residual is None else (out.shape[2] // residual.shape[2]).bit_length() - 1,
            scale is not None, with_moments, rest is not None, convolution.padded, tile.groups, num_warps=4,
        )  # fmt: skip
        if not with_moments:
            return None
        moments = out.new_empty(batch, 2, outputs, dtype=torch.float32)
        self.launcher(triton_kernels.gather_moments, (batch, -(-outputs // 32)))(
            partial,
            moments,
            outputs,
            tile.group_rows,
            NORM_EPS,
            tiles,
            BT=32,
            BC=32,
        )
        return moments

    def modulate(
        self,
        hidden: Tensor,
        convolution: Convolution,
        x: Tensor,
        moments: Tensor,
        out: Tensor,
        *,
        slope: float,
    ) -> None:
        """See :meth:`TorchOperators.modulate`."""
        assert isinstance(convolution, PackedConvolution)
        batch, _, height, width, channels = out.shape
        tile = choose_tile((batch, 1, height, width), convolution.num_outputs, 1, has_tail=False)
        shape = box(tile.group_rows, 1, height, width)
        a, w = _descriptors(hidden, self._matrix(convolution.matrices[0], tile), shape, tile.columns)
        total = -(-convolution.num_outputs // tile.columns) * batch * (height * width // tile.rows)
        self.launcher(gluon_kernels.modulate, (min(total, _programs(out.device, tile)),))(
            a, w, x, moments, convolution.flat_bias, out,
            x.stride(0), x.stride(2), x.stride(3), out.stride(0), out.stride(2), out.stride(3),
            height, width, channels, total,
            *shape[1:], tile.columns, BLOCK_K, tile.stages, 4, convolution.blocks[0],
            9 * convolution.blocks[0], (height // x.shape[2]).bit_length() - 1,
            convolution.num_outputs != channels, slope, tile.groups, num_warps=4,
        )  # fmt: skip

    def paint(self, x: Tensor, convolution: Convolution, image: Tensor) -> None:
        """See :meth:`TorchOperators.paint`."""
        batch, depth, height, width, _ = x.shape
        parts = x.new_empty(batch, depth, height, width, 16)
        self.convolve([x], convolution, parts)
        self.launcher(triton_kernels.shuffle, (-(-2 * width // 256), 2 * height, batch))(
            parts, image, height, width, 16, BX=256
        )

    def halve(self, x: Tensor, out: Tensor) -> None:
        """See :meth:`TorchOperators.halve`."""
        batch, depth, height, width, channels = out.shape
        block = min(128, triton.next_power_of_2(channels))
        pixels = 4096 // block
        self.launcher(triton_kernels.halve, (-(-depth * height * width // pixels), -(-channels // block), batch))(
            x,
            out,
            *x.stride()[:4],
            *out.stride()[:4],
            depth,
            height,
            width,
            channels,
            BP=pixels,
            BC=block,
        )

    def compress(self, volume: Tensor, weight: Tensor, bias: Tensor, grid: GridShape) -> tuple[Tensor, Tensor]:
        """See :meth:`TorchOperators.compress`."""
        if volume.shape[-1] != grid.px:
            return super().compress(volume, weight, bias, grid)
        volume = volume.contiguous()
        batch, channels, depth, height, width = volume.shape
        last = volume.new_empty(batch, depth, height, width, channels)
        few = volume.new_empty(batch, depth, height, width, len(weight))
        cells = depth * height * width
        self.launcher(triton_kernels.compress, (-(-cells // 128), batch))(
            volume, weight, bias, last, few, cells, channels,
            FEW=len(weight), ROWS=max(16, triton.next_power_of_2(len(weight))),
            BC=max(16, triton.next_power_of_2(channels)), BS=128,
        )  # fmt: skip
        return last, few

    def candidates(
        self,
        compressed: Tensor,
        source_keypoints: Tensor,
        driving_keypoints: Tensor,
        grid: GridShape,
        outs: Sequence[Tensor],
    ) -> None:
        """See :meth:`TorchOperators.candidates`."""
        batch, few = compressed.shape[0], compressed.shape[-1]
        out, rest = outs[0], outs[-1]
        self.launcher(triton_kernels.candidates, (-(-grid.px // 32), grid.depth * grid.px, batch))(
            compressed, source_keypoints.contiguous(), driving_keypoints.contiguous(), out, rest,
            *out.stride()[:4], *rest.stride()[:4],
            grid.depth, grid.px, grid.motions, few, out.shape[-1], 32,
            triton.next_power_of_2(grid.motions), triton.next_power_of_2(few), -0.5 / HEAT_VARIANCE,
        )  # fmt: skip

    def visibility(self, parts: Tensor, bias: Tensor, kernel: int) -> Tensor:
        """See :meth:`TorchOperators.visibility`."""
        batch, _, size, _, channels = parts.shape
        out = parts.new_empty(batch, size, size)
        self.launcher(triton_kernels.visibility, (-(-size // 16), size, batch))(
            parts,
            bias,
            out,
            channels,
            size,
            K=kernel,
            BX=16,
            BT=triton.next_power_of_2(kernel**2),
        )
        return out

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
        """See :meth:`TorchOperators.move`."""
        batch, depth, size, _, channels = volume.shape
        if size != grid.px:
            return super().move(volume, parts, bias, source_keypoints, driving_keypoints, grid, out)
        self.launcher(triton_kernels.move, (-(-size // 32), depth * size, batch))(
            volume, parts, bias, source_keypoints.contiguous(), driving_keypoints.contiguous(), out,
            parts.shape[-1], out.stride(0), out.stride(2), out.stride(3),
            depth, size, grid.motions, parts.shape[-1] // grid.motions, channels,
            32, triton.next_power_of_2(grid.motions), triton.next_power_of_2(channels),
        )  # fmt: skip
        return None


def _pack(kernel: Kernel, padded: int, dtype: torch.dtype) -> tuple[Tensor, int]:
    """Rows of phases and output channels, columns of taps and blocks of input channels."""
    weight = kernel.weight
    rows, columns, outputs, _z, _y, _x, channels = weight.shape
    blocks = -(-channels // BLOCK_K)
    matrix = weight.new_zeros(rows * columns, padded, _z * _y * _x, blocks * BLOCK_K, dtype=dtype)
    matrix[:, :outputs, :, :channels] = weight.reshape(rows * columns, outputs, _z * _y * _x, channels).to(dtype)
    return matrix.reshape(rows * columns * padded, -1), blocks


def _axis(axis: Axis) -> tuple[int, ...]:
    return (
        axis.phases, axis.offset, axis.offset_step, axis.scale, axis.target, axis.target_step, axis.copies,
    )  # fmt: skip


def _second(convolution: PackedConvolution) -> tuple[int, ...]:
    """Taps of y and x, blocks, steps and first taps of the second input."""
    if len(convolution.kernels) < 2:
        return 1, 1, 1, 0, 0, 0, 0
    kernel, blocks = convolution.kernels[1], convolution.blocks[1]
    steps = kernel.z.taps * kernel.y.taps * kernel.x.taps * blocks
    return kernel.y.taps, kernel.x.taps, blocks, steps, kernel.z.offset, kernel.y.offset, kernel.x.offset


def _square(convolution: PackedConvolution, index: int) -> tuple[int, int, int]:
    if index >= len(convolution.kernels):
        return 1, 1, 0
    taps, blocks = convolution.kernels[index].y.taps, convolution.blocks[index]
    return taps, blocks, taps * taps * blocks


_SHARED_BYTES = 227 * 1024


def _programs(device: torch.device, tile: Tile) -> int:
    """Programs that the card holds at once."""
    ring = tile.stages * (tile.rows + tile.columns + tile.tail) * BLOCK_K * 2 + 1024
    return _multiprocessors(device) * max(1, min(_SHARED_BYTES // ring, 3 - tile.groups))


@cache
def _multiprocessors(device: torch.device) -> int:
    count: int = torch.cuda.get_device_properties(device).multi_processor_count
    return count


def _weights(matrix: Tensor, columns: int) -> Any:
    layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), [columns, BLOCK_K], layout)


def _descriptors(x: Tensor, matrix: Tensor, shape: tuple[int, int, int], columns: int) -> tuple[Any, Any]:
    layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=5)
    a = TensorDescriptor(x, list(x.shape), list(x.stride()), [1, *shape, BLOCK_K], layout)
    return a, _weights(matrix, columns)
