"""Warp and decoder rewritten for inference: built from the loaded plain networks, which stay the reference."""

import logging
import os

import torch

from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.networks.config import NetworkConfig
from newsstudio_ditto.render.fast.core import FastCore
from newsstudio_ditto.render.fast.operators import TorchOperators

log = logging.getLogger(__name__)

__all__ = ["SWITCH", "FastCore", "fast_core", "fused_operators", "misfit"]

SWITCH = "DITTO_PLAIN_CORE"
_CAPABILITY = (9, 0)
_SMALLEST_TILE = 64


def misfit(config: NetworkConfig) -> str | None:
    """Why the kernels do not fit these networks, or ``None`` if they do.

    Tiles are boxes with sides of powers of two, and rows of channels start at multiples of 16 bytes.
    """
    warp, decoder = config.warp, config.decoder
    if warp.picture_px is not None or decoder.picture_px is not None:
        return "networks that carry the source picture have no kernels yet"
    sides = {
        "volume_px": warp.volume_px,
        "volume_depth": warp.volume_depth,
        "motion_grid_px": warp.dense_motion.motion_grid_px,
    }
    for name, side in sides.items():
        if side & (side - 1):
            return f"{name} {side} is no power of two"
    widths = (warp.feature_channels, decoder.channels, decoder.hidden_channels, *decoder.up_channels)
    if any(width % 8 for width in widths) or warp.volume_channels * warp.volume_depth % 8:
        return f"widths {widths} are not all multiples of 8"
    if warp.dense_motion.motion_grid_px >> warp.dense_motion.num_blocks < 1:
        return "the hourglass halves its grid more often than it can"
    if warp.volume_px**2 < _SMALLEST_TILE:
        return f"the feature image has fewer than {_SMALLEST_TILE} pixels"
    return None


def fused_operators() -> TorchOperators:
    """The steps as Triton kernels.

    Raises:
        ImportError: if Triton is missing; only CUDA builds of torch bring it.
    """
    from newsstudio_ditto.render.fast.kernel_operators import KernelOperators

    return KernelOperators()


def fast_core(bundle: ModelBundle, device: torch.device) -> FastCore | None:
    """The rewritten warp and decoder with their kernels, or ``None`` where the plain networks have to run.

    Which of the two, and why, is logged. ``DITTO_PLAIN_CORE=1`` asks for the plain networks.
    """
    reason = _obstacle(bundle, device)
    if reason is None:
        try:
            operators = fused_operators()
        except ImportError as error:
            reason = f"Triton is missing ({error})"
        else:
            log.info("warp and decoder run as fused kernels", extra={"device": str(device)})
            return FastCore(bundle.warp, bundle.decoder, operators)
    log.warning(
        "warp and decoder run as plain networks, several times slower than the fused kernels",
        extra={"device": str(device), "cause": reason},
    )
    return None


def _obstacle(bundle: ModelBundle, device: torch.device) -> str | None:
    if os.environ.get(SWITCH, "") == "1":
        return f"{SWITCH}=1"
    if torch.cuda.get_device_capability(device) != _CAPABILITY:
        return "the kernels are written for compute capability 9.0 (H100, H200)"
    if bundle.dtype != torch.float16:
        return f"the kernels compute in float16, the weights are {bundle.dtype}"
    return misfit(bundle.config.networks)
