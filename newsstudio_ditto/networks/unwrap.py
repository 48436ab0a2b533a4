"""From the published checkpoints' layouts to plain state dicts. Pure: dicts of tensors in, dicts of tensors out."""

from collections.abc import Mapping

import torch
from torch import Tensor

from newsstudio_ditto.errors import BundleError

State = dict[str, Tensor]
_SPECTRAL = ("weight_orig", "weight_u", "weight_v")


def fold_spectral_norm(state: Mapping[str, Tensor]) -> State:
    """Divide every ``weight_orig`` by its largest singular value, as the stored ``weight_u`` and ``weight_v`` give it.

    No power iteration is run, so the result is what the network computes in evaluation mode. A state dict without
    spectral norm comes back unchanged.

    Raises:
        BundleError: a ``weight_u`` or ``weight_v`` is missing, or one is there without its ``weight_orig``.
    """
    folded = {key: value for key, value in state.items() if key.rpartition(".")[2] not in _SPECTRAL}
    stems = {key.rpartition(".")[0] for key in state if key.rpartition(".")[2] in _SPECTRAL}
    for stem in sorted(stems):
        keys = [f"{stem}.{part}" for part in _SPECTRAL]
        missing = [key for key in keys if key not in state]
        if missing:
            raise BundleError(f"spectral norm of {stem} lacks {missing[0]}", "download the checkpoint again")
        weight, u, v = (state[key] for key in keys)
        sigma = torch.dot(u, weight.flatten(1) @ v)
        folded[f"{stem}.weight"] = weight / sigma
    return folded


def fold_weight_norm(state: Mapping[str, Tensor], dim: int) -> State:
    """Multiply every ``weight_v``, normalised over all axes but ``dim``, by its ``weight_g``.

    Both spellings are taken: ``X.weight_g``/``X.weight_v`` and ``X.parametrizations.weight.original0``/``original1``.
    """
    folded: State = {}
    for key, value in state.items():
        stem, gain_key = key, ""
        for direction, gain in (
            (".weight_v", ".weight_g"),
            (".parametrizations.weight.original1", ".parametrizations.weight.original0"),
        ):
            if key.endswith(direction):
                stem, gain_key = key.removesuffix(direction), key.removesuffix(direction) + gain
        if gain_key:
            others = [axis for axis in range(value.ndim) if axis != dim]
            folded[f"{stem}.weight"] = value * (state[gain_key] / value.norm(dim=others, keepdim=True))
        elif not key.endswith((".weight_g", ".parametrizations.weight.original0")):
            folded[key] = value
    return folded


def strip_parallel_prefix(state: Mapping[str, Tensor]) -> State:
    """Remove every ``module.`` that distributed training put into the keys."""
    return {key.replace("module.", ""): value for key, value in state.items()}


def find_mismatch(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str | None:
    """Why ``given`` cannot be loaded into a module with the state ``expected``: the first key in order, or None.

    Only names and shapes are compared. A key that is missing is named together with the first one that is unknown, for
    it may have been renamed.
    """
    missing, unknown = sorted(expected.keys() - given.keys()), sorted(given.keys() - expected.keys())
    for key in sorted(expected.keys() | given.keys()):
        if key not in given:
            return f"key {key} is missing" + (f", key {unknown[0]} is unknown" if unknown else "")
        if key not in expected:
            return f"key {key} is unknown" + (f", key {missing[0]} is missing" if missing else "")
        want, got = tuple(expected[key].shape), tuple(given[key].shape)
        if want != got:
            return f"key {key}: expected shape {want}, got {got}"
    return None
