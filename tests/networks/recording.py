"""What modules inside a network are given and return during a call."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

Seen = dict[str, Tensor]


def _keep_output(seen: Seen, name: str) -> Callable[[nn.Module, Any, Any], None]:
    def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            seen.setdefault(name, output)
        else:
            seen.update({f"{name}.{index}": part for index, part in enumerate(output)})

    return hook


def _keep_input(seen: Seen, name: str) -> Callable[[nn.Module, Any], None]:
    def hook(_module: nn.Module, inputs: Any) -> None:
        seen.setdefault(name, inputs[0])

    return hook


@contextmanager
def record(network: nn.Module, names: dict[str, str], inputs: dict[str, str] | None = None) -> Iterator[Seen]:
    """Outputs (and first inputs) of the first call of each named module, under the name that its path maps to.

    The parts of a tuple are kept as ``name.0``, ``name.1``, ...
    """
    seen: Seen = {}
    hooks = [
        network.get_submodule(path).register_forward_hook(_keep_output(seen, name)) for path, name in names.items()
    ]
    for path, name in (inputs or {}).items():
        hooks.append(network.get_submodule(path).register_forward_pre_hook(_keep_input(seen, name)))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
