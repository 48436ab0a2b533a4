"""One run of audio encoder and motion diffusion: settings, networks, steps, checkpoints."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.maths.audio_windows import WINDOW_SAMPLES, WINDOW_STRIDE, merge_rows
from newsstudio_ditto.maths.diffusion import cumulative_alphas
from newsstudio_ditto.maths.motion_vector import EXPRESSION_START
from newsstudio_ditto.networks.audio_encoder import AudioEncoder
from newsstudio_ditto.networks.bundle import load_bundle
from newsstudio_ditto.networks.config import MINI_NETWORKS, NetworkConfig
from newsstudio_ditto.networks.motion_diffusion import EncodedCondition, MotionDenoiser
from newsstudio_ditto.units import MOTION_DIM, NUM_POSE_BINS
from training.ema import RunningMean, half_weights
from training.files import save_state, save_weights
from training.growth import grow_into
from training.head_model import expression_offsets, head_pack
from training.speech_pool import (
    CLOSED,
    LABELS_PER_FRAME,
    NUM_WINDOWS,
    Segments,
    SpeechPool,
    make_noisy,
)
from training.viseme import PHONE_NAMES, UNITS, unit_coefficients
from training.voice_change import change_voice

FIRST_ROW, LAST_ROW = 6, 16
UNIT_WEIGHT, MOTION_WEIGHT, VELOCITY_WEIGHT, STILL_WEIGHT, GAP_WEIGHT = 6.0, 1.0, 1.0, 20.0, 0.7
UPPER_LIP_Y, LOWER_LIP_Y = 1, 4  # of the expression's 63 numbers
SPREAD_SHARE, LEAST_SPREAD = 0.12, 0.004
CONDITION_DROPOUT = 0.1
BASIS_STRENGTH = 0.3
FIRST_OUTPUT_SCALE = 0.02
FINAL_RATE = 0.03


@dataclass(frozen=True)
class SpeechOptions:
    """Settings of a run; each is a command line option of the same name.

    Args:
        run: folder of checkpoints and exports.
        corpus: archive of ``training.speech_set``.
        wait_for: start once this file exists.
        start: folder of a bundle whose encoder and diffusion to begin with; smaller ones grow.
        seconds: length of the whole schedule, over all calls.
        until: seconds since 1970 at which the schedule is over, whenever training starts; 0 leaves it to ``seconds``.
        batch: segments of 80 frames of a step.
        rate, warmup: learning rate at its peak, steps until then.
        motion_from: share of the schedule after which the diffusion is trained too.
        closure_extra: how much more motion counts in frames of p, b and m.
        open_extra: how much more the lips' gap counts in these frames where it is wider than it should be.
        closure_phones: how much more the names of p, b and m count than other phones'.
        spliced: share of the segments that jump to other speech in mid-word.
        dropout: share of the encoder's activations that is left out in training.
        device, seed: where, and from which seed.
    """

    run: Path = Path("run")
    corpus: Path = Path("speech.npz")
    wait_for: Path | None = None
    start: Path | None = None
    seconds: float = 700.0
    until: float = 0.0
    batch: int = 32
    rate: float = 1.2e-3
    warmup: int = 200
    motion_from: float = 0.25
    closure_extra: float = 3.0
    open_extra: float = 4.0
    closure_phones: float = 1.0
    spliced: float = 0.4
    dropout: float = 0.1
    device: str = "cuda"
    seed: int = 0


class SpeechNetworks(nn.Module):
    """Audio encoder with its two training heads, and the motion diffusion."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.encoder = AudioEncoder(config.audio_encoder)
        self.phone_head = nn.Linear(config.audio_encoder.hidden, len(PHONE_NAMES))
        self.unit_head = nn.Linear(config.audio_encoder.hidden, len(UNITS))
        self.diffusion = MotionDenoiser(config.motion_diffusion)
        with torch.no_grad():  # motion is small: a first output of ordinary size would drown the encoder's own losses
            self.diffusion.final_layer.weight.mul_(FIRST_OUTPUT_SCALE)
            self.diffusion.final_layer.bias.zero_()

    def encode(self, samples: Tensor) -> Tensor:
        """Segments (B, SEGMENT_SAMPLES) -> rows (B, NUM_WINDOWS, 20, A)."""
        windows = samples.unfold(1, WINDOW_SAMPLES, WINDOW_STRIDE)
        return self.encoder(windows.flatten(0, 1)).unflatten(0, (len(samples), -1))


def expression_basis() -> Tensor:
    """Expression offsets (len(UNITS), 63) per face unit."""
    pack = head_pack()
    rows = np.stack([pack.unit_weights(unit_coefficients(row)) for row in np.eye(len(UNITS)) * BASIS_STRENGTH])
    return torch.from_numpy(expression_offsets(rows, pack).reshape(len(UNITS), -1) / BASIS_STRENGTH)


