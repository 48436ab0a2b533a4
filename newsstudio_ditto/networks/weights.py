"""Weight files of a bundle: safetensors, written beside and renamed, read as maps."""

import hashlib
import os
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.build import expected_state
from newsstudio_ditto.networks.config import NetworkConfig
from newsstudio_ditto.networks.manifest import REBUILD_HINT, WeightFile
from newsstudio_ditto.networks.unwrap import find_mismatch

ONNX_SUFFIX = ".onnx"
_CHUNK_BYTES = 1 << 20


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file, mapped.

    Raises:
        BundleError: the file is absent or damaged.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise BundleError(f"{path} cannot be read: {error}", REBUILD_HINT) from error


def write_weights(
    folder: Path, config: NetworkConfig, name: str, network: nn.Module, *, trained: bool, dtype: torch.dtype
) -> WeightFile:
    """Write ``{name}.safetensors`` into ``folder`` and return its entry for the manifest.

    Args:
        folder: that exists.
        config: that the network was built from.
        name: of the network.
        network: its state dict is stored, shared tensors once under each of their keys.
        trained: for the entry.
        dtype: floating dtype of the stored weights.

    Raises:
        BundleError: the network does not fit the config, or has a weight that ``dtype`` cannot hold.
    """
    state = network.state_dict()
    mismatch = find_mismatch(expected_state(config, name), state)
    if mismatch:
        raise BundleError(f"network {name} does not fit the config: {mismatch}", "give the config it was built from")
    stored: dict[str, Tensor] = {}
    for key, value in state.items():
        stored_value = value.detach().cpu().to(dtype) if value.is_floating_point() else value.detach().cpu()
        if not torch.isfinite(stored_value).all():
            raise BundleError(f"network {name}: key {key} has values that {dtype} cannot hold", "store it as float32")
        stored[key] = stored_value.clone(memory_format=torch.contiguous_format)
    path = folder / f"{name}.safetensors"
    part = path.with_suffix(".part")
    save_file(stored, part)
    part.chmod(0o644)  # safetensors makes files that only their owner can read
    part.replace(path)
    return WeightFile(path.name, type(network).__name__, path.stat().st_size, hash_weights(path), trained)


def link_onnx(folder: Path, name: str, source: Path, *, trained: bool) -> WeightFile:
    """Give an ONNX file the name ``{name}.onnx`` in ``folder``, without a second copy where the disk allows it.

    Args:
        folder: that exists.
        name: of the network.
        source: the file.
        trained: for the entry.

    Raises:
        BundleError: there is no such file.
    """
    if not source.is_file():
        raise BundleError(f"{source} does not exist", "give the path of an ONNX file")
    path = folder / f"{name}{ONNX_SUFFIX}"
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    try:
        os.link(source.resolve(), part)
    except OSError:
        shutil.copyfile(source, part)  # another file system, or one without hard links
    part.replace(path)
    return WeightFile(path.name, "OnnxAudioEncoder", path.stat().st_size, hash_weights(path), trained)


def hash_weights(path: Path) -> str:
    """SHA-256 of a file, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def size_problem(folder: Path, entry: WeightFile) -> str | None:
    """Why a file cannot be the one that the manifest lists, by its size alone, or None."""
    path = folder / entry.file
    if not path.is_file():
        return f"{path} does not exist"
    size = path.stat().st_size
    return None if size == entry.bytes else f"{path}: expected {entry.bytes} bytes, got {size}"
