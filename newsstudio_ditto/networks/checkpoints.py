"""The published Ditto checkpoints (PyTorch release) -> a model bundle at full width."""

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.build import load_network, seeded_network
from newsstudio_ditto.networks.bundle import write_bundle
from newsstudio_ditto.networks.config import OFFICIAL, BundleConfig
from newsstudio_ditto.networks.manifest import BundleManifest
from newsstudio_ditto.networks.unwrap import State, fold_spectral_norm, fold_weight_norm, strip_parallel_prefix
from newsstudio_ditto.networks.weights import ONNX_SUFFIX, read_weights

OFFICIAL_FILES = {
    "appearance": "appearance_extractor.pth",
    "motion_extractor": "motion_extractor.pth",
    "warp": "warp_network.pth",
    "decoder": "decoder.pth",
    "stitching": "stitch_network.pth",
    "motion_diffusion": "lmdm_v0.4_hubert.pth",
}
LICENCE = (
    "converted from the Ditto checkpoints (Apache-2.0, Ant Group); speech encoder: see the HuBERT weights' licence"
)
_DOWNLOAD_HINT = "download the checkpoint again"
_POSITION_CONV_DIM = 2


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Content of a ``.pth`` file, read without running any code from it.

    Raises:
        BundleError: the file is absent, damaged, holds more than tensors and plain values, or is no dict.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # torch's own text advises to run whatever the file says
        what = f"holds more than tensors and plain values{_asked_for(error)}"
        raise BundleError(f"{path} {what}; opening it the usual way would run code", _DOWNLOAD_HINT) from error
    except (OSError, RuntimeError, EOFError) as error:
        what = "it is cut or damaged" if "central directory" in str(error) else str(error)
        raise BundleError(f"{path} cannot be read: {what}", _DOWNLOAD_HINT) from error
    if not isinstance(content, dict):
        raise BundleError(f"{path}: expected a dict, got {type(content).__name__}", _DOWNLOAD_HINT)
    return content


def _asked_for(error: pickle.UnpicklingError) -> str:
    found = re.search(r"GLOBAL (\S+)", str(error))
    return f" (it names {found[1]!r})" if found else ""


def unwrap_checkpoint(name: str, content: Mapping[str, Any], origin: str) -> State:
    """State dict of one network out of the layout that its checkpoint has.

    Stitching sits under ``retarget_shoulder`` with ``module.`` in its keys, motion diffusion under
    ``model_state_dict``; the decoder's spectral norm is folded; the others are state dicts already.

    Args:
        name: of the network.
        content: of the file.
        origin: of the content, for messages.

    Raises:
        BundleError: an expected entry is missing, or a value is no tensor.
    """
    wrapper = {"stitching": "retarget_shoulder", "motion_diffusion": "model_state_dict"}.get(name)
    if wrapper is not None:
        if not isinstance(content.get(wrapper), Mapping):
            raise BundleError(f"{origin}: there is no entry {wrapper}", _DOWNLOAD_HINT)
        content = content[wrapper]
    for key, value in content.items():
        if not isinstance(value, Tensor):
            raise BundleError(f"{origin}: key {key} is no tensor", _DOWNLOAD_HINT)
    if name == "stitching":
        return strip_parallel_prefix(content)
    return fold_spectral_norm(content) if name == "decoder" else dict(content)


def unwrap_hubert(content: Mapping[str, Tensor]) -> State:
    """State dict of :class:`~newsstudio_ditto.networks.audio_encoder.AudioEncoder` from a transformers HuBERT's.

    Taken are the base model and models with a head on top (prefix ``hubert.``); the head and the embedding that only
    masked training uses are left out, and the positional convolution's weight norm is folded.
    """
    base = {key.removeprefix("hubert."): value for key, value in content.items()}
    parts = ("feature_extractor.", "feature_projection.", "encoder.")
    kept = {f"hubert.{key}": value for key, value in base.items() if key.startswith(parts)}
    return fold_weight_norm(kept, dim=_POSITION_CONV_DIM)


def find_official(folder: Path) -> dict[str, Path]:
    """Paths of the six checkpoints in ``folder`` or below it, by network.

    Raises:
        BundleError: one is missing.
    """
    found = {}
    for name, file in OFFICIAL_FILES.items():
        paths = sorted(folder.rglob(file))
        if not paths:
            raise BundleError(f"{folder} holds no {file}", "give the folder of the PyTorch release of the checkpoints")
        found[name] = paths[0]
    return found


def convert_official(
    folder: Path,
    target: Path,
    *,
    hubert: Path | None = None,
    config: BundleConfig = OFFICIAL,
    dtype: torch.dtype = torch.float32,
) -> BundleManifest:
    """Convert the official checkpoints into a bundle.

    Args:
        folder: with the six ``.pth`` files, at any depth.
        target: folder of the new bundle.
        hubert: the release's HuBERT (``.onnx``), or weights of a transformers HuBERT of the config's size
            (``.safetensors``, ``.bin`` or ``.pt``). Without it the audio encoder gets seeded numbers, called untrained.
        config: shapes and settings.
        dtype: in which floating dtype the weights are stored.

    Raises:
        BundleError: a checkpoint is missing, damaged, or has other keys or shapes than the config asks for.
    """
    networks: dict[str, nn.Module | Path] = {}
    for name, path in find_official(folder).items():
        state = unwrap_checkpoint(name, read_checkpoint(path), str(path))
        networks[name] = _load(config, name, state, path)
    if hubert is None:
        networks["audio_encoder"] = seeded_network(config.networks, "audio_encoder", 0)
    elif hubert.suffix == ONNX_SUFFIX:
        networks["audio_encoder"] = hubert
    else:
        content = read_weights(hubert) if hubert.suffix == ".safetensors" else read_checkpoint(hubert)
        networks["audio_encoder"] = _load(config, "audio_encoder", unwrap_hubert(content), hubert)
    trained = {name: name != "audio_encoder" or hubert is not None for name in networks}
    return write_bundle(target, config, networks, name="ditto", licence=LICENCE, trained=trained, dtype=dtype)


def _load(config: BundleConfig, name: str, state: State, path: Path) -> nn.Module:
    cpu = torch.device("cpu")
    return load_network(config.networks, name, state, device=cpu, dtype=torch.float32, origin=str(path))
