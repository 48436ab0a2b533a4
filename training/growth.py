"""How the weights of a bundle grow into larger networks than its own, for a run to begin with.

What is new starts at zero where it would change the output, so a grown network computes what the small one did.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from newsstudio_ditto.networks.config import FEATURE_CELLS, NetworkConfig, picture_values
from newsstudio_ditto.networks.picture import PICTURE_COLOURS
from newsstudio_ditto.units import CROP_SIZE_PX

OPEN_GATE = 4.0
_LAST_LAYERS = ("picture.third", "picture.last", "pwconv2", "attention.out_proj", "feed_forward.output_dense")
_SILENT = tuple(f"{layer}.{kind}" for layer in _LAST_LAYERS for kind in ("weight", "bias"))


def with_picture(networks: NetworkConfig, picture_px: int = CROP_SIZE_PX) -> NetworkConfig:
    """The same networks, carrying a source picture of this size."""
    a, w = networks.appearance, networks.warp
    values = picture_values(picture_px, a.volume_px)
    channels, features = a.learned_channels + values // a.volume_depth, w.learned_features + values
    return replace(
        networks,
        appearance=replace(a, volume_channels=channels, picture_px=picture_px),
        warp=replace(w, volume_channels=channels, feature_channels=features, picture_px=picture_px),
        decoder=replace(networks.decoder, feature_channels=features, picture_px=picture_px),
    )


def with_finer_picture(decoder: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a decoder that took a picture of 256 px, for one that takes 512 px and gates what it copies.

    Whatever read a pixel reads the mean of the four in its place. What the coarse picture could not hold is added: the
    fine picture, less what is left of it when it is halved and enlarged (bilinear), through an open gate.
    """
    grown = dict(decoder)
    first, last = decoder["picture.first.weight"], decoder["picture.last.weight"]
    coarse = picture_values(CROP_SIZE_PX // 2, FEATURE_CELLS)
    grown["fc.weight"] = _split_pixels(decoder["fc.weight"], coarse)
    grown["picture.first.weight"] = _split_pixels(first, PICTURE_COLOURS)
    grown["picture.last.weight"] = _split_pixels(last, PICTURE_COLOURS)
    grown["picture.last.weight"][:, -4 * PICTURE_COLOURS :] += _fine_detail().to(last)
    grown["picture.gate.weight"] = first.new_zeros(4, last.shape[1] - PICTURE_COLOURS, 3, 3)
    grown["picture.gate.bias"] = first.new_full((4,), OPEN_GATE)
    return grown


def _split_pixels(weight: Tensor, values: int) -> Tensor:
    """Let the last ``values`` inputs of a convolution, a folded picture, come as four pixels each."""
    kept, pixels = weight.split_with_sizes([weight.shape[1] - values, values], dim=1)
    side = round((values // PICTURE_COLOURS) ** 0.5)
    cells = pixels.unflatten(1, (PICTURE_COLOURS, side, side))
    fine = cells.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3) / 4
    return torch.cat([kept, fine.flatten(1, 3)], dim=1)


def _fine_detail() -> Tensor:
    """Convolution (12, 12, 3, 3) over a picture folded by two: every pixel less its halved and enlarged picture."""
    near = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.75, 0.25]])
    detail = torch.zeros(PICTURE_COLOURS, 2, 2, PICTURE_COLOURS, 2, 2, 3, 3)
    for colour in range(PICTURE_COLOURS):
        for down in range(2):
            for across in range(2):
                detail[colour, down, across, colour] -= near[down][:, None] * near[across] / 4
                detail[colour, down, across, colour, down, across, 1, 1] += 1
    return detail.flatten(3, 5).flatten(0, 2)


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
