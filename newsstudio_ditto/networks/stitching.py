"""Stitching network (S): moves driving keypoints so that the face joins the neck of the source."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.networks.config import StitchingConfig
from newsstudio_ditto.units import NUM_KEYPOINTS


class StitchingNetwork(nn.Module):
    """A small perceptron that predicts a correction of each keypoint and one shift of all.

    Args:
        config: hidden widths.
    """

    def __init__(self, config: StitchingConfig) -> None:
        """Build the layers."""
        super().__init__()
        self.config = config
        widths = (2 * 3 * NUM_KEYPOINTS, *config.hidden)
        layers: list[nn.Module] = []
        for narrow, wide in pairwise(widths):
            layers += [nn.Linear(narrow, wide), nn.ReLU()]
        self.mlp = nn.Sequential(*layers, nn.Linear(widths[-1], 3 * NUM_KEYPOINTS + 2))

    def reset_to_identity(self) -> None:
        """Zero the last layer in place: the network then returns the driving keypoints unchanged."""
        last = self.mlp[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def predict_delta(self, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        """Corrections (B, 65): 63 of the keypoints, then the shift of all in x and y. Keypoints (B, 21, 3)."""
        pair = torch.cat([source_keypoints.flatten(1), driving_keypoints.flatten(1)], dim=1)
        delta: Tensor = self.mlp(pair)
        return delta

    def forward(self, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        """Corrected driving keypoints.

        Args:
            source_keypoints: (B, 21, 3), posed.
            driving_keypoints: (B, 21, 3), posed.

        Returns:
            (B, 21, 3).
        """
        delta = self.predict_delta(source_keypoints, driving_keypoints)
        each = delta[:, :-2].view(-1, NUM_KEYPOINTS, 3)
        together = functional.pad(delta[:, None, -2:], (0, 1))
        return driving_keypoints + each + together
