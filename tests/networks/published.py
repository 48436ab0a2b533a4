"""Tiny networks in the layout of the published files."""

from typing import Any

import torch

from newsstudio_ditto.networks.build import seeded_network
from tests.networks.sizes import TINY_NETWORKS


def as_published(name: str) -> dict[str, Any]:
    """A seeded tiny network in the layout of its published file."""
    state: dict[str, Any] = dict(seeded_network(TINY_NETWORKS, name, 7).state_dict())
    if name == "stitching":
        state = {key.replace("mlp.", "module.mlp."): value for key, value in state.items()}
        return {"retarget_shoulder": state, "retarget_mouth": {"unused": torch.ones(1)}}
    if name == "motion_diffusion":
        return {"model_state_dict": state, "ema_state_dict": {}}
    if name == "decoder":
        for key in [key for key in state if key.endswith((".conv_0.weight", ".conv_1.weight", ".conv_s.weight"))]:
            weight, stem = state.pop(key), key.removesuffix("weight")
            u = torch.nn.functional.normalize(torch.ones(len(weight)), dim=0)
            v = torch.nn.functional.normalize(weight.flatten(1).T @ u, dim=0)
            state |= {f"{stem}weight_orig": weight, f"{stem}weight_u": u, f"{stem}weight_v": v}
    return state
