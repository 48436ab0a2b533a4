"""Running mean of weights, and files that are never half written."""

import copy
from pathlib import Path

import torch
from safetensors.torch import save_file
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


def save_weights(weights: dict[str, Tensor], path: Path) -> None:
    """Write safetensors through a sibling file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    save_file(weights, partial)
    partial.replace(path)


def save_state(state: dict[str, object], path: Path) -> None:
    """Write a training state through a sibling file."""
    partial = path.with_suffix(".part")
    torch.save(state, partial)
    partial.replace(path)


def sub_state(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Entries below ``prefix`` as float32, without it."""
    start = prefix + "."
    return {
        name.removeprefix(start): value.float() if value.dtype.is_floating_point else value
        for name, value in weights.items()
        if name.startswith(start)
    }
