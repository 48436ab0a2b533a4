"""How the weights of a bundle grow into larger networks than its own, for a run to begin with.

What is new starts at zero where it would change the output, so a grown network computes what the small one did.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from newsstudio_ditto.networks.config import NetworkConfig, picture_values

_SILENT = ("picture.last.weight", "picture.last.bias", "pwconv2.weight", "pwconv2.bias")


def with_picture(networks: NetworkConfig) -> NetworkConfig:
    """The same networks, with the source picture carried along; unchanged if they do so already."""
    if networks.appearance.carries_picture:
        return networks
    values = picture_values(networks.appearance.volume_px)
    channels = networks.appearance.volume_channels + values // networks.appearance.volume_depth
    features = networks.warp.feature_channels + values
    return replace(
        networks,
        appearance=replace(networks.appearance, volume_channels=channels, carries_picture=True),
        warp=replace(networks.warp, volume_channels=channels, feature_channels=features, carries_picture=True),
        decoder=replace(networks.decoder, feature_channels=features, carries_picture=True),
    )


def grow_into(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a network the weights of a smaller one: more inputs weigh nothing, new blocks add nothing.

    Raises:
        ValueError: the smaller network has something that this one lacks, or that does not fit into it.
    """
    own = network.state_dict()
    unknown = state.keys() - own.keys()
    if unknown:
        raise ValueError(f"the network has no {min(unknown)}")
    for name, value in own.items():
        given = state.get(name)
        if given is None:
            if name.endswith(_SILENT):
                own[name] = torch.zeros_like(value)
            continue
        if any(small > large for small, large in zip(given.shape, value.shape, strict=True)):
            raise ValueError(f"{name}: {tuple(given.shape)} does not fit into {tuple(value.shape)}")
        grown = torch.zeros_like(value)
        grown[tuple(slice(size) for size in given.shape)] = given.to(value)
        own[name] = grown
    network.load_state_dict(own)
