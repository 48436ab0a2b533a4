"""Warp and decoder for inference, as one function of the engine's three inputs."""

from torch import Tensor

from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.warp import WarpingNetwork
from newsstudio_ditto.render.fast.decoder import FastDecoder
from newsstudio_ditto.render.fast.operators import TorchOperators
from newsstudio_ditto.render.fast.warp import FastWarp


class FastCore:
    """What ``decoder(warp(...))`` computes, from rewritten networks.

    Args:
        warp: the loaded network, on its device and in the dtype to run in; it is only read.
        decoder: likewise.
        operators: the steps; plain torch or kernels.
    """

    def __init__(self, warp: WarpingNetwork, decoder: SpadeDecoder, operators: TorchOperators) -> None:
        """Rewrite both networks."""
        self.warp = FastWarp(warp, operators)
        self.decoder = FastDecoder(decoder, operators)

    def __call__(self, volume: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        """Pictures (B, 3, 8h, 8w), 0..1, of volumes (B, C, D, h, w) and keypoints (B, 21, 3) float32."""
        return self.decoder(self.warp(volume, source_keypoints, driving_keypoints))
