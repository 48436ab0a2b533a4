"""The configuration pickle of the official release, turned into this package's own options."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from newsstudio_ditto.config import CropConfig, PacketOptions, SamplingOptions
from newsstudio_ditto.errors import BundleError, DittoError
from newsstudio_ditto.maths.clips import ClipOptions
from newsstudio_ditto.maths.motion_stitch import MotionStitchOptions
from newsstudio_ditto.maths.motion_vector import MotionKey
from newsstudio_ditto.networks.config import OFFICIAL, BundleConfig, MotionDiffusionConfig
from newsstudio_ditto.official.sections import HINT, Floats, Section, show
from newsstudio_ditto.official.stored_array import StoredArray
from newsstudio_ditto.official.stored_pickle import read_stored
from newsstudio_ditto.units import MOTION_DIM, WINDOW_FRAMES

_KEYS: Mapping[str, MotionKey] = {
    "scale": "scale",
    "pitch": "pitch",
    "yaw": "yaw",
    "roll": "roll",
    "t": "translation",
    "exp": "expression",
}
_NON_AUDIO = MotionDiffusionConfig(audio_dim=1).condition_dim - 1


@dataclass(frozen=True, eq=False)
class OfficialSettings:
    """What the configuration pickle asks for.

    Args:
        bundle: shapes, crop, steps and guidance for the converted bundle.
        packet: how the reference prepares a source.
        sampling: how it samples motion.
        clips: how it chains windows.
        stitch: whether the stitching network is on.
        motion: what drives what.
        emotion: (m, 8) probabilities, or the index or indices of emotions.
        freeze_eyes: condition every frame on the eyes of the first one.
        motion_limits: (2, 265) lowest and highest value of each entry of the motion vector, or None.
        blink_offsets: (n, 63) expression offsets of one blink, or None.
        blink_spacing_frames: between blinks; -1 none, 0 random, else frames, or a list that is used cyclically.
        is_faded: whether the beginning and end of a speech may fade, to the target that ``motion`` names.
        fade_keys: parts of the motion that fade.
        pose_delta_deg: degrees added to pitch, yaw and roll throughout.
        streamed: the file is meant for the streaming scheduler.
        character: scale and conditioning arrays of another character (its nested names joined by dots).
        without_effect: keys that the reference reads and that change nothing here: paths, devices, and what it ignores.
        unknown: keys that nobody knows, dotted; they are not in use.
    """

    bundle: BundleConfig
    packet: PacketOptions
    sampling: SamplingOptions
    clips: ClipOptions
    stitch: bool
    motion: MotionStitchOptions
    emotion: Floats | tuple[int, ...]
    freeze_eyes: bool
    motion_limits: Floats | None
    blink_offsets: Floats | None
    blink_spacing_frames: int | tuple[int, ...]
    is_faded: bool
    fade_keys: tuple[MotionKey, ...]
    pose_delta_deg: Mapping[str, float]
    streamed: bool
    character: Mapping[str, Floats] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def read_settings(path: Path) -> OfficialSettings:
    """Read the configuration pickle without running anything in it.

    Raises:
        BundleError: damaged, asks for code, or has a value of another kind or range than the reference understands;
            file, section and key are named.
    """
    top = read_stored(path, BundleError, HINT)
    sections = {name: _section(top, name, path) for name in ("base_cfg", "audio2motion_cfg", "default_kwargs")}
    unknown = [name for name in top if name not in sections]
    try:
        return _settings(sections["audio2motion_cfg"], sections["default_kwargs"], sections["base_cfg"], unknown)
    except BundleError:
        raise
    except DittoError as error:
        raise BundleError(f"{path}: {error.what}", error.hint) from error


def _section(top: Mapping[str, Any], name: str, path: Path) -> Section:
    values = top.get(name)
    if not isinstance(values, dict):
        raise BundleError(f"{path}: section {name} is missing", HINT)
    return Section(values, f"{path}: {name}")


def _settings(motion: Section, session: Section, base: Section, unknown: list[str]) -> OfficialSettings:
    bundle = _bundle(motion, session)
    dims = session.take("fix_kp_cond_dim", (list, tuple), (0, 0))
    packet = PacketOptions(
        crop=bundle.crop,
        max_side_px=session.take("max_size", int, 1920),
        max_frames=_positive(session.take("template_n_frames", int, -1)),
        smoothing_frames=max(session.take("smo_k_s", int, 13), 1),
    )
    smoothing, overlap = max(session.take("smo_k_d", int, 3), 1), session.take("overlap_v2", int, 10)
    delta, alien_controls = _pose_delta(session)
    fade_to = _fade(session)
    settings = OfficialSettings(
        bundle=bundle,
        packet=packet,
        sampling=SamplingOptions(num_steps=bundle.num_steps, overlap_frames=overlap, smoothing_frames=smoothing),
        clips=ClipOptions(overlap, smoothing, session.take("fix_kp_cond", int, 0), (int(dims[0]), int(dims[1]))),
        stitch=session.take("flag_stitching", bool, True),
        motion=_motion(session, fade_to),
        emotion=_emotion(session),
        freeze_eyes=session.take("eye_f0_mode", bool, False),
        motion_limits=_first_two(session.array("v_min_max_for_clip", MOTION_DIM, rows=2)),
        blink_offsets=session.array("delta_eye_arr", 63),
        blink_spacing_frames=_spacing(session),
        is_faded=fade_to is not None,
        fade_keys=tuple(_key(name, session) for name in session.take("fade_out_keys", (list, tuple), ("exp",))),
        pose_delta_deg=delta,
        streamed=session.take("online_mode", bool, False),
        character=_character(session),
    )
    idle = [
        *_idle_paths(base),
        *motion.skip("model_path", "device"),
        *session.skip("crop_vx_ratio", "N_d", "ctrl_info"),
    ]
    strange = [f"{part.where.rpartition(': ')[2]}.{name}" for part in (base, motion, session) for name in part.left]
    return replace(settings, without_effect=tuple(idle), unknown=tuple(sorted([*unknown, *strange, *alien_controls])))


def _bundle(motion: Section, session: Section) -> BundleConfig:
    for name, expected in (("motion_feat_dim", MOTION_DIM), ("seq_frames", WINDOW_FRAMES), ("w2f_type", "hubert")):
        found = motion.take(name, type(expected), expected)
        if found != expected:
            raise BundleError(f"{motion.where}.{name}: expected {expected!r}, got {found!r}", HINT)
    diffusion = MotionDiffusionConfig(
        use_emotion=motion.take("use_emo", bool, True),
        use_eye_open=motion.take("use_eye_open", bool, True),
        use_eye_ball=motion.take("use_eye_ball", bool, True),
        use_canonical=motion.take("use_sc", bool, True),
    )
    columns = motion.take("audio_feat_dim", int, diffusion.condition_dim)
    if columns != diffusion.condition_dim:
        raise BundleError(
            f"{motion.where}.audio_feat_dim: expected {diffusion.condition_dim} (1024 of audio and the parts in use, "
            f"at most {_NON_AUDIO} more), got {columns}",
            HINT,
        )
    crop = CropConfig(
        scale=float(session.take("crop_scale", (int, float), 2.3)),
        shift_down=float(session.take("crop_vy_ratio", (int, float), -0.125)),
        upright=session.take("crop_flag_do_rot", bool, True),
    )
    return replace(
        OFFICIAL,
        networks=replace(OFFICIAL.networks, motion_diffusion=diffusion),
        crop=crop,
        num_steps=session.take("sampling_timesteps", int, 50),
    )


def _positive(value: int) -> int | None:
    return value if value > 0 else None


def _first_two(limits: Floats | None) -> Floats | None:
    return None if limits is None else limits[:2]


def _emotion(session: Section) -> Floats | tuple[int, ...]:
    value = session.values.get("emo")
    if isinstance(value, StoredArray):
        table = session.array("emo", 8)
        assert table is not None, "the value is there"
        return table
    value = session.take("emo", (int, list), 4)
    indices = (value,) if isinstance(value, int) else tuple(value)
    if not all(isinstance(index, int) and 0 <= index < 8 for index in indices):
        raise BundleError(f"{session.where}.emo: expected indices 0 to 7 or an array (m, 8), got {show(value)}", HINT)
    return indices


def _spacing(session: Section) -> int | tuple[int, ...]:
    value = session.take("delta_eye_open_n", (int, list, tuple), 0)
    return value if isinstance(value, int) else tuple(int(item) for item in value)


def _fade(session: Section) -> Literal["first", "source"] | None:
    targets: dict[str, Literal["first", "source"] | None] = {"": None, "d0": "first", "s": "source"}
    value = session.take("fade_type", str, "")
    if value not in targets:
        raise BundleError(f"{session.where}.fade_type: expected '', 'd0' or 's', got {value!r}", HINT)
    return targets[value]


def _pose_delta(session: Section) -> tuple[dict[str, float], list[str]]:
    values = session.take("overall_ctrl_info", dict, {})
    known = {f"delta_{axis}": axis for axis in ("pitch", "yaw", "roll")}
    delta = {axis: float(values[name]) for name, axis in known.items() if isinstance(values.get(name), int | float)}
    return delta, [f"default_kwargs.overall_ctrl_info.{name}" for name in values if known.get(name) not in delta]


def _motion(session: Section, fade_to: Literal["first", "source"] | None) -> MotionStitchOptions:
    keys = session.take("use_d_keys", (dict, list, tuple), None)
    gains = keys if isinstance(keys, dict) else dict.fromkeys(keys or (), 1.0)
    return MotionStitchOptions(
        driven_keys={_key(name, session): float(gain) for name, gain in gains.items()} if keys is not None else None,
        relative="first" if session.take("relative_d", bool, True) else "off",
        drive_eyes=session.take("drive_eye", bool, None),
        fade_to=fade_to or "first",
    )


def _key(name: object, session: Section) -> MotionKey:
    if name not in _KEYS:
        raise BundleError(f"{session.where}: {name!r} is no part of the motion", f"known are {', '.join(_KEYS)}")
    return _KEYS[str(name)]


def _character(session: Section) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    pending: list[tuple[str, Any]] = [("", session.take("ch_info", dict, {}))]
    while pending:
        name, value = pending.pop()
        if isinstance(value, StoredArray):
            found[name] = value.view().astype(np.float32)
        elif isinstance(value, dict):
            pending += [(f"{name}.{key}".strip("."), item) for key, item in value.items()]
        elif isinstance(value, list | tuple):
            pending += [(f"{name}.{index}", item) for index, item in enumerate(value)]
    return dict(sorted(found.items()))


def _idle_paths(base: Section) -> list[str]:
    parts = ("insightface_det", "landmark106", "landmark203", "landmark478", "appearance_extractor", "motion_extractor")
    more = ("stitch_network", "warp_network", "decoder", "hubert", "wavlm")
    return base.skip(*(f"{name}_cfg" for name in (*parts, *more)))
