"""The warp for inference, channels last.

What changes against :class:`~newsstudio_ditto.networks.warp.WarpingNetwork`, all of it exact:

* batch norms are folded into the convolutions before them;
* a doubling by repetition and the convolution after it are four small kernels on the small volume;
* each level writes straight into its half of a concatenation;
* the mask convolution's taps along the depth become output channels: 22 channels fit no matrix unit, 7 x 22 do. The
  seven parts are added up where the softmax reads them;
* the occlusion convolution has one output, so all of its taps become output channels, added up afterwards;
* softmax, flow and sampling are one step, so neither mask nor flow is stored.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from newsstudio_ditto.networks.layers import ConvNorm3d
from newsstudio_ditto.networks.warp import NUM_MOTIONS, WarpingNetwork
from newsstudio_ditto.render.fast.kernels import (
    DOUBLED,
    SINGLE,
    Axis,
    Kernel,
    enlarged_kernel,
    fold_norm,
    place_inputs,
    plain_kernel,
    split_inputs,
    windows,
)
from newsstudio_ditto.render.fast.operators import Convolution, GridShape, TorchOperators

_ALIGNMENT = 8
"""Channels start at multiples of this inside a concatenation, so that every slice is aligned to 16 bytes in float16."""


def _round_up(channels: int) -> int:
    return -(-channels // _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True)
class _Joint:
    """A concatenation: what the level below gives, then the level's own volume.

    Args:
        low_channels: from below.
        skip_channels: of the level itself.
        skip_order: where the level's own channels lie, relative to the first of them.
    """

    low_channels: int
    skip_channels: int
    skip_order: tuple[int, ...]

    @property
    def skip_start(self) -> int:
        return _round_up(self.low_channels)

    @property
    def channels(self) -> int:
        return self.skip_start + _round_up(self.skip_channels)

    def positions(self, device: torch.device) -> Tensor:
        """Where the channels of the plain network's concatenation lie."""
        order = [*range(self.low_channels), *(self.skip_start + place for place in self.skip_order)]
        return torch.tensor(order, device=device)


@dataclass(frozen=True, eq=False)
class _Parted:
    """A volume (B, D, g, g, C) in two buffers, for convolutions that are wide along x.

    Args:
        aligned: (B, D, g, g, 64 n), the first channels; rows of whole blocks, which are read fastest.
        rest: (B, D, g, g + 2 margin, others), zero in the margin.
        margin: columns on both sides of ``rest``.
    """

    aligned: Tensor
    rest: Tensor
    margin: int

    def inputs(self, taps: int) -> list[Tensor]:
        """What the kernels of ``split_inputs`` read."""
        start = self.margin - taps // 2
        found = [self.aligned] if self.aligned.shape[-1] else []
        if self.rest.shape[-1]:
            found.append(windows(self.rest[:, :, :, start : self.rest.shape[3] - start], taps))
        return found

    def channels(self, start: int, stop: int) -> list[Tensor]:
        """One or two views of some channels."""
        room = self.aligned.shape[-1]
        inner = self.rest[:, :, :, self.margin : self.rest.shape[3] - self.margin]
        views = [self.aligned[..., start : min(stop, room)], inner[..., max(start - room, 0) : max(stop - room, 0)]]
        return [view for view in views if view.shape[-1]]


_BLOCK = 64


def _aligned(channels: int) -> int:
    """How many channels of a volume lie in whole blocks; none if more than a quarter of a block would remain."""
    return channels // _BLOCK * _BLOCK if channels % _BLOCK <= _BLOCK // 4 else 0


def _candidate_order(channels: int) -> tuple[int, ...]:
    """All heat maps first, where the plain network has each motion's before its ``channels``."""
    order = []
    for motion in range(NUM_MOTIONS):
        order += [motion, *(NUM_MOTIONS + motion * channels + channel for channel in range(channels))]
    return tuple(order)


