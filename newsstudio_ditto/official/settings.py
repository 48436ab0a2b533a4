"""The configuration pickle of the official release, turned into this package's own options."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from newsstudio_ditto.config import CropConfig, PacketOptions
from newsstudio_ditto.errors import BundleError, DittoError
from newsstudio_ditto.networks.config import OFFICIAL, BundleConfig, MotionDiffusionConfig
from newsstudio_ditto.networks.release_defaults import ReleaseDefaults
from newsstudio_ditto.official.sections import HINT, Section
from newsstudio_ditto.official.stored_pickle import read_stored
from newsstudio_ditto.official.tables import read_tables
from newsstudio_ditto.units import MOTION_DIM, WINDOW_FRAMES, MotionKey

_KEYS: Mapping[str, MotionKey] = {
    "scale": "scale",
    "pitch": "pitch",
    "yaw": "yaw",
    "roll": "roll",
    "t": "translation",
    "exp": "expression",
}
_NON_AUDIO = MotionDiffusionConfig(audio_dim=1).condition_dim - 1


@dataclass(frozen=True)
class OfficialSettings:
    """What the configuration pickle asks for.

    Args:
        bundle: shapes, crop, steps, and the defaults of every render, for the converted bundle.
        packet: how the reference prepares a source.
        without_effect: keys that the reference reads and that change nothing here: paths, devices, what it ignores, and
            the streaming scheduler, for a whole speech is rendered at once.
        unknown: keys that nobody knows, dotted; they are not in use.
    """

    bundle: BundleConfig
    packet: PacketOptions
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
    defaults, alien = _defaults(session, bundle.crop)
    packet = PacketOptions(
        crop=bundle.crop,
        max_side_px=session.take("max_size", int, 1920),
        max_frames=_positive(session.take("template_n_frames", int, -1)),
        smoothing_frames=max(session.take("smo_k_s", int, 13), 1),
    )
    idle = [
        *_idle_paths(base),
        *motion.skip("model_path", "device"),
        *session.skip("crop_vx_ratio", "N_d", "ctrl_info", "online_mode"),
    ]
    strange = [f"{part.where.rpartition(': ')[2]}.{name}" for part in (base, motion, session) for name in part.left]
    return OfficialSettings(
        bundle=replace(bundle, defaults=defaults),
        packet=packet,
        without_effect=tuple(idle),
        unknown=tuple(sorted([*unknown, *strange, *alien])),
    )


def _defaults(session: Section, crop: CropConfig) -> tuple[ReleaseDefaults, list[str]]:
    tables, alien = read_tables(session)
    delta, strange = _pose_delta(session)
    defaults = ReleaseDefaults(
        crop=crop,
        overlap_frames=session.take("overlap_v2", int, 10),
        smoothing_frames=max(session.take("smo_k_d", int, 3), 1),
        reset_every=session.take("fix_kp_cond", int, 0),
        carried_dims=session.numbers("fix_kp_cond_dim", int, (0, 0)),
        stitch=session.take("flag_stitching", bool, True),
        driven_parts=_driven(session),
        drive_eyes=session.take("drive_eye", bool, None),
        freeze_eyes=session.take("eye_f0_mode", bool, False),
        fade_to=_fade(session),
        fade_parts=tuple(_key(name, session) for name in session.take("fade_out_keys", (list, tuple), ("exp",))),
        blink_spacing_frames=session.numbers("delta_eye_open_n", int, (0,)),
        tables=tables,
        **delta,
    )
    return defaults, [*alien, *strange]


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
        relative="first" if session.take("relative_d", bool, True) else "off",
        crop=crop,
        num_steps=session.take("sampling_timesteps", int, 50),
    )


def _positive(value: int) -> int | None:
    return value if value > 0 else None


def _fade(session: Section) -> Literal["first", "source"] | None:
    targets: dict[str, Literal["first", "source"] | None] = {"": None, "d0": "first", "s": "source"}
    value = session.take("fade_type", str, "")
    if value not in targets:
        raise BundleError(f"{session.where}.fade_type: expected '', 'd0' or 's', got {value!r}", HINT)
    return targets[value]


def _pose_delta(session: Section) -> tuple[dict[str, float], list[str]]:
    values = session.take("overall_ctrl_info", dict, {})
    known = {f"delta_{axis}": axis for axis in ("pitch", "yaw", "roll")}
    kept = {name: float(values[name]) for name in known if isinstance(values.get(name), int | float)}
    delta = {f"{known[name]}_deg": value for name, value in kept.items()}
    return delta, [f"default_kwargs.overall_ctrl_info.{name}" for name in values if name not in kept]


def _driven(session: Section) -> dict[str, float] | None:
    keys = session.take("use_d_keys", (dict, list, tuple), None)
    if keys is None:
        return None
    gains = Section(keys if isinstance(keys, dict) else dict.fromkeys(keys, 1.0), f"{session.where}.use_d_keys")
    return {_key(name, session): float(gains.take(name, (int, float), 1.0)) for name in gains.values}


def _key(name: object, session: Section) -> MotionKey:
    if name not in _KEYS:
        raise BundleError(f"{session.where}: {name!r} is no part of the motion", f"known are {', '.join(_KEYS)}")
    return _KEYS[str(name)]


def _idle_paths(base: Section) -> list[str]:
    parts = ("insightface_det", "landmark106", "landmark203", "landmark478", "appearance_extractor", "motion_extractor")
    more = ("stitch_network", "warp_network", "decoder", "hubert", "wavlm")
    return base.skip(*(f"{name}_cfg" for name in (*parts, *more)))
