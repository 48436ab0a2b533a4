"""One run of appearance, warp, decoder and motion extractor: settings, steps, scores, checkpoints."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from newsstudio_ditto.networks.bundle import load_bundle
from newsstudio_ditto.networks.config import MINI_NETWORKS, NetworkConfig
from newsstudio_ditto.networks.motion_extractor import MotionExtractor
from training.augment import degrade, disguise, jitter_colour
from training.ema import RunningMean, half_weights, save_state, save_weights
from training.landmark_features import LandmarkFeatures
from training.losses import (
    PatchCritic,
    critic_losses,
    face_square,
    hinge_loss,
    landmark_loss,
    native_centres,
    native_patches,
    pixel_losses,
)
from training.pool import Pair, PictureSet, join, sample_pairs, sample_singles
from training.renderer_model import Renderer, evaluate_motion, evaluate_renderer, motion_loss

LANDMARK_WEIGHT, ADVERSARIAL_WEIGHT, MATCHING_WEIGHT = 0.3, 0.03, 0.3
KEYPOINT_NOISE = 0.006
FINAL_RATE = 0.03


@dataclass(frozen=True)
class RendererOptions:
    """Settings of a run; each is a command line option of the same name.

    Args:
        run: folder of checkpoints and exports.
        heads: folder that the head workers fill.
        anchor, extra: packed pictures of the demo's person, and of an earlier look of it.
        start: folder of a bundle to begin with; its untrained networks are not taken.
        seconds: length of the whole schedule, over all calls.
        people, held_out, frames, size: pool of heads.
        min_people, patience: training starts with fewer people after that many seconds.
        batch, motion_batch: pictures of a step.
        rate, motion_rate, warmup: learning rates at their peak, steps until then.
        anchor_share, anchor_share_late: share of anchor pictures before and after the critic sets in.
        extra_share: share of the extra pictures in those.
        critic_from: share of the schedule after which the critic takes part.
        device, seed: where, and from which seed.
    """

    run: Path = Path("run")
    heads: Path = Path("heads")
    anchor: Path | None = None
    extra: Path | None = None
    start: Path | None = None
    seconds: float = 1000.0
    people: int = 800
    held_out: int = 32
    frames: int = 24
    size: int = 640
    min_people: int = 200
    patience: float = 75.0
    batch: int = 32
    motion_batch: int = 96
    rate: float = 3e-4
    motion_rate: float = 1.5e-3
    warmup: int = 100
    anchor_share: float = 0.25
    anchor_share_late: float = 0.45
    extra_share: float = 0.3
    critic_from: float = 0.5
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
        self.step, self.elapsed_s = 0, 0.0
        self.history: list[dict[str, float]] = []

    def _begin_with(self, folder: Path) -> None:
        bundle = load_bundle(folder)
        parts = {name: self.renderer.get_submodule(name) for name in ("appearance", "warp", "decoder")}
        for name, part in (parts | {"motion_extractor": self.extractor}).items():
            if name not in bundle.untrained:
                part.load_state_dict(getattr(bundle, name).state_dict())

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16)

    def _parts(self) -> dict[str, nn.Module]:
        means = {f"{name}_mean": mean.module for name, mean in self.means.items()}
        own = {"renderer": self.renderer, "extractor": self.extractor}
        return own | {"face_critic": self.face_critic, "patch_critic": self.patch_critic} | means

    def _batch(self, pictures: Pictures, anchor_share: float) -> Pair:
        options = self.options
        num_anchor = round(options.batch * anchor_share) if pictures.anchor is not None else 0
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
        return Pair(degrade(source, 0.15), target, pair.source_keypoints + noise, pair.target_keypoints + noise)

    def renderer_step(self, pictures: Pictures, *, anchor_share: float, with_critic: bool) -> dict[str, Tensor]:
        """One optimiser step of appearance, warp and decoder, and of the critics if they take part."""
        pair = self._batch(pictures, anchor_share)
        with self._autocast():
            output = self.renderer(pair.source, pair.source_keypoints, pair.target_keypoints)
        pixels, edges = pixel_losses(output, pair.target, pair.target_keypoints)
        losses = {"pixels": pixels, "edges": edges}
        faces = [face_square(x, pair.target_keypoints) for x in (output, pair.target)]
        centres = native_centres(pair.target_keypoints, output.shape[-1])
        with self._autocast():
            losses["landmarks"] = LANDMARK_WEIGHT * landmark_loss(self.features, *faces)
            views = [(self.face_critic, *faces)]
            if with_critic:
                views.append((self.patch_critic, *(native_patches(x, centres) for x in (output, pair.target))))
                for critic, fake, real in views:
                    adversarial, matching = critic_losses(critic, fake, real)
                    losses["critic"] = (
                        losses.get("critic", 0) + ADVERSARIAL_WEIGHT * adversarial + MATCHING_WEIGHT * matching
                    )
        self._apply("renderer", sum(losses.values()), self.renderer)
        if with_critic:
            with self._autocast():
                hinge = sum(hinge_loss(critic, fake.detach(), real) for critic, fake, real in views)
            self._apply("critics", hinge, None)
            losses["hinge"] = hinge
        self.means["renderer"].update(self.renderer, self.step + 1)
        return losses

    def motion_step(self, pictures: Pictures) -> dict[str, Tensor]:
        """One optimiser step of the motion extractor."""
        num = self.options.motion_batch
        num_anchor = num // 8 if pictures.anchor is not None else 0
        parts = [sample_singles(pictures.heads, num - num_anchor)]
        if pictures.anchor is not None and num_anchor:
            parts.append(sample_singles(pictures.anchor, num_anchor, jitter=0.5))
        images = disguise(torch.cat([images for images, _ in parts]))
        labels = type(parts[0][1])(
            *(torch.cat(columns) for columns in zip(*(labels for _, labels in parts), strict=True))
        )
        with self._autocast():
            output = self.extractor(images)
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
        anchor_share = self.options.anchor_share_late if late else self.options.anchor_share
        losses = self.renderer_step(pictures, anchor_share=anchor_share, with_critic=late) | self.motion_step(pictures)
        self.step += 1
        return losses

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

    def save(self) -> None:
        """Checkpoint, and export of the running means."""
        state: dict[str, object] = {"step": self.step, "elapsed_s": self.elapsed_s, "history": self.history}
        state |= {name: part.state_dict() for name, part in self._parts().items()}
        state |= {f"optimiser_{name}": optimiser.state_dict() for name, optimiser in self.optimisers.items()}
        save_state(state, self.options.run / "renderer.pt")
        renderer = self.means["renderer"].module
        weights: dict[str, Tensor] = {}
        for name in ("appearance", "warp", "decoder"):
            weights |= half_weights(renderer.get_submodule(name), name)
        weights |= half_weights(self.means["extractor"].module, "motion_extractor")
        save_weights(weights, self.options.run / "export" / "renderer.safetensors")
        (self.options.run / "export" / "renderer.json").write_text(json.dumps(self.history, indent=1))

    def resume(self) -> bool:
        """Go on from the checkpoint of an earlier call, if there is one."""
        path = self.options.run / "renderer.pt"
        if not path.exists():
            return False
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.step, self.elapsed_s, self.history = state["step"], state["elapsed_s"], state["history"]
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state[f"optimiser_{name}"])
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
