"""The configuration pickle: what it becomes, and what is refused."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.maths.clips import ClipOptions
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.official.settings import read_settings
from tests.official.releases import shipped_settings, write_settings


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_the_shipped_structure_becomes_options_without_unknown_keys(tmp_path: Path, protocol: int) -> None:
    settings = read_settings(write_settings(tmp_path / "cfg.pkl", shipped_settings(), protocol))
    assert settings.unknown == ()
    assert settings.bundle == OFFICIAL
    assert settings.clips == ClipOptions(10, 3, 1, (0, 202))
    assert settings.sampling.num_steps == 50
    assert settings.packet.crop == CropConfig(2.3, -0.125)
    assert (settings.packet.max_side_px, settings.packet.max_frames, settings.packet.smoothing_frames) == (
        1920,
        None,
        13,
    )
    assert settings.motion.relative == "first" and settings.motion.driven_keys is None
    assert settings.is_faded and settings.motion.fade_to == "first"
    assert settings.fade_keys == ("expression",)
    assert settings.pose_delta_deg == {"pitch": 2.0}
    assert isinstance(settings.emotion, np.ndarray) and settings.emotion.shape == (600, 8)
    assert settings.motion_limits is not None and settings.motion_limits[1, 0] == 265
    assert settings.motion_limits.shape == (2, 265)
    assert settings.blink_offsets is not None and settings.blink_offsets.shape == (15, 63)
    assert set(settings.character) == {"sc", "x_s_info_lst.0.kp"}
    assert "default_kwargs.crop_vx_ratio" in settings.without_effect
    assert "base_cfg.hubert_cfg" in settings.without_effect


def changed(section: str, **values: Any) -> dict[str, Any]:
    settings = shipped_settings()
    settings[section] |= values
    return settings


def test_unknown_keys_are_named(tmp_path: Path) -> None:
    settings = changed("default_kwargs", sharpness=3, overall_ctrl_info={"delta_yaw": 1, "delta_ear": 2})
    settings["base_cfg"]["teeth_cfg"] = {}
    settings["extra"] = 1
    found = read_settings(write_settings(tmp_path / "cfg.pkl", settings))
    assert found.unknown == (
        "base_cfg.teeth_cfg",
        "default_kwargs.overall_ctrl_info.delta_ear",
        "default_kwargs.sharpness",
        "extra",
    )
    assert found.pose_delta_deg == {"yaw": 1.0}


def test_absent_keys_take_the_reference_defaults(tmp_path: Path) -> None:
    settings = shipped_settings() | {"default_kwargs": {}}
    found = read_settings(write_settings(tmp_path / "cfg.pkl", settings))
    assert found.emotion == (4,)
    assert (found.is_faded, found.stitch, found.motion_limits, found.blink_spacing_frames) == (False, True, None, 0)
    assert found.clips == ClipOptions()


@pytest.mark.parametrize(
    ("section", "values", "words"),
    [
        ("default_kwargs", {"crop_scale": 9.0}, "crop scale is 9"),
        ("default_kwargs", {"sampling_timesteps": "many"}, "sampling_timesteps: expected int"),
        ("default_kwargs", {"fade_type": "x"}, "fade_type"),
        ("default_kwargs", {"delta_eye_arr": np.ones((15, 60), np.float32)}, "delta_eye_arr: expected an array"),
        ("default_kwargs", {"v_min_max_for_clip": np.ones((1, 265), np.float32)}, "2 or more rows"),
        ("default_kwargs", {"use_d_keys": ["nose"]}, "nose"),
        ("default_kwargs", {"emo": 9}, "emo: expected indices"),
        ("audio2motion_cfg", {"audio_feat_dim": 1059}, "audio_feat_dim: expected 1103"),
        ("audio2motion_cfg", {"use_emo": False}, "audio_feat_dim: expected 1095"),
        ("audio2motion_cfg", {"w2f_type": "wavlm"}, "w2f_type"),
    ],
)
def test_a_value_that_cannot_be_is_named(tmp_path: Path, section: str, values: dict[str, Any], words: str) -> None:
    path = write_settings(tmp_path / "cfg.pkl", changed(section, **values))
    with pytest.raises(BundleError, match=words):
        read_settings(path)


def test_driven_keys_and_gains(tmp_path: Path) -> None:
    values = {"use_d_keys": {"exp": 0.5, "t": 1}, "relative_d": False, "drive_eye": False, "fade_type": "s"}
    motion = read_settings(write_settings(tmp_path / "cfg.pkl", changed("default_kwargs", **values))).motion
    assert motion.driven_keys == {"expression": 0.5, "translation": 1.0}
    assert (motion.relative, motion.drive_eyes, motion.fade_to) == ("off", False, "source")


class Harmful:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:  # noqa: D105
        return os.mkdir, (str(self.trace),)


def test_code_in_the_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    path = write_settings(tmp_path / "cfg.pkl", changed("default_kwargs", emo=Harmful(trace)))
    with pytest.raises(BundleError, match="mkdir"):
        read_settings(path)
    assert not trace.exists()
    pickle.loads(path.read_bytes())
    assert trace.exists(), "the file does harm when it is opened the usual way"