class FastWarp:
    """A :class:`~newsstudio_ditto.networks.warp.WarpingNetwork`, prepared for one device.

    Args:
        network: on its device, in the dtype to run in.
        operators: the steps.
    """

    def __init__(self, network: WarpingNetwork, operators: TorchOperators) -> None:
        """Fold and rearrange the weights."""
        self.config, self._operators = network.config, operators
        self.dtype = network.fourth.weight.dtype
        self._device = network.fourth.weight.device
        dense, motion = network.dense_motion_network, network.config.dense_motion
        self.grid = GridShape(network.config.volume_depth, motion.motion_grid_px, NUM_MOTIONS)
        weight, self._compress_bias = fold_norm(dense.compress.weight, dense.compress.bias, dense.norm)
        self._compress_weight = weight[:, :, 0, 0, 0]
        if self.dtype != torch.float64:
            self._compress_weight, self._compress_bias = self._compress_weight.float(), self._compress_bias.float()
        self._prepare_hourglass(network)
        self._prepare_heads(network)
        self._prepare_feature(network)
        self._buffers: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def _ready(self, kernels: Kernel | tuple[Kernel, ...], bias: Tensor | None) -> Convolution:
        kernels = kernels if isinstance(kernels, tuple) else (kernels,)
        return self._operators.prepare(Convolution(kernels, bias), self.dtype)

    def _prepare_hourglass(self, network: WarpingNetwork) -> None:
        hourglass = network.dense_motion_network.hourglass
        downs = [block for block in hourglass.encoder.down_blocks if isinstance(block, ConvNorm3d)]
        ups = [block for block in hourglass.decoder.up_blocks if isinstance(block, ConvNorm3d)]
        widths = [block.conv.in_channels for block in downs]
        orders = [
            _candidate_order(network.config.dense_motion.compressed_channels),
            *(tuple(range(w)) for w in widths[1:]),
        ]
        lows = [block.conv.out_channels for block in reversed(ups)]
        self._joints = [_Joint(*parts) for parts in zip(lows, widths, orders, strict=True)]
        self._downs, self._ups = [], []
        for level, block in enumerate(downs):
            weight, bias = fold_norm(block.conv.weight, block.conv.bias, block.norm)
            joint = self._joints[level]
            order = torch.tensor(joint.skip_order, device=self._device)
            if level:
                kernel = place_inputs(plain_kernel(weight), order, _round_up(joint.skip_channels))
                self._downs.append(self._ready(kernel, bias))
            else:
                kernel = place_inputs(plain_kernel(weight), order + joint.skip_start, joint.channels)
                self._downs.append(self._ready(split_inputs(kernel, _aligned(joint.channels)), bias))
        for index, block in enumerate(ups):
            weight, bias = fold_norm(block.conv.weight, block.conv.bias, block.norm)
            kernel = enlarged_kernel(weight, DOUBLED, DOUBLED)
            if index:
                joint = self._joints[len(ups) - index]
                kernel = place_inputs(kernel, joint.positions(self._device), joint.channels)
            self._ups.append(self._ready(kernel, bias))

    def _prepare_heads(self, network: WarpingNetwork) -> None:
        dense, motion = network.dense_motion_network, network.config.dense_motion
        joint, decoder = self._joints[0], dense.hourglass.decoder
        positions, self._channels = joint.positions(self._device), joint.channels
        self._final: Convolution | None = None
        if motion.final_block:
            weight, bias = fold_norm(decoder.conv.weight, decoder.conv.bias, decoder.norm)
            placed = place_inputs(plain_kernel(weight), positions, joint.channels)
            self._final = self._ready(split_inputs(placed, _aligned(joint.channels)), bias)
            self._channels = _round_up(decoder.out_channels)
            positions = torch.arange(decoder.out_channels, device=self._device)
        weight = dense.mask.weight.double()
        mask = plain_kernel(weight.permute(2, 0, 1, 3, 4).flatten(0, 1))
        aligned = _aligned(self._channels)
        self._mask = self._ready(split_inputs(place_inputs(mask, positions, self._channels), aligned), None)
        self._mask_bias = _bias(dense.mask).to(self._compress_bias.dtype)
        taps = dense.occlusion.weight.double()
        taps = taps.reshape(-1, self.grid.depth, *taps.shape[-2:])  # C, D, ky, kx
        every = taps.permute(2, 3, 1, 0).flatten(0, 1)[None, None, :, :, None, None]
        kernel = place_inputs(Kernel(every, Axis(self.grid.depth), SINGLE, SINGLE), positions, self._channels)
        self._occlusion = self._ready(split_inputs(kernel, aligned), None)
        self._occlusion_bias = _bias(dense.occlusion).to(self._compress_bias.dtype)

    def _prepare_feature(self, network: WarpingNetwork) -> None:
        config = network.config
        weight, bias = fold_norm(network.third.conv.weight, network.third.conv.bias, network.third.norm)
        cells = torch.arange(config.volume_channels * config.volume_depth, device=self._device)
        positions = cells.reshape(config.volume_depth, config.volume_channels).T.flatten()
        self._third = self._ready(place_inputs(plain_kernel(weight), positions, len(cells)), bias)
        self._third_slope = network.third.negative_slope
        self._fourth = self._ready(plain_kernel(network.fourth.weight.double()), _bias(network.fourth))

    def __call__(self, volume: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        """Feature image (B, 1, h, w, C), channels last; arguments as the plain network's."""
        operators, grid = self._operators, self.grid
        keypoints = source_keypoints, driving_keypoints
        last, compressed = operators.compress(volume, self._compress_weight, self._compress_bias, grid)
        features, visible = self._features(compressed, *keypoints)
        new = partial(self._new, len(volume))
        parts = new(grid.depth, grid.px, _round_up(self._mask.num_outputs))
        operators.convolve(features.inputs(self.config.dense_motion.mask_kernel), self._mask, parts)
        size = self.config.volume_px
        moved = new(1, size, self.config.volume_channels * self.config.volume_depth)
        operators.move(last, parts, self._mask_bias, *keypoints, grid, moved)
        third, feature = (new(1, size, self.config.feature_channels) for _ in range(2))
        operators.convolve([moved], self._third, third, slope=self._third_slope)
        operators.convolve([third], self._fourth, feature, scale=operators.enlarge_map(visible, size))
        return feature

    def _features(self, compressed: Tensor, source: Tensor, driving: Tensor) -> tuple[_Parted, Tensor]:
        """What the heads see, and the occlusion map (B, g, g)."""
        operators, batch, grid = self._operators, len(compressed), self.grid
        reach = self.config.dense_motion.mask_kernel // 2
        if self._final is None:
            features = self._hourglass(compressed, source, driving, margin=max(reach, 1))
        else:
            joined = self._hourglass(compressed, source, driving, margin=1)
            features = self._parted("features", batch, self._channels, reach)
            out, *rest = features.channels(0, self._final.num_outputs)
            operators.convolve(joined.inputs(3), self._final, out, slope=0.0, rest=rest[0] if rest else None)
        kernel = self.config.dense_motion.occlusion_kernel
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        shape = (batch, 1, grid.px, grid.px, _round_up(kernel**2))
        taps = torch.empty(shape, dtype=wide, device=self._device)
        operators.convolve(features.inputs(1), self._occlusion, taps)
        return features, operators.visibility(taps, self._occlusion_bias, kernel)

    def _hourglass(self, compressed: Tensor, source: Tensor, driving: Tensor, *, margin: int) -> _Parted:
        operators, batch, depth = self._operators, len(compressed), self.grid.depth
        top = self._joints[0]
        joined = self._parted("joined", batch, top.channels, margin)
        skips = [
            self._kept(f"level {level}", (batch, depth, self.grid.px >> level, self.grid.px >> level, joint.channels))
            for level, joint in enumerate(self._joints)
            if level
        ]
        candidates = joined.channels(top.skip_start, top.skip_start + top.skip_channels)
        operators.candidates(compressed, source, driving, self.grid, candidates)
        inputs = joined.inputs(3)
        for level, down in enumerate(self._downs):
            full = self._new(batch, depth, self.grid.px >> level, down.num_outputs)
            operators.convolve(inputs, down, full, slope=0.0)
            if level < len(skips):
                x = skips[level][..., self._joints[level + 1].skip_start :]
            else:
                x = self._new(batch, depth, full.shape[2] // 2, down.num_outputs)
            operators.halve(full, x[..., : down.num_outputs])
            inputs = [x]
        for skip, up in zip(reversed(skips), self._ups, strict=False):
            operators.convolve(inputs, up, skip[..., : up.num_outputs], slope=0.0)
            inputs = [skip]
        (out,) = joined.channels(0, self._ups[-1].num_outputs)
        operators.convolve(inputs, self._ups[-1], out, slope=0.0)
        return joined

    def _new(self, batch: int, depth: int, px: int, channels: int) -> Tensor:
        return torch.empty(batch, depth, px, px, channels, dtype=self.dtype, device=self._device)

    def _parted(self, name: str, batch: int, channels: int, margin: int) -> _Parted:
        depth, px, aligned = self.grid.depth, self.grid.px, _aligned(channels)
        rest = (batch, depth, px, px + 2 * margin, channels - aligned)
        return _Parted(
            self._kept(f"{name}, aligned", (batch, depth, px, px, aligned)), self._kept(f"{name}, rest", rest), margin
        )

    def _kept(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A buffer whose unused channels and margins are zero and stay so: it is kept between calls."""
        buffer = self._buffers.get((name, shape))
        if buffer is None:
            self._buffers[name, shape] = buffer = torch.zeros(shape, dtype=self.dtype, device=self._device)
        return buffer


def _bias(convolution: nn.Conv2d | nn.Conv3d) -> Tensor:
    if convolution.bias is None:
        return torch.zeros(convolution.out_channels, dtype=torch.float64, device=convolution.weight.device)
    return convolution.bias.double()
