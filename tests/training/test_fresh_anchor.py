"""Anchor pictures that arrive while training runs take the place of the old ones."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from training.files import save_arrays
from training.pool import CROP_PX, PictureSet, encode_png, load_packed
from training.renderer_training import Pictures
from training.train_renderer import FreshAnchor

CPU = torch.device("cpu")


def write_archive(path: Path, num: int, level: int, size: int = 32) -> None:
    arrays = {f"webp/{i}": encode_png(np.full((size, size, 3), level + i, np.uint8)) for i in range(num)}
    rows = {"keypoints": (21, 3), "angles_deg": (3,), "scale": (), "crops": (4,), "jaw": ()}
    arrays |= {name: np.zeros((num, *shape), np.float32) for name, shape in rows.items()}
    save_arrays(arrays | {"canonical": np.zeros((21, 3), np.float32)}, path)


def test_the_archive_replaces_the_anchor_once_it_is_there_and_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "anchor.npz"
    old = PictureSet.noise(1, 2, 32, CPU)
    pictures = Pictures(old, old, anchor=old, extra=old)
    with ThreadPoolExecutor(1) as beside:
        fresh = FreshAnchor(path, CPU, beside)
        assert fresh.look(pictures) is pictures
        for num, level in ((16, 10), (20, 90)):
            write_archive(path, num, level)
            pictures = wait_for(fresh, pictures)
            assert pictures.is_fresh
            assert pictures.extra is None
            assert pictures.anchor is not None
            assert int(pictures.anchor.images[0, 0, 0, 0, 0]) == level


def wait_for(fresh: FreshAnchor, pictures: Pictures) -> Pictures:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        fresh._looked = 0.0  # looks every few seconds otherwise
        found = fresh.look(pictures)
        if found is not pictures:
            return found
        time.sleep(0.02)
    raise AssertionError("the archive was not taken")


def test_frame_zero_leads_both_parts_and_the_held_out_frames_are_not_trained_on(tmp_path: Path) -> None:
    write_archive(tmp_path / "large.npz", 60, 1)
    train, held = load_packed(tmp_path / "large.npz", CPU)
    assert [int(x) for x in held.images[0, :, 0, 0, 0]] == list(range(1, 14))
    assert [int(x) for x in train.images[0, :, 0, 0, 0]] == [1, *range(14, 61)]
    assert train.images.shape[2] == CROP_PX  # small pictures are enlarged


def test_a_small_archive_is_held_out_as_a_whole_and_large_pictures_keep_their_size(tmp_path: Path) -> None:
    write_archive(tmp_path / "held.npz", 13, 1, size=600)
    _, held = load_packed(tmp_path / "held.npz", CPU)
    assert held.images.shape[1:3] == (13, 600)
