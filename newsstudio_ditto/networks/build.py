"""The seven networks by name: construction, seeded weights, and strict loading of a state dict."""

import zlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.appearance import AppearanceExtractor
from newsstudio_ditto.networks.config import NetworkConfig
from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.layers import restore_fixed_buffers
from newsstudio_ditto.networks.manifest import NETWORK_NAMES, REBUILD_HINT
from newsstudio_ditto.networks.motion_diffusion import MotionDenoiser
from newsstudio_ditto.networks.motion_extractor import MotionExtractor
from newsstudio_ditto.networks.stitching import StitchingNetwork
from newsstudio_ditto.networks.unwrap import find_mismatch
from newsstudio_ditto.networks.warp import WarpingNetwork

REDUCED_PRECISION = frozenset({"appearance", "warp", "decoder", "audio_encoder"})
"""Networks that may run in half precision; the other three are small and decide positions, so they stay float32."""


def build_network(config: NetworkConfig, name: str) -> nn.Module:
    """Construct a network with torch's default initialisation.

    Args:
        config: of all networks.
        name: one of :data:`~newsstudio_ditto.networks.manifest.NETWORK_NAMES`.
    """
    if name == "audio_encoder":
        # transformers takes seconds to import, and only speech needs it
        from newsstudio_ditto.networks.audio_encoder import AudioEncoder

        return AudioEncoder(config.audio_encoder)
    if name == "appearance":
        return AppearanceExtractor(config.appearance)
    if name == "motion_extractor":
        return MotionExtractor(config.motion_extractor)
    if name == "warp":
        return WarpingNetwork(config.warp)
    if name == "decoder":
        return SpadeDecoder(config.decoder)
    if name == "stitching":
        return StitchingNetwork(config.stitching)
    if name == "motion_diffusion":
        return MotionDenoiser(config.motion_diffusion)
    raise BundleError(f"there is no network {name!r}", f"give one of {', '.join(NETWORK_NAMES)}")


def seeded_network(config: NetworkConfig, name: str, seed: int) -> nn.Module:
    """A network with random weights that depend on name and seed alone; the stitching network is the identity."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(zlib.crc32(f"{name}/{seed}".encode()))
        network = build_network(config, name)
    if isinstance(network, StitchingNetwork):
        network.reset_to_identity()
    return network.eval().requires_grad_(False)


def expected_state(config: NetworkConfig, name: str) -> dict[str, Tensor]:
    """Keys and shapes of a network's state dict, without memory behind them."""
    with torch.device("meta"):
        state: dict[str, Tensor] = build_network(config, name).state_dict()
    return state


def network_dtype(name: str, dtype: torch.dtype) -> torch.dtype:
    """In which dtype a network runs when ``dtype`` is asked for."""
    return dtype if name in REDUCED_PRECISION else torch.float32


def load_network(
    config: NetworkConfig,
    name: str,
    state: Mapping[str, Tensor],
    *,
    device: torch.device,
    dtype: torch.dtype,
    origin: str,
) -> nn.Module:
    """A network with the weights of ``state``, in evaluation mode, without gradients.

    Tensors that already have the right device and dtype are used as they are, so mapped files stay mapped.

    Args:
        config: of all networks.
        name: of the network.
        state: exactly the network's keys and shapes, in any floating dtype.
        device: where it will run.
        dtype: in which floating dtype it will run.
        origin: of the state, for messages.

    Raises:
        BundleError: a key is missing, unknown, or has another shape.
    """
    with torch.device("meta"):
        network = build_network(config, name)
    mismatch = find_mismatch(network.state_dict(), state)
    if mismatch:
        raise BundleError(f"{origin}: {mismatch}", REBUILD_HINT)
    placed = {
        # moved first: converting on the host would copy the weights there
        key: value.to(device).to(dtype) if value.is_floating_point() else value.to(device)
        for key, value in state.items()
    }
    network.load_state_dict(placed, strict=True, assign=True)
    restore_fixed_buffers(network, device)
    return network.eval().requires_grad_(False)
