"""Loading of rule-made weights, and the one comparison with its tolerance, for all network goldens."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from newsstudio_ditto.networks.layers import restore_fixed_buffers
from newsstudio_ditto.networks.unwrap import fold_spectral_norm
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import Arrays, load_json, make_weights

GROUPS = {
    **{f"nets/{name}": f"network: {name}" for name in ("appearance", "motion", "warp", "decoder", "stitch")},
    "lmdm/lmdm": "network: motion diffusion, sampling",
}


def rule_state(manifest: str, net: str) -> dict[str, Tensor]:
    """State dict of the manifest's keys, made by the weight rule, spectral norm folded."""
    weights = make_weights(load_json(f"manifest/{manifest}.json"), net)
    return fold_spectral_norm({key: torch.from_numpy(value) for key, value in weights.items()})


def load_rule_weights(module: nn.Module, manifest: str, net: str) -> None:
    """Load the rule-made weights strictly and switch to evaluation."""
    module.load_state_dict(rule_state(manifest, net), strict=True, assign=True)
    restore_fixed_buffers(module, torch.device("cpu"))
    module.eval().requires_grad_(False)


def assert_matches(golden: tuple[Arrays, Any], name: str, full: Tensor) -> None:
    """Compare a whole tensor with the stored, strided copy and with the statistics of the reference's whole tensor."""
    arrays, description = golden
    facts = description["tensors"][name]
    assert list(full.shape) == facts["shape"], name
    values = full.numpy()
    tolerance = tolerances.network(facts.get("fp32_vs_fp64_max_abs", 0.0), facts["min"], facts["max"])
    strided = values[tuple(slice(None, None, step) for step in facts["stride"])]
    assert_golden(GROUPS[description["source"]], name, strided, arrays[name], tolerance)
    shift = abs(values.mean(dtype=np.float64) - facts["mean"])
    assert shift <= tolerances.NETWORK_MEAN_OVER_STD * facts["std"] + 1e-9, name


def assert_all_match(golden: tuple[Arrays, Any], prefix: str, tensors: dict[str, Tensor]) -> None:
    """Compare every tensor that the reference stored under ``prefix``; none may be left out, none may be extra."""
    stored = {name for name in golden[1]["tensors"] if name.startswith(prefix)}
    assert stored == {prefix + name for name in tensors}
    for name, tensor in tensors.items():
        assert_matches(golden, prefix + name, tensor)
