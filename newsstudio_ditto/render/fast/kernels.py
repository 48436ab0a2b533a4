"""Convolution weights of the fast path: what a nearest enlargement and a batch norm do to them, exactly.

A 3x3 convolution over a picture that was enlarged by repetition sees each source pixel several times. Summing the
weights of equal pixels first gives, for every position inside an enlarged pixel (its phase), a smaller kernel over the
small picture: 2x2 taps in place of 3x3 for a doubling, and for a fourfold enlargement 25 taps a pixel in place of 144.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Axis:
    """How one axis of a convolution's output follows from its input.

    Output position ``scale * i + target + target_step * phase + copy`` reads the input positions from
    ``i + offset + offset_step * phase`` on.

    Args:
        taps: input positions that are read.
        phases: different kernels along this axis.
        offset: first tap of the first phase, relative to the input position.
        offset_step: how far the first tap moves from phase to phase.
        scale: output positions per input position.
        target: output position, inside an input position, of the first phase.
        target_step: how far that moves from phase to phase.
        copies: neighbouring output positions that have the same value.
    """

    taps: int
    phases: int = 1
    offset: int = 0
    offset_step: int = 0
    scale: int = 1
    target: int = 0
    target_step: int = 0
    copies: int = 1

    def first_tap(self, phase: int) -> int:
        """First input position that a phase reads, relative to its own."""
        return self.offset + self.offset_step * phase

    def targets(self, phase: int) -> range:
        """Output positions of a phase inside one input position."""
        first = self.target + self.target_step * phase
        return range(first, first + self.copies)


def same(taps: int) -> Axis:
    """Plain convolution of an odd width that keeps the size."""
    return Axis(taps, offset=-(taps // 2))


SINGLE = Axis(1)
DOUBLED = Axis(2, phases=2, offset=-1, offset_step=1, scale=2, target_step=1)
"""3 taps after a doubling by repetition, on the small picture."""
SHUFFLED = Axis(3, phases=2, offset=-1, scale=2, target_step=1)
"""3 taps followed by a pixel shuffle: the channels of each phase lie between the pixels."""
FOURFOLD = (Axis(2, phases=2, offset=-1, offset_step=1, scale=4, target_step=3), Axis(1, scale=4, target=1, copies=2))
"""3 taps after a fourfold enlargement: the outer two of four positions, and the inner two, which are equal."""


def collapse(weight: Tensor, dim: int, axis: Axis) -> Tensor:
    """Add up the three taps along ``dim`` that fall on the same pixel before a nearest enlargement.

    Returns:
        ``weight`` with a new first dimension of phases, and ``axis.taps`` along its old ``dim``.
    """
    phases = []
    for phase in range(axis.phases):
        taps = [torch.zeros_like(weight.select(dim, 0)) for _ in range(axis.taps)]
        for tap in range(3):
            cell = (axis.targets(phase)[0] + tap - 1) // axis.scale
            taps[cell - axis.first_tap(phase)] += weight.select(dim, tap)
        phases.append(torch.stack(taps, dim))
    return torch.stack(phases)


@dataclass(frozen=True, eq=False)
class Kernel:
    """Weights of one input of a convolution.

    Args:
        weight: (phases of y, phases of x, N, taps of z, taps of y, taps of x, C).
        z: depth.
        y: height.
        x: width.
    """

    weight: Tensor
    z: Axis
    y: Axis
    x: Axis

    @property
    def num_outputs(self) -> int:
        """N, output channels."""
        return self.weight.shape[2]

    def to(self, dtype: torch.dtype) -> "Kernel":
        """The same in another dtype."""
        return Kernel(self.weight.to(dtype).contiguous(), self.z, self.y, self.x)


def plain_kernel(weight: Tensor, *, axis_z: Axis | None = None) -> Kernel:
    """Kernel of a size-keeping convolution (N, C, ky, kx) or (N, C, kz, ky, kx)."""
    weight = weight[:, :, None] if weight.dim() == 4 else weight
    z, y, x = (same(taps) for taps in weight.shape[2:])
    return Kernel(weight.permute(0, 2, 3, 4, 1)[None, None], axis_z or z, y, x)


def enlarged_kernel(weight: Tensor, y: Axis, x: Axis) -> Kernel:
    """Kernel of a 3-tap convolution (N, C, [3,] 3, 3) that follows a nearest enlargement of height and width."""
    weight = weight[:, :, None] if weight.dim() == 4 else weight
    last = weight.permute(0, 2, 3, 4, 1)  # N, kz, ky, kx, C
    both = collapse(collapse(last, 3, x), 3, y)  # Py, Px, N, kz, ty, tx, C: the phases of x moved ky to dimension 3
    return Kernel(both, same(weight.shape[2]), y, x)


def shuffled_kernel(weight: Tensor) -> Kernel:
    """Kernel of a convolution (4 N, C, 3, 3) and the pixel shuffle after it."""
    outputs, channels = weight.shape[0] // 4, weight.shape[1]
    phases = weight.reshape(outputs, 2, 2, channels, 3, 3).permute(1, 2, 0, 4, 5, 3)  # Py, Px, N, ky, kx, C
    return Kernel(phases[:, :, :, None], SINGLE, SHUFFLED, SHUFFLED)


def widen(kernel: Kernel) -> Kernel:
    """The same kernel for an input whose channels are those of all taps of x side by side (see ``windows``)."""
    weight = kernel.weight
    return Kernel(weight.flatten(5, 6)[..., None, :], kernel.z, kernel.y, Axis(1))


def place_inputs(kernel: Kernel, positions: Tensor, channels: int) -> Kernel:
    """Kernel for an input of ``channels`` channels that has channel i of the kernel's own at ``positions[i]``."""
    weight = kernel.weight
    placed = weight.new_zeros(*weight.shape[:-1], channels)
    placed[..., positions] = weight
    return Kernel(placed, kernel.z, kernel.y, kernel.x)


