"""One run of appearance, warp, decoder and motion extractor: settings, steps, scores, checkpoints."""

import copy
import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from newsstudio_ditto.networks.bundle import load_bundle
from newsstudio_ditto.networks.config import MINI_NETWORKS, NetworkConfig
from newsstudio_ditto.networks.motion_extractor import MotionExtractor
from training.augment import degrade, disguise, jitter_colour, mirror_some
from training.ema import RunningMean, half_weights
from training.files import save_state, save_weights
from training.growth import grow_into, with_finer_picture
from training.labels import MotionLabels
from training.landmark_features import LandmarkFeatures
from training.losses import (
    PatchCritic,
    critic_losses,
    edge_energy_loss,
    face_square,
    hinge_loss,
    landmark_loss,
    native_centres,
    native_patches,
    pixel_losses,
    relative_square_loss,
)
from training.pool import CROP_PX, Pair, PictureSet, join, sample_pairs, sample_singles
from training.renderer_model import Renderer, evaluate_motion, evaluate_renderer, motion_loss

log = logging.getLogger(__name__)

LANDMARK_WEIGHT, ADVERSARIAL_WEIGHT, MATCHING_WEIGHT = 0.3, 0.03, 0.3
SQUARE_WEIGHT = 10.0
CRITIC_FADE_FROM, CRITIC_LEFT = 0.75, 0.35
# The fixed vertices are up to 3 px from each other's mirror images, so mirrored faces have to go before the end.
MIRROR_SHARE, MIRROR_UNTIL = 0.5, 0.6
KEYPOINT_NOISE = 0.006
FINAL_RATE = 0.03
EXACTNESS = ("heads_crop_db", "heads_mouth_db", "anchor_crop_db", "anchor_mouth_db")
"""Scores whose sum decides which weights of a run are the best."""


@dataclass(frozen=True)
class RendererOptions:
    """Settings of a run; each is a command line option of the same name.

    Args:
        run: folder of checkpoints and exports.
        heads: folder that the head workers fill.
        anchor, extra: packed pictures of the demo's person, and of an earlier look of it.
        fresh_anchor: packed pictures that take the place of ``anchor`` whenever this file appears or is replaced.
        start: folder of a bundle to begin with; its untrained networks are not taken.
        seconds: length of the whole schedule, over all calls.
        until: seconds since 1970 at which the schedule is over, whenever training starts; 0 leaves it to ``seconds``.
        people, held_out, frames, size: pool of heads.
        min_people, patience: training starts with fewer people after that many seconds.
        batch, motion_batch: pictures of a step.
        motion_every: the motion extractor is trained at every so many steps; 0 leaves it as it is.
        energy_weight, energy_weight_heads: of the loss that compares the strength of edges, on the demo's person and
            on others: more makes pictures sharper and less exact.
        exactness_weight: of the logarithm of each picture's squared error.
        rate, motion_rate, warmup: learning rates at their peak, steps until then.
        anchor_share, anchor_share_late: share of anchor pictures before and after the critic sets in or fresh
            anchor pictures arrive.
        extra_share: share of the extra pictures in those.
        critic_from: share of the schedule after which the critic takes part; towards the end it weighs less.
        compiled: compile the networks; takes about a minute while the heads are drawn, and makes steps shorter.
        device, seed: where, and from which seed.
    """

    run: Path = Path("run")
    heads: Path = Path("heads")
    anchor: Path | None = None
    extra: Path | None = None
    fresh_anchor: Path | None = None
    start: Path | None = None
    seconds: float = 1000.0
    until: float = 0.0
    people: int = 800
    held_out: int = 32
    frames: int = 24
    size: int = 640
    min_people: int = 200
    patience: float = 75.0
    batch: int = 32
    motion_batch: int = 96
    motion_every: int = 1
    energy_weight: float = 0.5
    energy_weight_heads: float = 0.5
    exactness_weight: float = 0.0
    rate: float = 3e-4
    motion_rate: float = 1.5e-3
    warmup: int = 100
    anchor_share: float = 0.25
    anchor_share_late: float = 0.45
    extra_share: float = 0.3
    critic_from: float = 0.5
    compiled: int = 0
    device: str = "cuda"
    seed: int = 0


@dataclass(frozen=True)
class Pictures:
    """All picture sets of a run."""

    heads: PictureSet
    held_out: PictureSet
    anchor: PictureSet | None = None
    anchor_held: PictureSet | None = None
    extra: PictureSet | None = None
    is_fresh: bool = False


