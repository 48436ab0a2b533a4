"""The rule that makes golden weights and inputs: seeded by name, so that only outputs need files."""

import json
import math
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file

GOLDEN = Path(__file__).parent / "golden"
DEFAULT_GAIN = 2.0**0.5

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Arrays = dict[str, npt.NDArray[Any]]


def _generator(name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(zlib.crc32(name.encode("utf-8"))))


def N(name: str, shape: tuple[int, ...]) -> Floats:  # noqa: N802 - the rule's own symbol
    """Standard normal numbers of ``shape``, float64, from a fresh generator seeded by ``name``."""
    return _generator(name).standard_normal(shape)


def U(name: str, shape: tuple[int, ...]) -> Floats:  # noqa: N802 - the rule's own symbol
    """Uniform numbers in [0, 1) of ``shape``, float64, from a fresh generator seeded by ``name``."""
    return _generator(name).random(shape)


def f32(values: npt.ArrayLike) -> Singles:
    """Cast once, at the end of a float64 computation."""
    return np.asarray(values, dtype=np.float64).astype(np.float32)


def load_json(path: str) -> Any:
    """Parse ``tests/golden/{path}``."""
    return json.loads((GOLDEN / path).read_text())


def load_golden(path: str) -> tuple[Arrays, Any]:
    """Load ``tests/golden/{path}.safetensors`` and the JSON beside it, which then names its ``source``.

    Args:
        path: relative to ``tests/golden``, without suffix, such as ``prepost/paste``.
    """
    return load_file(GOLDEN / f"{path}.safetensors"), load_json(f"{path}.json") | {"source": path}


def _gain(rule: dict[str, Any], net: str, key: str) -> float:
    for rule_net, pattern, gain in rule["gains_first_match_wins"]:
        if rule_net == net and re.search(pattern, key):
            return float(gain)
    return DEFAULT_GAIN


def _offset(rule: dict[str, Any], net: str, key: str) -> float:
    return sum(
        float(value) for rule_net, pattern, value in rule["bias_offsets"] if rule_net == net and re.search(pattern, key)
    )


def _drawn_weight(rule: dict[str, Any], net: str, key: str, shape: tuple[int, ...], kind: str) -> Floats:
    if kind == "rotary_freqs":  # with torch: numpy's float32 power differs in the last bit
        exponent = torch.arange(0, 2 * shape[0], 2).float() / (2 * shape[0])
        return np.asarray((1.0 / 10000**exponent).numpy(), dtype=np.float64)
    n = N(key, shape)
    if kind == "weight":
        return _gain(rule, net, key) * n / math.sqrt(math.prod(shape[1:]))
    if kind == "bias":
        return 0.05 * n + _offset(rule, net, key)
    if kind == "weight_u":
        return n / np.linalg.norm(n)
    simple: dict[str, Floats] = {
        "running_var": 1 + 0.1 * np.abs(n),
        "running_mean": 0.1 * n,
        "norm_weight": 1 + 0.1 * n,
        "grn": 0.1 * n,
        "null_embed": n,
    }
    return simple[kind]


def _right_singular(weights: Arrays, key: str) -> Floats:
    stem = key.removesuffix("weight_v")
    matrix = weights[stem + "weight_orig"].astype(np.float64)
    v = matrix.reshape(matrix.shape[0], -1).T @ weights[stem + "weight_u"].astype(np.float64)
    return v / np.linalg.norm(v)


def make_weights(manifest: dict[str, Any], net: str) -> Arrays:
    """Make every tensor of a network by the weight rule.

    Args:
        manifest: ``key -> [shape, dtype, kind]``; a whole manifest file, which holds this under ``entries``,
            is accepted too.
        net: name of the network in ``rule.json``: appearance, motion, warp, decoder, stitch or lmdm.

    Returns:
        ``key -> array``, float32 (int64 for batch counters), in sorted key order.
    """
    manifest = manifest.get("entries", manifest)
    rule = load_json("rule.json")
    weights: Arrays = {}
    for key in sorted(manifest):
        shape, _, kind = manifest[key]
        if kind == "counter":
            weights[key] = np.zeros(tuple(shape), dtype=np.int64)
        elif kind == "weight_v":
            weights[key] = f32(_right_singular(weights, key))
        else:
            weights[key] = f32(_drawn_weight(rule, net, key, tuple(shape), kind))
    return weights
