"""Running mean of weights, and weights by name."""

import copy

import torch
from torch import Tensor, nn


class RunningMean:
    """Exponential mean of a module's parameters and buffers."""

    def __init__(self, module: nn.Module, decay: float = 0.998) -> None:
        self.decay = decay
        self.module = copy.deepcopy(module).eval()
        self.module.requires_grad_(False)

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        """Take in the weights after optimiser step ``step`` (from 1); early steps count more."""
        share = 1 - min(self.decay, step / (step + 20))
        torch._foreach_lerp_(list(self.module.parameters()), list(module.parameters()), share)
        for mine, theirs in zip(self.module.buffers(), module.buffers(), strict=True):
            if mine.dtype.is_floating_point:
                mine.lerp_(theirs, share)
            else:
                mine.copy_(theirs)


def half_weights(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    """State of a module, floats as fp16, on the CPU, with a prefix before each name."""
    return {
        f"{prefix}.{name}": (value.half() if value.dtype.is_floating_point else value).contiguous().cpu()
        for name, value in module.state_dict().items()
    }


def sub_state(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Entries below ``prefix`` as float32, without it."""
    start = prefix + "."
    return {
        name.removeprefix(start): value.float() if value.dtype.is_floating_point else value
        for name, value in weights.items()
        if name.startswith(start)
    }
