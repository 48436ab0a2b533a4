"""Put trained weights into a bundle: ``python -m training.export EXPORT_FOLDER [BUNDLE_FOLDER]``.

The export folder holds ``renderer.safetensors`` and ``speech.safetensors`` of a run; either may be missing. Networks
of the bundle that were not trained stay as they are; the crop of the training pictures is written into its settings.
``--speech-share 0.35`` takes that much of the trained speech networks and the rest of those that the bundle holds,
which a run that started from them allows: the mean of both hears new voices like the one and known ones like the other.
``--natural CORPUS.npz`` keeps the motion among motions that mouths make when they say what the corpus says.
"""

import argparse
import logging
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

import newsstudio_ditto
from newsstudio_ditto.networks.build import build_network
from newsstudio_ditto.networks.bundle import check_bundle, load_bundle, replace_networks
from newsstudio_ditto.networks.config import MINI
from training.ema import sub_state
from training.framing import TRAINING_CROP
from training.natural_motion import natural_map, put_into, spoken_units

log = logging.getLogger(__name__)

BUNDLED = Path(newsstudio_ditto.__file__).parent / "bundled" / "mini"
EXPORTS = {
    "renderer.safetensors": ("appearance", "warp", "decoder", "motion_extractor"),
    "speech.safetensors": ("audio_encoder", "motion_diffusion"),
}


def read_networks(folder: Path) -> dict[str, nn.Module]:
    """Networks of the exports that are there, by name."""
    networks: dict[str, nn.Module] = {}
    for file, names in EXPORTS.items():
        if not (folder / file).exists():
            continue
        weights = load_file(folder / file)
        for name in names:
            networks[name] = build_network(MINI.networks, name)
            networks[name].load_state_dict(sub_state(weights, name))
    return networks


def blend(trained: nn.Module, before: nn.Module, share: float) -> None:
    """Move trained weights towards those that a run began with; ``share`` of the trained ones is left.

    Raises:
        ValueError: the run began with a smaller network.
    """
    if share == 1:
        return
    begun = before.state_dict()
    if begun.keys() != trained.state_dict().keys():
        raise ValueError("the run began with a smaller network: take it whole, share 1")
    mixed = {
        name: torch.lerp(begun[name].float(), value, share) if value.is_floating_point() else value
        for name, value in trained.state_dict().items()
    }
    trained.load_state_dict(mixed)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exports", type=Path)
    parser.add_argument("bundle", type=Path, nargs="?", default=BUNDLED)
    parser.add_argument("--speech-share", type=float, default=1.0, help="of the trained speech networks, 0 to 1")
    parser.add_argument("--natural", type=Path, metavar="CORPUS", help="archive of training.speech_set")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    networks = read_networks(options.exports)
    if options.speech_share < 1:
        before = load_bundle(options.bundle)
        for name in EXPORTS["speech.safetensors"]:
            blend(networks[name], getattr(before, name), options.speech_share)
    if options.natural is not None:
        put_into(networks["motion_diffusion"], natural_map(spoken_units(options.natural)))
    replace_networks(options.bundle, networks, config=replace(MINI, crop=TRAINING_CROP))
    for finding in check_bundle(options.bundle):
        log.warning("%s", finding)
    log.info("replaced %s in %s", ", ".join(networks), options.bundle)


if __name__ == "__main__":
    main()
