"""The decoder for inference: every SPADE layer is one convolution that is modulated as it is written.

What changes against :class:`~newsstudio_ditto.networks.decoder.SpadeDecoder`, all of it exact:

* nothing is enlarged before it is convolved or normalised (see :mod:`newsstudio_ditto.render.fast.kernels`);
* the first convolutions of all SPADE layers of one size are one convolution;
* gamma and beta are one convolution; the shortcut's beta passes only a 1x1 convolution, so the two become one, and the
  block's last three convolutions are added up in one accumulator;
* a bias that only an instance norm sees is left out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from newsstudio_ditto.networks.decoder import Spade, SpadeDecoder, SpadeResBlock, SubPixelBlock
from newsstudio_ditto.render.fast.kernels import (
    DOUBLED,
    FOURFOLD,
    compose,
    enlarged_kernel,
    plain_kernel,
    shuffled_kernel,
)
from newsstudio_ditto.render.fast.operators import Convolution, TorchOperators

_SLOPE = 0.2


@dataclass(frozen=True, eq=False)
class _Block:
    """Prepared convolutions of one residual block."""

    modulate_0: Convolution
    conv_0: Convolution
    modulate_1: Convolution
    conv_1: Convolution  # with the shortcut's two, where there is a shortcut
    modulate_s: Convolution | None

    @property
    def num_norms(self) -> int:
        return 2 if self.modulate_s is None else 3


def _norms(block: SpadeResBlock) -> list[Spade]:
    return [block.norm_0, block.norm_1, *([block.norm_s] if block.has_shortcut else [])]


def _scale_and_shift(norm: Spade) -> Convolution:
    """Gamma and beta of each channel side by side, the one that gamma is added to in its bias."""
    gamma, beta = norm.mlp_gamma, norm.mlp_beta
    weight = torch.stack([gamma.weight.double(), beta.weight.double()], dim=1).flatten(0, 1)
    bias = torch.stack([1 + _bias(gamma), _bias(beta)], dim=1).flatten()
    return Convolution((plain_kernel(weight),), bias)


def _bias(convolution: nn.Conv2d) -> Tensor:
    if convolution.bias is None:
        return torch.zeros(convolution.out_channels, dtype=torch.float64, device=convolution.weight.device)
    return convolution.bias.double()


def _last(block: SpadeResBlock, *, with_bias: bool) -> Convolution:
    kernels, bias = [plain_kernel(block.conv_1.weight.double())], _bias(block.conv_1)
    if block.has_shortcut:
        outer, beta = block.conv_s.weight.double(), block.norm_s.mlp_beta
        kernels += [plain_kernel(outer), plain_kernel(compose(outer, beta.weight.double()))]
        bias = bias + outer[:, :, 0, 0] @ _bias(beta)
    return Convolution(tuple(kernels), bias if with_bias else None)


class FastDecoder:
    """A :class:`~newsstudio_ditto.networks.decoder.SpadeDecoder`, prepared for one device.

    Args:
        network: on its device, in the dtype to run in.
        operators: the steps.
    """

    def __init__(self, network: SpadeDecoder, operators: TorchOperators) -> None:
        """Fold and rearrange the weights."""
        self.config, self._operators = network.config, operators
        self.dtype = network.fc.weight.dtype
        self._is_spade = network.config.upsampling == "spade"
        middle = [network.get_submodule(f"G_middle_{i}") for i in range(self.config.num_middle_blocks)]
        blocks = [*middle, network.up_0, network.up_1] if self._is_spade else middle
        keeps_bias = not (self._is_spade and isinstance(network.up_1, SpadeResBlock) and network.up_1.has_shortcut)
        self._fc = self._prepare(self._plain(network.fc, with_bias=keeps_bias))
        self._blocks = [
            self._block(block, with_bias=keeps_bias or block is network.up_1)
            for block in blocks
            if isinstance(block, SpadeResBlock)
        ]
        self._hidden = self._hidden_convolutions(middle)
        self._hidden_up: list[list[Convolution]] = []
        self._sub_pixel: list[tuple[Convolution, Convolution]] = []
        for level, block in enumerate((network.up_0, network.up_1)):
            if isinstance(block, SpadeResBlock):
                self._hidden_up.append(self._enlarged_hidden(block, level))
            elif isinstance(block, SubPixelBlock):
                self._sub_pixel.append(self._sub_pixel_block(block))
        last = network.conv_img.get_submodule("0")
        assert isinstance(last, nn.Conv2d)
        self._image = self._prepare(self._plain(last, with_bias=True))

    def _prepare(self, convolution: Convolution) -> Convolution:
        return self._operators.prepare(convolution, self.dtype)

    @staticmethod
    def _plain(convolution: nn.Conv2d, *, with_bias: bool) -> Convolution:
        kernel = plain_kernel(convolution.weight.double())
        return Convolution((kernel,), _bias(convolution) if with_bias else None)

    def _block(self, block: SpadeResBlock, *, with_bias: bool) -> _Block:
        shortcut = None
        if block.has_shortcut:
            gamma = block.norm_s.mlp_gamma
            shortcut = self._prepare(Convolution((plain_kernel(gamma.weight.double()),), 1 + _bias(gamma)))
        return _Block(
            self._prepare(_scale_and_shift(block.norm_0)),
            self._prepare(self._plain(block.conv_0, with_bias=False)),
            self._prepare(_scale_and_shift(block.norm_1)),
            self._prepare(_last(block, with_bias=with_bias)),
            shortcut,
        )

    def _hidden_convolutions(self, middle: list[nn.Module]) -> Convolution | None:
        norms = [norm for block in middle if isinstance(block, SpadeResBlock) for norm in _norms(block)]
        if not norms:
            return None
        weight, bias = _shared(norms)
        return self._prepare(Convolution((plain_kernel(weight),), bias))

    def _enlarged_hidden(self, block: SpadeResBlock, level: int) -> list[Convolution]:
        weight, bias = _shared(_norms(block))
        axes = (DOUBLED,) if level == 0 else FOURFOLD
        return [self._prepare(Convolution((enlarged_kernel(weight, y, x),), bias)) for y in axes for x in axes]

    def _sub_pixel_block(self, block: SubPixelBlock) -> tuple[Convolution, Convolution]:
        bias = _bias(block.conv_0).reshape(-1, 2, 2).permute(1, 2, 0)
        first = Convolution((shuffled_kernel(block.conv_0.weight.double()),), bias)
        return self._prepare(first), self._prepare(self._plain(block.conv_1, with_bias=True))

    def __call__(self, feature: Tensor) -> Tensor:
        """Picture (B, 3, 8h, 8w), 0..1, of a feature image (B, 1, h, w, C), channels last."""
        x, moments = self._convolve([feature], self._fc, feature, 1, with_moments=True)
        width = self.config.hidden_channels
        blocks = iter(self._blocks)
        if self._hidden is not None:
            hidden = self._new(feature, 1, self._hidden.num_outputs)
            self._operators.convolve([feature], self._hidden, hidden, slope=0.0)
            parts = iter(hidden.chunk(hidden.shape[-1] // width, dim=-1))
            for _ in range(self.config.num_middle_blocks):
                block = next(blocks)
                x, moments = self._run(block, x, moments, [next(parts) for _ in range(block.num_norms)], 1)
        for level, block in enumerate(blocks):
            hidden = self._enlarge_hidden(feature, level, width * block.num_norms)
            is_last = level == 1
            x, moments = self._run(block, x, moments, list(hidden.chunk(block.num_norms, dim=-1)), 2, is_last=is_last)
        for first, second in self._sub_pixel:
            x, _ = self._convolve([x], first, x, 2, slope=_SLOPE)
            x, _ = self._convolve([x], second, x, 1, slope=_SLOPE)
        batch, _, height, width, _ = x.shape
        image = torch.empty(batch, 3, 2 * height, 2 * width, dtype=self.dtype, device=x.device)
        self._operators.paint(x, self._image, image)
        return image

    def _enlarge_hidden(self, feature: Tensor, level: int, channels: int) -> Tensor:
        hidden = self._new(feature, 2 << level, channels)
        for convolution in self._hidden_up[level]:
            self._operators.convolve([feature], convolution, hidden, slope=0.0)
        return hidden

    def _new(self, like: Tensor, factor: int, channels: int) -> Tensor:
        batch, _, height, width, _ = like.shape
        return torch.empty(batch, 1, factor * height, factor * width, channels, dtype=self.dtype, device=like.device)

    def _convolve(
        self,
        inputs: list[Tensor],
        convolution: Convolution,
        like: Tensor,
        factor: int,
        *,
        slope: float = 1.0,
        residual: Tensor | None = None,
        with_moments: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        out = self._new(like, factor, convolution.num_outputs)
        moments = self._operators.convolve(
            inputs, convolution, out, slope=slope, residual=residual, with_moments=with_moments
        )
        return out, moments

    def _run(
        self,
        block: _Block,
        x: Tensor,
        moments: Tensor | None,
        hidden: list[Tensor],
        factor: int,
        *,
        is_last: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        assert moments is not None
        operators = self._operators
        channels = x.shape[-1]
        inner = self._new(x, factor, channels)
        operators.modulate(hidden[0], block.modulate_0, x, moments, inner, slope=_SLOPE)
        y, y_moments = self._convolve([inner], block.conv_0, inner, 1, with_moments=True)
        assert y_moments is not None
        outer = torch.empty_like(y)
        operators.modulate(hidden[1], block.modulate_1, y, y_moments, outer, slope=_SLOPE)
        slope = _SLOPE if is_last else 1.0
        if block.modulate_s is None:
            return self._convolve([outer], block.conv_1, outer, 1, slope=slope, residual=x, with_moments=not is_last)
        operators.modulate(hidden[2], block.modulate_s, x, moments, inner, slope=1.0)
        return self._convolve([outer, inner, hidden[2]], block.conv_1, outer, 1, slope=slope, with_moments=not is_last)


def _shared(norms: list[Spade]) -> tuple[Tensor, Tensor]:
    convolutions = [norm.mlp_shared.get_submodule("0") for norm in norms]
    weights = [c.weight.double() for c in convolutions if isinstance(c, nn.Conv2d)]
    return torch.cat(weights), torch.cat([_bias(c) for c in convolutions if isinstance(c, nn.Conv2d)])
