"""Memory and times of importing an old pickle of full-width volumes.

    python benchmarks/legacy_import.py --frames 130 --height 512 --width 512

A pickle as the reference would have saved it is written frame by frame, then imported while a thread samples RssAnon,
the memory that is the process's own. The weights of the bundle are not needed: its manifest is made up.
"""

import argparse
import json
import os
import pickle
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))  # a checkout that is not installed

from newsstudio_ditto.bench.output import PeakMemory
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.networks.manifest import (
    FORMAT,
    MANIFEST_NAME,
    NETWORK_NAMES,
    VERSION,
    BundleManifest,
    WeightFile,
    manifest_text,
)
from newsstudio_ditto.networks.places import MODELS_VARIABLE
from newsstudio_ditto.official.legacy import import_legacy
from newsstudio_ditto.storage import StorageLayout


def write_manifest(folder: Path) -> None:
    """A bundle of the official shapes whose weight files are empty."""
    folder.mkdir(parents=True)
    files = {name: WeightFile(f"{name}.safetensors", name, 0, "0" * 64, True) for name in NETWORK_NAMES}
    for entry in files.values():
        (folder / entry.file).touch()
    manifest = BundleManifest(FORMAT, VERSION, "ditto", "none", OFFICIAL, files)
    (folder / MANIFEST_NAME).write_text(manifest_text(manifest))


def write_pickle(path: Path, num_frames: int, height: int, width: int) -> None:
    """A ``source_info`` pickle; the same volume and picture are stored anew for every frame."""
    rng = np.random.default_rng(0)
    scale = min(height, width) / 512
    widths = {"pitch": 66, "yaw": 66, "roll": 66, "t": 3, "exp": 63, "scale": 1, "kp": 63}
    motion = {key: rng.standard_normal((1, size), np.float32) for key, size in widths.items()}
    each: dict[str, Any] = {
        "x_s_info_lst": motion,
        "f_s_lst": rng.standard_normal((1, 32, 16, 64, 64), np.float32),
        "M_c2o_lst": np.diag([scale, scale, 1.0]).astype(np.float32),
        "eye_open_lst": np.ones((1, 2), np.float32),
        "eye_ball_lst": np.ones((1, 6), np.float32),
        "img_rgb_lst": rng.integers(0, 256, (height, width, 3), np.uint8),
    }
    content = {name: [value] * num_frames for name, value in each.items()}
    with path.open("wb") as file:
        pickler = pickle.Pickler(file, protocol=4)
        pickler.fast = True  # no memory of what was written: every frame gets its own bytes
        pickler.dump(content | {"sc": motion["kp"][0], "is_image_flag": False})


def main() -> None:
    """Make, import, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=130)
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[MODELS_VARIABLE] = str(folder / "models")
        write_manifest(folder / "models" / "ditto")
        write_pickle(folder / "source_info.pkl", chosen.frames, chosen.height, chosen.width)
        memory = PeakMemory()
        with memory:
            report = import_legacy(StorageLayout(folder / "storage"), folder / "source_info.pkl", "old")
        numbers = report.to_plain() | {
            "private_before_mb": round(memory.before_mb),
            "private_peak_mb": round(memory.peak_mb),
        }
        print(json.dumps(numbers))


if __name__ == "__main__":
    main()