def split_inputs(kernel: Kernel, aligned: int) -> tuple[Kernel, ...]:
    """Kernels of the first ``aligned`` input channels, and of the windows of the others; see ``windows``."""
    weight = kernel.weight
    parts = [Kernel(weight[..., :aligned], kernel.z, kernel.y, kernel.x)] if aligned else []
    if aligned < weight.shape[-1]:
        parts.append(widen(Kernel(weight[..., aligned:], kernel.z, kernel.y, kernel.x)))
    return tuple(parts)


def fold_norm(weight: Tensor, bias: Tensor | None, norm: nn.BatchNorm2d | nn.BatchNorm3d) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution that does an inference batch norm's work too, in float64."""
    mean, variance = norm.running_mean, norm.running_var
    if mean is None or variance is None:
        raise ValueError("a batch norm without running statistics cannot be folded")
    scale = norm.weight.double() / torch.sqrt(variance.double() + norm.eps)
    shift = norm.bias.double() - mean.double() * scale
    folded = weight.double() * scale.reshape(-1, *[1] * (weight.dim() - 1))
    return folded, shift if bias is None else bias.double() * scale + shift


def compose(outer: Tensor, inner: Tensor) -> Tensor:
    """Kernel of a 1x1 convolution (o, m, 1, 1) after a convolution (m, i, ky, kx)."""
    return torch.einsum("om,miyx->oiyx", outer[:, :, 0, 0], inner)


def windows(x: Tensor, taps: int) -> Tensor:
    """View of (B, D, H, W + taps - 1, C) as (B, D, H, W, taps * C): every pixel with its right neighbours.

    The last two dimensions of ``x`` must be contiguous; the windows overlap in memory.
    """
    batch, depth, height, width, channels = x.shape
    size = (batch, depth, height, width - taps + 1, taps * channels)
    return x.as_strided(size, x.stride(), x.storage_offset())
