"""Driving motion of a whole speech: guided diffusion, window after window, from one seeded stream of noise."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.maths.clips import ClipOptions
from newsstudio_ditto.maths.clips import iterate_motion as chain_windows
from newsstudio_ditto.maths.conditions import Conditioning, condition_rows
from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.maths.motion_vector import EXPRESSION_START, pack_motion
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.networks.release_defaults import DefaultTables
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.control_plan import emotion_condition, require_eye_condition
from newsstudio_ditto.render.sources import source_motion
from newsstudio_ditto.render.window_sampler import GuidedStep, SessionNoise, WindowSampler
from newsstudio_ditto.units import MOTION_DIM


def steps_and_guidance(options: SamplingOptions, config: BundleConfig) -> tuple[int, float]:
    """DDIM steps and guidance scale: as ``options`` say, then the bundle's own."""
    scale = config.guidance_scale if options.guidance_scale is None else options.guidance_scale
    return options.num_steps or config.num_steps, scale


def clip_options(options: SamplingOptions, config: BundleConfig) -> ClipOptions:
    """How windows are chained for a bundle: as ``options`` say, then as the makers of the weights chose.

    Without their choice, motion relative to its first frame is conditioned on the source's expression at every window,
    so that a long speech does not drift away from the presenter's face; motion relative to rest continues the window
    before.
    """
    own = config.defaults
    if own is not None:
        start, stop = own.carried_dims
        plain = ClipOptions(own.overlap_frames, own.smoothing_frames, own.reset_every, (start, stop))
    elif config.relative == "rest":
        plain = ClipOptions()
    else:
        plain = ClipOptions(reset_every=1, carried_dims=(0, EXPRESSION_START))
    overlap, smoothing = options.overlap_frames, options.smoothing_frames
    return replace(
        plain,
        overlap_frames=plain.overlap_frames if overlap is None else overlap,
        smoothing_frames=plain.smoothing_frames if smoothing is None else smoothing,
    )


def packet_conditioning(
    packet: Packet, config: BundleConfig, controls: ControlOptions, num_frames: int
) -> Conditioning:
    """What avatar, controls and the bundle's defaults contribute to condition rows, as far as its denoiser takes it.

    A reference character of the bundle takes the place of the avatar's eyes and face.
    """
    parts, meta, tables = config.networks.motion_diffusion, packet.meta, _tables(config)
    require_eye_condition(controls, parts)
    eyes: tuple[Tensor | None, Tensor | None, Tensor | None] = (meta.eye_open, meta.eye_ball, meta.sc)
    if controls.reference_character and tables.character_motion is not None:
        eyes = (tables.character_eye_open, tables.character_eye_ball, tables.character_canonical)
    conditioning = Conditioning(
        emotion=emotion_condition(controls.emotion, parts, num_frames, tables.emotion),
        eye_open=eyes[0] if parts.use_eye_open else None,
        eye_ball=eyes[1] if parts.use_eye_ball else None,
        identity=eyes[2] if parts.use_canonical else None,
    )
    own = config.defaults is not None and config.defaults.freeze_eyes
    is_frozen = own if controls.freeze_eyes is None else controls.freeze_eyes
    return conditioning.freeze_eyes() if is_frozen else conditioning


def starting_motion(packet: Packet, config: BundleConfig, controls: ControlOptions) -> Tensor:
    """Motion vector (265,) that the first window is conditioned on: at rest, or of the first source frame.

    A reference character of the bundle takes the place of the avatar.
    """
    if config.relative == "rest":
        return torch.zeros(MOTION_DIM)
    character = _tables(config).character_motion
    if character is not None and controls.reference_character:
        return character
    return pack_motion(source_motion(packet).rows(slice(1)))[0]


def _tables(config: BundleConfig) -> DefaultTables:
    return DefaultTables() if config.defaults is None else config.defaults.tables


def sample_motion(
    bundle: ModelBundle,
    features: Tensor,
    packet: Packet,
    options: SamplingOptions,
    device: torch.device,
    *,
    step: GuidedStep | None = None,
    controls: ControlOptions | None = None,
) -> Tensor:
    """Generate the driving motion of a speech.

    Args:
        bundle: its motion diffusion, and the defaults of ``options``.
        features: (T, A) float32 speech features, T >= 1.
        packet: source motion and conditioning.
        options: steps, guidance, overlap, smoothing and seed.
        device: where the denoiser runs.
        step: the engine's, already captured; None makes an eager one.
        controls: whose emotion and eyes condition the motion; None takes the bundle's own.

    Returns:
        (T, 265) float32 on ``device``, not yet within the bundle's limits; scale is stored less 1, poses are logits.
        Equal inputs and seeds give equal rows.

    Raises:
        UsageError: the bundle takes no emotion, or no eyes, and the controls ask for them.
    """
    parts = iterate_motion(bundle, [features], len(features), packet, options, device, step=step, controls=controls)
    return torch.cat(list(parts))


def iterate_motion(
    bundle: ModelBundle,
    features: Iterable[Tensor],
    num_frames: int,
    packet: Packet,
    options: SamplingOptions,
    device: torch.device,
    *,
    step: GuidedStep | None = None,
    controls: ControlOptions | None = None,
) -> Iterator[Tensor]:
    """The rows of :func:`sample_motion` while the speech is still being listened to, as soon as they are settled.

    Args:
        bundle: as for :func:`sample_motion`.
        features: chunks (n, A) float32 of speech features, in order.
        num_frames: T, the rows of all chunks together.
        packet: source motion and conditioning.
        options: steps, guidance, overlap, smoothing and seed.
        device: where the denoiser runs.
        step: the engine's, already captured; None makes an eager one.
        controls: whose emotion and eyes condition the motion; None takes the bundle's own.

    Yields:
        Chunks (k, 265) float32 on ``device``, k >= 1.

    Raises:
        UsageError: the bundle takes no emotion, or no eyes, and the controls ask for them.
    """
    config = bundle.config
    num_steps, scale = steps_and_guidance(options, config)
    guided = step or GuidedStep(bundle.motion_diffusion, is_graphed=False)
    sampler = WindowSampler(guided, ddim_schedule(num_steps), scale, SessionNoise(options.seed, num_steps))
    controls = controls or ControlOptions()
    conditions = _conditions(features, packet_conditioning(packet, config, controls, num_frames), device)
    source = starting_motion(packet, config, controls).to(device)
    return chain_windows(conditions, source, sampler, clip_options(options, config))


def _conditions(features: Iterable[Tensor], conditioning: Conditioning, device: torch.device) -> Iterator[Tensor]:
    num_rows = 0
    for chunk in features:
        yield condition_rows(chunk.to(device), conditioning, num_rows)
        num_rows += len(chunk)