class RendererTraining:
    """Networks, their running means and optimisers; one step at a time.

    Args:
        options: of the run.
        config: widths of the networks.
    """

    def __init__(self, options: RendererOptions, config: NetworkConfig = MINI_NETWORKS) -> None:
        torch.manual_seed(options.seed)
        self.options, self.device = options, torch.device(options.device)
        self.renderer, self.extractor = (
            Renderer(config).to(self.device),
            MotionExtractor(config.motion_extractor).to(self.device),
        )
        self.face_critic, self.patch_critic = PatchCritic().to(self.device), PatchCritic((48, 96, 192)).to(self.device)
        self.features = LandmarkFeatures().to(self.device).eval()
        if options.start is not None:
            self._begin_with(options.start)
        if self.device.type == "cuda":
            self.renderer.decoder.to(memory_format=torch.channels_last)
        self._draw, self._read, self._see, self._compare = self._runners()
        self.means = {"renderer": RunningMean(self.renderer), "extractor": RunningMean(self.extractor, 0.999)}
        fused = self.device.type == "cuda"
        critics = [*self.face_critic.parameters(), *self.patch_critic.parameters()]
        self.optimisers = {
            "renderer": torch.optim.AdamW(
                self.renderer.parameters(), options.rate, (0.9, 0.99), weight_decay=1e-4, fused=fused
            ),
            "extractor": torch.optim.AdamW(
                self.extractor.parameters(), options.motion_rate, (0.9, 0.99), weight_decay=0.02, fused=fused
            ),
            "critics": torch.optim.AdamW(critics, 3e-4, (0.5, 0.99), fused=fused),
        }
        self.step, self.elapsed_s, self.best = 0, 0.0, -math.inf
        self.history: list[dict[str, float]] = []

    def _begin_with(self, folder: Path) -> None:
        bundle = load_bundle(folder)
        parts = {name: self.renderer.get_submodule(name) for name in ("appearance", "warp", "decoder")}
        is_coarse = bundle.config.networks.decoder.picture_px == CROP_PX // 2
        for name, part in (parts | {"motion_extractor": self.extractor}).items():
            if name not in bundle.untrained:
                state = getattr(bundle, name).state_dict()
                grow_into(part, with_finer_picture(state) if name == "decoder" and is_coarse else state)

    def _runners(self) -> tuple[Callable[..., Any], ...]:
        """Renderer, motion extractor, landmark features and pixel losses, compiled if that is asked for."""
        plain = (self.renderer, self.extractor, self.features, pixel_losses)
        if not self.options.compiled:
            return plain
        return tuple(torch.compile(part, dynamic=False) for part in plain)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def _parts(self) -> dict[str, nn.Module]:
        means = {f"{name}_mean": mean.module for name, mean in self.means.items()}
        own = {"renderer": self.renderer, "extractor": self.extractor}
        return own | {"face_critic": self.face_critic, "patch_critic": self.patch_critic} | means

    def _num_anchor(self, pictures: Pictures, share: float) -> int:
        """Pictures of the demo's person in a batch, which come last."""
        return round(self.options.batch * share) if pictures.anchor is not None else 0

    def _batch(self, pictures: Pictures, anchor_share: float) -> Pair:
        options = self.options
        num_anchor = self._num_anchor(pictures, anchor_share)
        num_extra = round(num_anchor * self.options.extra_share) if pictures.extra is not None else 0
        pairs = [sample_pairs(pictures.heads, options.batch - num_anchor)]
        if pictures.anchor is not None and num_anchor:
            pairs.append(sample_pairs(pictures.anchor, num_anchor - num_extra, jitter=0.4))
        if pictures.extra is not None and num_extra:
            pairs.append(sample_pairs(pictures.extra, num_extra, jitter=0.4))
        pair = join(pairs)
        source, target = jitter_colour(pair.source, pair.target)
        noise = (
            torch.randn_like(pair.source_keypoints)
            * KEYPOINT_NOISE
            * (torch.rand(options.batch, 1, 1, device=self.device) < 0.5)
        )
        return Pair(degrade(source, 0.1, 0.3), target, pair.source_keypoints + noise, pair.target_keypoints + noise)

    def renderer_step(
        self, pictures: Pictures, *, anchor_share: float, with_critic: bool, critic_weight: float = 1.0
    ) -> dict[str, Tensor]:
        """One optimiser step of appearance, warp and decoder, and of the critics if they take part."""
        pair = self._batch(pictures, anchor_share)
        with self._autocast():
            output = self._draw(pair.source, pair.source_keypoints, pair.target_keypoints)
        pixels, edges, squares = self._compare(output, pair.target, pair.target_keypoints)
        losses = {"pixels": pixels, "edges": edges, "squares": SQUARE_WEIGHT * squares}
        faces = [face_square(x, pair.target_keypoints) for x in (output, pair.target)]
        centres = native_centres(pair.target_keypoints, output.shape[-1])
        patches = [native_patches(x, centres) for x in (output, pair.target)]
        losses["energy"] = self._edge_loss(*patches, self._num_anchor(pictures, anchor_share))
        if self.options.exactness_weight:
            exactness = relative_square_loss(output, pair.target, pair.target_keypoints)
            losses["exactness"] = self.options.exactness_weight * exactness
        with self._autocast():
            losses["landmarks"] = LANDMARK_WEIGHT * landmark_loss(self._see, *faces)
            views = [(self.face_critic, *faces)]
            if with_critic:
                views.append((self.patch_critic, *patches))
                for critic, fake, real in views:
                    adversarial, matching = critic_losses(critic, fake, real)
                    both = critic_weight * (ADVERSARIAL_WEIGHT * adversarial + MATCHING_WEIGHT * matching)
                    losses["critic"] = losses.get("critic", 0) + both
        self._apply("renderer", sum(losses.values()), self.renderer)
        if with_critic:
            with self._autocast():
                hinge = sum(hinge_loss(critic, fake.detach(), real) for critic, fake, real in views)
            self._apply("critics", hinge, None)
            losses["hinge"] = hinge
        self.means["renderer"].update(self.renderer, self.step + 1)
        return losses

    def _edge_loss(self, output: Tensor, wanted: Tensor, num_anchor: int) -> Tensor:
        """Of patches (2B, 3, S, S), two of each picture; those of the demo's person come last in each half."""
        options = self.options
        weights = output.new_full((options.batch,), options.energy_weight_heads)
        weights[options.batch - num_anchor :] = options.energy_weight
        return (edge_energy_loss(output, wanted).unflatten(0, (2, -1)) * weights).mean()

    def motion_step(self, pictures: Pictures, mirror_share: float = MIRROR_SHARE) -> dict[str, Tensor]:
        """One optimiser step of the motion extractor."""
        num = self.options.motion_batch
        num_anchor = num // 8 if pictures.anchor is not None else 0
        parts = [sample_singles(pictures.heads, num - num_anchor)]
        if pictures.anchor is not None and num_anchor:
            parts.append(sample_singles(pictures.anchor, num_anchor, jitter=0.5))
        labels = MotionLabels(*(torch.cat(columns) for columns in zip(*(labels for _, labels in parts), strict=True)))
        images, labels = mirror_some(torch.cat([images for images, _ in parts]), labels, mirror_share)
        with self._autocast():
            output = self._read(disguise(images))
        loss, error = motion_loss(output, labels)
        self._apply("extractor", loss, self.extractor)
        self.means["extractor"].update(self.extractor, self.step + 1)
        return {"motion": loss, "motion_px": error * 256}

    def _apply(self, name: str, loss: Tensor, clipped: nn.Module | None) -> None:
        self.optimisers[name].zero_grad(set_to_none=True)
        loss.backward()
        if clipped is not None:
            torch.nn.utils.clip_grad_norm_(clipped.parameters(), 1.0)
        self.optimisers[name].step()

    def set_rates(self) -> float:
        """Warm-up, a plateau of a quarter, then a cosine; returns the share of the schedule that is over."""
        share = min(self.elapsed_s / self.options.seconds, 1.0)
        fall = max(0.0, (share - 0.25) / 0.75)
        curve = FINAL_RATE + (1 - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * fall))
        warm = min(1.0, (self.step + 1) / self.options.warmup)
        for name, peak in (("renderer", self.options.rate), ("extractor", self.options.motion_rate)):
            for group in self.optimisers[name].param_groups:
                group["lr"] = peak * curve * warm
        return share

    def train_step(self, pictures: Pictures) -> dict[str, Tensor]:
        """One step of everything."""
        share = self.set_rates()
        late = share >= self.options.critic_from
        anchor_share = self.options.anchor_share_late if late or pictures.is_fresh else self.options.anchor_share
        fade = max(0.0, (share - CRITIC_FADE_FROM) / (1 - CRITIC_FADE_FROM))
        losses = self.renderer_step(
            pictures, anchor_share=anchor_share, with_critic=late, critic_weight=1 - (1 - CRITIC_LEFT) * fade
        )
        if self._trains_motion:
            losses |= self.motion_step(pictures, MIRROR_SHARE if share < MIRROR_UNTIL else 0.0)
        self.step += 1
        return losses

    @property
    def _trains_motion(self) -> bool:
        return bool(self.options.motion_every) and self.step % self.options.motion_every == 0

    def set_length(self, seconds: float) -> None:
        """Change the length of the whole schedule."""
        self.options = replace(self.options, seconds=max(seconds, 1.0))

    def warm_up(self) -> None:
        """Take every kind of step once on noise, so that compilation and the search for convolutions are over."""
        options, before = self.options, copy.deepcopy(self._state())
        pictures = Pictures(
            *(PictureSet.noise(2, 2, options.size, self.device) for _ in range(2)),
            anchor=PictureSet.noise(1, 2, CROP_PX, self.device),
        )
        try:
            for with_critic in (False, True, True):
                self.renderer_step(pictures, anchor_share=options.anchor_share, with_critic=with_critic)
                if self._trains_motion:
                    self.motion_step(pictures)
        except RuntimeError:  # what the compiler raises; the run is worth more than its speed
            log.warning("the networks do not compile here and run as they are", exc_info=True)
            self.options = replace(options, compiled=0)
            self._draw, self._read, self._see, self._compare = self._runners()
        self._restore(before)

    def score(self, pictures: Pictures) -> dict[str, float]:
        """Held-out quality of the running means; writes ``preview.jpg``."""
        renderer, extractor = self.means["renderer"].module, self.means["extractor"].module
        result: dict[str, float] = {}
        rows: list[Tensor] = []
        for name, held, frames in (("heads", pictures.held_out, 6), ("anchor", pictures.anchor_held, 12)):
            if held is None:
                continue
            with self._autocast():
                scores, examples = evaluate_renderer(renderer, held, frames=frames)
                result[f"{name}_motion_px"] = evaluate_motion(extractor, held)
            result |= {f"{name}_{key}": value for key, value in scores.items()}
            rows += examples[:6] if name == "heads" else examples
        write_preview(rows, self.options.run / "preview.jpg")
        return result

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"step": self.step, "elapsed_s": self.elapsed_s, "best": self.best}
        state["history"] = self.history
        state |= {name: part.state_dict() for name, part in self._parts().items()}
        return state | {f"optimiser_{name}": optimiser.state_dict() for name, optimiser in self.optimisers.items()}

    def _restore(self, state: dict[str, Any]) -> None:
        self.step, self.elapsed_s, self.history = state["step"], state["elapsed_s"], state["history"]
        self.best = state["best"]
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state[f"optimiser_{name}"])

    def save(self) -> None:
        """Checkpoint, and export of the running means."""
        save_state(self._state(), self.options.run / "renderer.pt")
        self.export(self.options.run / "export")
        (self.options.run / "export" / "renderer.json").write_text(json.dumps(self.history, indent=1))

    def export_if_best(self, scores: dict[str, float]) -> bool:
        """Keep the weights in ``RUN/best`` if pictures never were so exact before: a run may fall apart later."""
        exact = sum(scores.get(name, 0.0) for name in EXACTNESS)
        if not exact > self.best:  # nor where a score is missing
            return False
        self.best = exact
        self.export(self.options.run / "best")
        return True

    def export(self, folder: Path) -> None:
        """Write the running means, for :mod:`training.export`."""
        renderer = self.means["renderer"].module
        weights: dict[str, Tensor] = {}
        for name in ("appearance", "warp", "decoder"):
            weights |= half_weights(renderer.get_submodule(name), name)
        weights |= half_weights(self.means["extractor"].module, "motion_extractor")
        save_weights(weights, folder / "renderer.safetensors")

    def resume(self) -> bool:
        """Go on from the checkpoint of an earlier call, if there is one."""
        path = self.options.run / "renderer.pt"
        if not path.exists():
            return False
        self._restore(torch.load(path, map_location=self.device, weights_only=True))
        return True


def write_preview(rows: list[Tensor], path: Path) -> None:
    """Source, target, output per row, two rows side by side, at half size."""
    if not rows:
        return
    images = [(row.clamp(0, 1) * 255).byte().permute(1, 2, 0).cpu().numpy() for row in rows]
    pairs = [np.hstack(images[i : i + 2]) for i in range(0, len(images) - 1, 2)]
    sheet = cv2.cvtColor(np.vstack(pairs), cv2.COLOR_RGB2BGR)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(
        str(path), cv2.resize(sheet, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), [cv2.IMWRITE_JPEG_QUALITY, 90]
    )
