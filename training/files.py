"""Files that are whole or not there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A sibling to write to, which takes the name ``path`` when the block ends well; the folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    yield partial
    partial.replace(path)


def save_arrays(arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Write an archive as ``np.savez`` does."""
    with beside(path) as partial, partial.open("wb") as file:
        np.savez(file, **arrays)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an archive."""
    with np.load(path) as file:
        return dict(file)


def save_weights(weights: dict[str, Tensor], path: Path) -> None:
    """Write safetensors."""
    with beside(path) as partial:
        save_file(weights, partial)


def save_state(state: dict[str, object], path: Path) -> None:
    """Write a training state."""
    with beside(path) as partial:
        torch.save(state, partial)
