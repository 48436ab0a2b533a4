"""Run every trainer for real, at toy size, on the CPU: ``python -m training.smoke [--full]``.

The short form takes under a minute and needs no GL: its pictures and its speech are committed. ``--full`` trains the
real widths for about five minutes on the same pictures. Each checks that losses are finite and fall, that a
checkpoint resumes, and that exports load.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from newsstudio_ditto.networks.config import (
    MINI_NETWORKS,
    AppearanceConfig,
    AudioEncoderConfig,
    DecoderConfig,
    DenseMotionConfig,
    MotionDiffusionConfig,
    MotionExtractorConfig,
    NetworkConfig,
    WarpConfig,
)
from training.growth import with_picture
from training.pool import PictureSet
from training.renderer_training import Pictures, RendererOptions, RendererTraining
from training.speech_pool import SpeechPool, read_corpus
from training.speech_training import SpeechOptions, SpeechTraining
from training.train_renderer import run_training
from training.train_speech import run_training as run_speech

log = logging.getLogger(__name__)

BATCH_SEED = 7
ASSETS = Path(__file__).parent / "assets"
PLAIN_TOY_NETWORKS = NetworkConfig(
    appearance=AppearanceConfig(block_expansion=8, volume_channels=4, volume_depth=4, num_resblocks=1),
    motion_extractor=MotionExtractorConfig(depths=(1, 1, 1, 1), widths=(8, 16, 24, 32)),
    warp=WarpConfig(
        volume_channels=4,
        volume_depth=4,
        feature_channels=16,
        dense_motion=DenseMotionConfig(
            block_expansion=4,
            max_features=16,
            num_blocks=2,
            motion_grid_px=32,
            mask_kernel=3,
            occlusion_kernel=3,
            final_block=False,
        ),
    ),
    decoder=DecoderConfig(
        feature_channels=16,
        channels=16,
        hidden_channels=8,
        num_middle_blocks=1,
        up_channels=(12, 8),
        upsampling="pixel_shuffle",
    ),
    motion_diffusion=replace(MINI_NETWORKS.motion_diffusion, latent=32, num_layers=1, feed_forward=32, audio_dim=32),
    audio_encoder=AudioEncoderConfig(
        hidden=32,
        num_layers=1,
        num_heads=2,
        feed_forward=32,
        conv_widths=(8,) * 7,
        position_kernel=8,
        position_groups=2,
    ),
)
TOY_NETWORKS = with_picture(PLAIN_TOY_NETWORKS)
assert isinstance(TOY_NETWORKS.motion_diffusion, MotionDiffusionConfig)


class SmokeError(Exception):
    """A trainer did not do what it should."""


def load_heads(path: Path) -> PictureSet:
    """The committed people."""
    with np.load(path) as pack:
        people, frames = pack["keypoints"].shape[:2]
        raw = [[pack[f"webp/{p}/{i}"] for i in range(frames)] for p in range(people)]
        images = [[cv2.cvtColor(cv2.imdecode(r, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB) for r in row] for row in raw]
        names = ("keypoints", "canonical", "angles_deg", "scale", "crops", "jaw")
        heads = PictureSet.empty(people, frames, images[0][0].shape[0], torch.device("cpu"))
        for person in range(people):
            heads.put(person, np.stack(images[person]), {name: pack[name][person] for name in names})
    return heads.halve()


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise SmokeError(what)


def _require_falling(
    step: Callable[[], dict[str, Tensor]], names: tuple[str, ...], *, steps: int, seconds: float
) -> None:
    """Take the same batch as the first and as the last step: losses on it have to be smaller then."""
    began = time.monotonic()
    torch.manual_seed(BATCH_SEED)
    first = step()
    taken = 1
    while taken < steps or time.monotonic() - began < seconds:
        step()
        taken += 1
    torch.manual_seed(BATCH_SEED)
    last = step()
    for name in names:
        before, after = float(first[name].detach()), float(last[name].detach())
        log.info("%s: %.3f -> %.3f in %d steps", name, before, after, taken)
        _require(bool(np.isfinite([before, after]).all()), f"the loss {name} is not finite")
        _require(after < before, f"the loss {name} does not fall ({before:.3f} -> {after:.3f})")


def smoke_renderer(folder: Path, config: NetworkConfig, *, steps: int, seconds: float) -> None:
    """Train appearance, warp, decoder and motion extractor, with the critics in the second half."""
    heads = load_heads(ASSETS / "smoke_heads.npz")
    pictures = Pictures(heads.head(2), heads.head(1), anchor=heads.head(1))
    options = RendererOptions(
        run=folder,
        seconds=1e9,
        batch=2,
        motion_batch=4,
        warmup=2,
        device="cpu",
        critic_from=2.0,
        rate=2e-3,
        exactness_weight=0.01,
    )
    training = RendererTraining(options, config)
    _require_falling(lambda: training.train_step(pictures), ("pixels", "motion"), steps=steps, seconds=seconds)
    losses = training.renderer_step(pictures, anchor_share=0.5, with_critic=True)
    _require(bool(torch.isfinite(losses["critic"] + losses["hinge"])), "critic: a loss is not finite")
    training.save()
    again = RendererTraining(replace(options, seconds=0.0), config)
    _require(again.resume() and again.step == training.step, "renderer: the checkpoint does not resume")
    run_training(again, pictures)
    _require("heads_face_db" in again.history[-1], "renderer: no scores")
    _require((folder / "best" / "renderer.safetensors").exists(), "renderer: the best weights were not kept")
    exported = load_file(folder / "export" / "renderer.safetensors")
    _require(all(torch.isfinite(v).all() for v in exported.values()), "renderer: the export is not finite")


def smoke_speech(folder: Path, config: NetworkConfig, *, steps: int, seconds: float) -> None:
    """Train audio encoder and motion diffusion."""
    corpus = ASSETS / "smoke_speech.npz"
    pool = SpeechPool(read_corpus(corpus, "train"), torch.device("cpu"))
    options = SpeechOptions(run=folder, corpus=corpus, seconds=1e9, batch=2, warmup=4, motion_from=0.0, device="cpu")
    training = SpeechTraining(options, config)
    _require_falling(lambda: training.train_step(pool), ("phones", "units", "motion"), steps=steps, seconds=seconds)
    training.save()
    again = SpeechTraining(replace(options, seconds=0.0), config)
    _require(again.resume() and again.step == training.step, "speech: the checkpoint does not resume")
    run_speech(again, pool, {"hibari": read_corpus(corpus, "test", "hibari")})
    _require("hibari_correlation" in again.history[-1], "speech: no scores")
    exported = load_file(folder / "export" / "speech.safetensors")
    _require(all(torch.isfinite(v).all() for v in exported.values()), "speech: the export is not finite")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="real widths, about five minutes")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    began = time.monotonic()
    config, seconds = (MINI_NETWORKS, 110.0) if options.full else (TOY_NETWORKS, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        smoke_renderer(Path(folder), config, steps=6, seconds=seconds)
        smoke_speech(Path(folder), config, steps=50, seconds=seconds)
    log.info("done in %.0f s", time.monotonic() - began)


if __name__ == "__main__":
    main()
