"""A synthetic release: tiny seeded checkpoints and nets in the official layout, with settings as shipped."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from newsstudio_ditto.official.release import RELEASE_FILES, ReleaseFile
from tests.golden_rules import load_json
from tests.networks.published import as_published
from tests.networks.sizes import TINY_NETWORKS
from tests.official.nets import constant_net, row_encoder

TINY_AUDIO = TINY_NETWORKS.audio_encoder.hidden
FILES: dict[str, ReleaseFile] = {file.role: file for file in RELEASE_FILES}


def as_released(role: str) -> dict[str, Any]:
    """As published, but with a stitching network that corrects something."""
    state = as_published(role)
    if role == "stitching":
        bias = state["retarget_shoulder"]["module.mlp.6.bias"]
        state["retarget_shoulder"]["module.mlp.6.bias"] = bias + 0.05
    return state


def blink_offsets() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Offsets (15, 63) of one blink: nothing in the first frame, most in the middle."""
    closing = np.sin(np.pi * np.arange(15) / 15)[:, None]
    return np.asarray(0.05 * closing * np.cos(np.arange(63)), np.float32)


def saved_character(num_frames: int = 3) -> dict[str, Any]:
    """A reference character as the reference saves one: motion, eyes and canonical keypoints of each frame."""
    draw = np.random.default_rng(3)
    widths = {"scale": 1, "pitch": 66, "yaw": 66, "roll": 66, "t": 3, "exp": 63, "kp": 63}
    frames = [
        {name: (0.1 * draw.standard_normal((1, width))).astype(np.float32) for name, width in widths.items()}
        for _ in range(num_frames)
    ]
    for frame in frames:
        frame["scale"] += 1.4
    return {
        "x_s_info_lst": frames,
        "sc": frames[0]["kp"].flatten(),
        "eye_open_lst": [draw.random((1, 2)).astype(np.float32) for _ in range(num_frames)],
        "eye_ball_lst": [draw.standard_normal((1, 6)).astype(np.float32) for _ in range(num_frames)],
    }


def shipped_settings() -> dict[str, Any]:
    """A settings dict with every section and key that the reference reads, and the values known of the release."""
    golden = load_json("manifest/cfg_pickle.json")
    base = {name: dict.fromkeys(keys, "x") for name, keys in golden["base_cfg"].items() if isinstance(keys, list)}
    session = {
        name: entry.get("shipped_value", entry["code_default"]) for name, entry in golden["setup_kwargs"].items()
    }
    session |= {
        "emo": np.full((600, 8), 0.125),
        "ch_info": saved_character(),
        "fix_kp_cond": 1,
        "fix_kp_cond_dim": [0, 202],
        "overlap_v2": 10,
        "sampling_timesteps": np.int64(50),
        "online_mode": False,
        "v_min_max_for_clip": np.stack([np.full(265, edge) for edge in (-2.0, 2.0, -3.0, 3.0)]),
        "delta_eye_arr": blink_offsets(),
        "fade_type": "d0",
    }
    motion = {
        "model_path": "lmdm.pth",
        "device": "cuda",
        "motion_feat_dim": 265,
        "audio_feat_dim": 1103,
        "seq_frames": 80,
        "use_emo": True,
        "use_sc": True,
        "use_eye_open": True,
        "use_eye_ball": True,
        "w2f_type": "hubert",
    }
    return {"base_cfg": base, "audio2motion_cfg": motion, "default_kwargs": session}


def write_settings(path: Path, settings: dict[str, Any], protocol: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(settings, protocol=protocol))
    return path


def detector_answers() -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """Outputs of the detector: one face, four strides around the anchor of cell (row 20, column 30)."""
    counts = (8192, 2048, 512)
    scores = [np.zeros((n, 1), np.float32) for n in counts]
    boxes = [np.full((n, 4), 4, np.float32) for n in counts]
    offsets = [np.zeros((n, 10), np.float32) for n in counts]
    scores[0][2 * (20 * 64 + 30)] = 0.9
    return [*scores, *boxes, *offsets]


def write_release(folder: Path) -> Path:
    """All twelve files, at their places."""
    for role, file in FILES.items():
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".pth":
            torch.save(as_released(role), path)
    constant_net(folder / FILES["detector"].path, (1, 3, "h", "w"), detector_answers(), "input.1")
    constant_net(folder / FILES["landmarks_106"].path, ("n", 3, 192, 192), [np.zeros((1, 212), np.float32)], "data")
    others = [np.zeros((1, 5), np.float32), np.zeros((1, 6), np.float32)]
    constant_net(folder / FILES["landmarks_203"].path, (1, 3, 224, 224), [*others, np.zeros((1, 406), np.float32)])
    kernel = np.sin(np.arange(400 * TINY_AUDIO, dtype=np.float32)).reshape(400, TINY_AUDIO) / 20
    row_encoder(folder / FILES["hubert"].path, kernel, batch=1, squeezed=True)
    with zipfile.ZipFile(folder / FILES["landmarks_478"].path, "w") as archive:
        archive.writestr("face_detector.tflite", b"net")
        archive.writestr("face_landmarks_detector.tflite", b"net")
    write_settings(folder / FILES["settings"].path, shipped_settings())
    return folder