def unit_gaps(basis: Tensor) -> Tensor:
    """How far each face unit opens the lips (U,), in crop units, of what the units do to the expression (U, 63)."""
    return basis[:, LOWER_LIP_Y] - basis[:, UPPER_LIP_Y]


def merge_windows(rows: Tensor) -> Tensor:
    """Rows (B, NUM_WINDOWS, 20, A) -> condition (B, 80, A)."""
    return torch.stack([merge_rows(one) for one in rows.unbind(0)])


def row_labels(segments: Segments) -> tuple[Tensor, Tensor]:
    """Phones (B, NUM_WINDOWS, 10) and units (B, NUM_WINDOWS, 10, U) of the rows that are kept, two labels each."""
    per_window, per_row = 5 * LABELS_PER_FRAME, LABELS_PER_FRAME // 2
    units = segments.units.unflatten(1, (NUM_WINDOWS, per_window // per_row, per_row)).mean(3)
    phones = segments.phones.unflatten(1, (NUM_WINDOWS, per_window // per_row, per_row))[..., per_row // 2]
    return phones, units


class SpeechTraining:
    """Networks, running mean and optimiser; one step at a time."""

    def __init__(self, options: SpeechOptions, config: NetworkConfig = MINI_NETWORKS) -> None:
        torch.manual_seed(0)  # all runs begin with the same weights, so that they may be averaged
        self.options, self.device = options, torch.device(options.device)
        self.networks = SpeechNetworks(config).to(self.device)
        torch.manual_seed(options.seed)
        if options.start is not None:
            bundle = load_bundle(options.start)
            grow_into(self.networks.encoder, bundle.audio_encoder.state_dict())
            grow_into(self.networks.diffusion, bundle.motion_diffusion.state_dict())
        for part in self.networks.encoder.modules():
            if isinstance(part, nn.Dropout):
                part.p = options.dropout
        self.mean = RunningMean(self.networks, 0.998)
        self.optimiser = torch.optim.AdamW(self.networks.parameters(), options.rate, (0.9, 0.98), weight_decay=0.01)
        self.basis = expression_basis().to(self.device)
        self.phone_weights = torch.ones(len(PHONE_NAMES), device=self.device)
        self.phone_weights[list(CLOSED)] += options.closure_phones
        self.signal = cumulative_alphas().sqrt().to(self.device)
        self.step, self.elapsed_s, self.best = 0, 0.0, 0.0
        self.history: list[dict[str, float]] = []

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def motion_of(self, units: Tensor) -> Tensor:
        """Face units (B, T, U) -> motion vectors (B, T, 265) relative to rest: all zero but the expression."""
        motion = units.new_zeros(*units.shape[:-1], MOTION_DIM)
        motion[..., EXPRESSION_START:] = units @ self.basis
        return motion

    def _first_frames(self, motion: Tensor) -> Tensor:
        """What a window may be told to continue: the frame before it, rest, or the unrelated motion of some source."""
        num = len(motion)
        scatter = torch.randn(num, MOTION_DIM, device=self.device)
        scatter[:, EXPRESSION_START:] *= 0.06
        scatter[:, :1] *= 0.2
        logits = slice(1, 1 + 3 * NUM_POSE_BINS)
        scatter[:, logits] = scatter[:, logits] * 3 - torch.rand(num, 1, device=self.device) * 6
        kind = torch.rand(num, 1, device=self.device)
        before = motion + torch.randn_like(motion) * 0.004
        return torch.where(kind < 0.6, before, torch.where(kind < 0.8, torch.zeros_like(scatter), scatter))

    def _condition(self, features: Tensor) -> EncodedCondition:
        given = self.networks.diffusion.encode_condition(features)
        null = self.networks.diffusion.null_condition(len(features))
        dropped = torch.rand(len(features), device=self.device) < CONDITION_DROPOUT
        memory = torch.where(dropped[:, None, None], null.memory.to(given.memory.dtype), given.memory)
        return EncodedCondition(memory, torch.where(dropped[:, None], null.hidden.to(given.hidden.dtype), given.hidden))

    def motion_losses(self, features: Tensor, segments: Segments) -> dict[str, Tensor]:
        """Losses of the diffusion on clean motion."""
        units = segments.frame_units()
        clean = self.motion_of(units)
        step = torch.randint(0, 1000, (len(clean),), device=self.device)
        kept = self.signal[step][:, None, None]
        noisy = kept * clean + (1 - kept.square()).sqrt() * torch.randn_like(clean)
        with self._autocast():
            encoded = self._condition(features)
            output = self.networks.diffusion(noisy, self._first_frames(clean[:, 0]), encoded, step).float()
        spread = (self.basis.abs().amax(0) * SPREAD_SHARE).clamp_min(LEAST_SPREAD)
        wanted, given = clean[..., EXPRESSION_START:], output[..., EXPRESSION_START:]
        moving = self.basis.abs().amax(0) > 1e-4
        closed = segments.closed_frames()
        weight = 1 + self.options.closure_extra * closed[..., None].float()
        away = ((given - wanted) / spread)[..., moving]
        speed = away[:, 1:] - away[:, :-1]
        still = torch.cat([output[..., :EXPRESSION_START].flatten(), given[..., ~moving].flatten()])
        return {
            "motion": MOTION_WEIGHT * (weight * away.abs()).mean(),
            "velocity": VELOCITY_WEIGHT * speed.abs().mean(),
            "gap": GAP_WEIGHT * self._gap_loss(given, wanted, closed),
            "still": STILL_WEIGHT * still.abs().mean(),
        }

    def _gap_loss(self, given: Tensor, wanted: Tensor, closed: Tensor) -> Tensor:
        """How far the opening of the lips is off, of expressions (B, T, 63); too wide counts more where ``closed``."""
        column = unit_gaps(self.basis)
        away = given - wanted
        wider = (away[..., LOWER_LIP_Y] - away[..., UPPER_LIP_Y]) / (column.abs().amax() * SPREAD_SHARE)
        weight = 1 + (self.options.closure_extra + self.options.open_extra * (wider > 0)) * closed
        return (weight * wider.abs()).mean()

    def train_step(self, pool: SpeechPool) -> dict[str, Tensor]:
        """One optimiser step."""
        share = self.set_rate()
        segments = pool.segments(self.options.batch, spliced_share=self.options.spliced)
        with self._autocast():
            rows = self.networks.encode(make_noisy(change_voice(segments.samples)))
            kept = rows[:, :, FIRST_ROW:LAST_ROW]
            if self.options.start is not None and self.step < self.options.warmup:
                kept = kept.detach()  # a bundle has no heads: the new ones learn before they may teach its encoder
            logits, shapes = self.networks.phone_head(kept).float(), self.networks.unit_head(kept).float()
        phones, units = row_labels(segments)
        losses = {
            "phones": functional.cross_entropy(logits.flatten(0, 2), phones.flatten(), self.phone_weights),
            "units": UNIT_WEIGHT * (shapes - units).abs().mean(),
        }
        if share >= self.options.motion_from:
            losses |= self.motion_losses(merge_windows(rows.float()), segments)
        self.optimiser.zero_grad(set_to_none=True)
        sum(losses.values()).backward()
        nn.utils.clip_grad_norm_(self.networks.parameters(), 1.0)
        self.optimiser.step()
        self.step += 1
        self.mean.update(self.networks, self.step)
        correct = (logits.argmax(-1) == phones).float().mean()
        return losses | {"phone_accuracy": correct}

    def set_rate(self) -> float:
        """Warm-up, then a cosine; returns the share of the schedule that is over."""
        share = min(self.elapsed_s / self.options.seconds, 1.0)
        curve = FINAL_RATE + (1 - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * share))
        for group in self.optimiser.param_groups:
            group["lr"] = self.options.rate * curve * min(1.0, (self.step + 1) / self.options.warmup)
        return share

    def set_length(self, seconds: float) -> None:
        """Change the length of the whole schedule."""
        self.options = replace(self.options, seconds=max(seconds, 1.0))

    def save(self) -> None:
        """Checkpoint, and export of the running means (the training heads are left out)."""
        state: dict[str, object] = {"step": self.step, "elapsed_s": self.elapsed_s, "history": self.history}
        state["best"] = self.best
        state |= {"networks": self.networks.state_dict(), "mean": self.mean.module.state_dict()}
        state["optimiser"] = self.optimiser.state_dict()
        save_state(state, self.options.run / "speech.pt")
        self.export(self.options.run / "export")
        (self.options.run / "export" / "speech.json").write_text(json.dumps(self.history, indent=1))

    def export(self, folder: Path) -> None:
        """Write the running means, without the training heads, as ``speech.safetensors``."""
        mean = self.mean.module
        weights = half_weights(mean.encoder, "audio_encoder") | half_weights(mean.diffusion, "motion_diffusion")
        save_weights(weights, folder / "speech.safetensors")

    def resume(self) -> bool:
        """Go on from the checkpoint of an earlier call, if there is one."""
        path = self.options.run / "speech.pt"
        if not path.exists():
            return False
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.step, self.elapsed_s, self.history = state["step"], state["elapsed_s"], state["history"]
        self.best = state["best"]
        self.networks.load_state_dict(state["networks"])
        self.mean.module.load_state_dict(state["mean"])
        self.optimiser.load_state_dict(state["optimiser"])
        return True
