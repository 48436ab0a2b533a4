"""The configuration pickle: what it becomes, and what is refused."""

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from newsstudio_ditto.config import CropConfig, PacketOptions
from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.maths.conditions import emotion_rows
from newsstudio_ditto.maths.motion_vector import unpack_motion
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.networks.release_defaults import ReleaseDefaults
from newsstudio_ditto.official.settings import read_settings
from tests.maths.motions import REFERENCE_NAMES
from tests.official.releases import saved_character, shipped_settings, write_settings


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_the_shipped_structure_becomes_options_without_unknown_keys(tmp_path: Path, protocol: int) -> None:
    settings = read_settings(write_settings(tmp_path / "cfg.pkl", shipped_settings(), protocol))
    assert settings.unknown == ()
    defaults = settings.bundle.defaults
    assert defaults is not None
    assert settings.bundle == replace(OFFICIAL, defaults=defaults)
    assert defaults == ReleaseDefaults(
        reset_every=1, carried_dims=(0, 202), fade_to="first", fade_parts=("expression",), pitch_deg=2.0
    )
    assert settings.packet == PacketOptions(crop=CropConfig(2.3, -0.125))
    shipped, tables = shipped_settings()["default_kwargs"], defaults.tables
    assert tables.emotion is not None and torch.equal(tables.emotion, torch.full((600, 8), 0.125))
    assert tables.motion_limits is not None and tables.motion_limits[:, 7].tolist() == [-2.0, 2.0]
    assert tables.blink_offsets is not None
    np.testing.assert_array_equal(tables.blink_offsets.numpy(), shipped["delta_eye_arr"])
    assert "default_kwargs.crop_vx_ratio" in settings.without_effect
    assert "base_cfg.hubert_cfg" in settings.without_effect


def test_the_reference_character_becomes_a_motion_vector_and_its_conditions(tmp_path: Path) -> None:
    settings = read_settings(write_settings(tmp_path / "cfg.pkl", shipped_settings()))
    character = shipped_settings()["default_kwargs"]["ch_info"]
    assert settings.bundle.defaults is not None
    tables, first = settings.bundle.defaults.tables, character["x_s_info_lst"][0]
    assert tables.character_motion is not None
    moved = unpack_motion(tables.character_motion[None])
    for ours, theirs in REFERENCE_NAMES.items():
        if ours != "canonical":
            np.testing.assert_allclose(getattr(moved, ours).numpy(), first[theirs], atol=1e-6)
    assert tables.character_scale == pytest.approx(first["scale"].item(), abs=1e-6)
    for name, expected in (("canonical", character["sc"]), ("eye_open", np.concatenate(character["eye_open_lst"]))):
        np.testing.assert_array_equal(getattr(tables, f"character_{name}").numpy(), expected)
    assert tables.character_eye_ball is not None and tables.character_eye_ball.shape == (3, 6)


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
    assert found.bundle.defaults is not None and found.bundle.defaults.yaw_deg == 1.0


def test_keys_of_the_character_that_nobody_knows_are_named(tmp_path: Path) -> None:
    character = saved_character() | {"hair": 1, "f_s_lst": []}
    character["x_s_info_lst"][0]["R"] = np.zeros((1, 3, 3), np.float32)
    found = read_settings(write_settings(tmp_path / "cfg.pkl", changed("default_kwargs", ch_info=character)))
    assert found.unknown == ("default_kwargs.ch_info.hair", "default_kwargs.ch_info.x_s_info_lst.0.R")


def test_absent_keys_take_the_reference_defaults(tmp_path: Path) -> None:
    settings = shipped_settings() | {"default_kwargs": {}}
    found = read_settings(write_settings(tmp_path / "cfg.pkl", settings))
    assert found.bundle.relative == "first"
    assert found.bundle.defaults == ReleaseDefaults()
    assert found.bundle.defaults.tables.present().keys() == {"emotion"}
    torch.testing.assert_close(found.bundle.defaults.tables.emotion, emotion_rows(4))


@pytest.mark.parametrize(
    ("emotion", "expected"),
    [(3, emotion_rows(3)), ([3, 4], emotion_rows([3, 4])), ([[4], [3, 4], [6]], emotion_rows([[4], [3, 4], [6]]))],
)
def test_every_form_of_emotion_becomes_a_table(tmp_path: Path, emotion: Any, expected: torch.Tensor) -> None:
    found = read_settings(write_settings(tmp_path / "cfg.pkl", changed("default_kwargs", emo=emotion)))
    assert found.bundle.defaults is not None
    torch.testing.assert_close(found.bundle.defaults.tables.emotion, expected)


@pytest.mark.parametrize(
    ("section", "values", "words"),
    [
        ("default_kwargs", {"crop_scale": 9.0}, "crop scale is 9"),
        ("default_kwargs", {"sampling_timesteps": "many"}, "sampling_timesteps: expected int"),
        ("default_kwargs", {"fade_type": "x"}, "fade_type"),
        ("default_kwargs", {"delta_eye_arr": np.ones((15, 60), np.float32)}, "delta_eye_arr: expected an array"),
        ("default_kwargs", {"v_min_max_for_clip": np.ones((1, 265), np.float32)}, "2 or more rows"),
        ("default_kwargs", {"use_d_keys": ["nose"]}, "nose"),
        ("default_kwargs", {"emo": 9}, "emo: expected an index 0 to 7"),
        ("default_kwargs", {"emo": [True]}, "emo: expected an index 0 to 7"),
        ("default_kwargs", {"use_d_keys": {"exp": "far"}}, "use_d_keys.exp: expected int or float"),
        ("default_kwargs", {"fix_kp_cond_dim": [0]}, r"carried_dims is \(0,\)"),
        ("default_kwargs", {"fix_kp_cond_dim": ["a", 3]}, "fix_kp_cond_dim: expected int numbers"),
        ("default_kwargs", {"delta_eye_open_n": [30, 0]}, r"blink_spacing_frames is \(30, 0\)"),
        ("default_kwargs", {"overlap_v2": 80}, "overlap_frames is 80"),
        ("default_kwargs", {"overall_ctrl_info": {"delta_pitch": 90}}, "pitch_deg is 90"),
        ("default_kwargs", {"delta_eye_arr": np.full((15, 63), np.nan, np.float32)}, "blink_offsets .* not finite"),
        ("default_kwargs", {"ch_info": {"sc": 1}}, "ch_info.x_s_info_lst: expected a list of tables"),
        ("default_kwargs", {"ch_info": saved_character() | {"sc": 1}}, "ch_info.sc: expected an array of 63 numbers"),
        ("default_kwargs", {"ch_info": saved_character() | {"eye_open_lst": []}}, "eye_open_lst: expected a list of"),
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
    bundle = read_settings(write_settings(tmp_path / "cfg.pkl", changed("default_kwargs", **values))).bundle
    assert bundle.defaults is not None
    assert bundle.defaults.driven_parts == {"expression": 0.5, "translation": 1.0}
    assert (bundle.relative, bundle.defaults.drive_eyes, bundle.defaults.fade_to) == ("off", False, "source")


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
