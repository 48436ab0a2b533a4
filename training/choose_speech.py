"""Choose how much of a run to take, and the guidance: ``python -m training.choose_speech EXPORTS CORPUS.npz``.

Every mixture of the trained speech networks with those of the bundle is tried with every guidance on the ``dev`` part
of the corpus: sentences that were not trained on, by a known voice and by voices never heard. The ``test`` part has no
say; ``--split test`` scores it once the choice is made. One row per mixture, guidance and voice, as tab separated text.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import nn

from newsstudio_ditto.networks.bundle import load_bundle
from newsstudio_ditto.networks.config import MINI, MINI_NETWORKS
from training.export import BUNDLED, EXPORTS, blend, read_networks
from training.speech_pool import LabelledSpeech, read_corpus
from training.speech_scores import LipScores, predict_gaps, score_gaps
from training.speech_set import DEV_VOICES, HELD_OUT_VOICE
from training.speech_training import SpeechNetworks, expression_basis, unit_gaps

SHARES, GUIDANCE = (0.0, 0.35, 0.5, 0.65, 0.8, 1.0), (1.0, 1.2, 1.4, 1.7, 2.0)
KNOWN_VOICE = "hibari"
SPLITS = {"dev": (KNOWN_VOICE, *DEV_VOICES), "test": (KNOWN_VOICE, HELD_OUT_VOICE)}


@dataclass(frozen=True)
class Trial:
    """One mixture and guidance.

    Args:
        share: of the trained networks; the bundle's have the rest.
        guidance: scale of the classifier-free guidance.
        scores: by voice.
    """

    share: float
    guidance: float
    scores: dict[str, LipScores]

    def unheard(self, name: str) -> float:
        """Mean of a figure over the voices other than the known one."""
        return float(np.mean([getattr(s, name) for voice, s in self.scores.items() if voice != KNOWN_VOICE]))


def mix_networks(trained: dict[str, nn.Module], before: dict[str, nn.Module], share: float) -> SpeechNetworks:
    """Speech networks whose weights lie between two sets, for scoring."""
    networks = SpeechNetworks(MINI_NETWORKS)
    for part, name in ((networks.encoder, "audio_encoder"), (networks.diffusion, "motion_diffusion")):
        part.load_state_dict(trained[name].state_dict())
        blend(part, before[name], share)
    return networks.eval()


def try_all(
    exports: Path,
    bundle: Path,
    spoken: dict[str, list[LabelledSpeech]],
    device: torch.device,
    *,
    shares: tuple[float, ...] = SHARES,
    guidance: tuple[float, ...] = GUIDANCE,
) -> Iterator[Trial]:
    """Score every mixture with every guidance on utterances by voice."""
    trained, loaded = read_networks(exports), load_bundle(bundle)
    before = {name: getattr(loaded, name) for name in EXPORTS["speech.safetensors"]}
    opened = unit_gaps(expression_basis()).numpy()
    for share in shares:
        networks = mix_networks(trained, before, share).to(device)
        for scale in guidance:
            scores = {}
            for voice, utterances in spoken.items():
                gaps = predict_gaps(networks, utterances, device, guidance_scale=scale)
                scores[voice] = score_gaps(gaps, utterances, opened)
            yield Trial(share, scale, scores)


def write_trial(trial: Trial) -> str:
    """Rows of one trial: each voice's figures, then the means over the voices never heard."""
    names = [field.name for field in fields(LipScores)]
    head = f"{trial.share:.2f}\t{trial.guidance:.1f}"
    rows = [
        "\t".join([head, voice, *(f"{getattr(scores, name):.3f}" for name in names)])
        for voice, scores in trial.scores.items()
    ]
    return "\n".join([*rows, "\t".join([head, "unheard", *(f"{trial.unheard(name):.3f}" for name in names)])]) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exports", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--bundle", type=Path, default=BUNDLED, help="whose weights the run began with")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--guidance", type=float, nargs="+", default=(MINI.guidance_scale,))
    parser.add_argument("--split", choices=sorted(SPLITS), default="dev")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    spoken = {voice: read_corpus(options.corpus, options.split, voice) for voice in SPLITS[options.split]}
    device = torch.device(options.device)
    sys.stdout.write("\t".join(["share", "guidance", "voice", *(field.name for field in fields(LipScores))]) + "\n")
    trials = try_all(
        options.exports,
        options.bundle,
        {voice: utterances for voice, utterances in spoken.items() if utterances},
        device,
        shares=tuple(options.shares),
        guidance=tuple(options.guidance),
    )
    for trial in trials:
        sys.stdout.write(write_trial(trial))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
