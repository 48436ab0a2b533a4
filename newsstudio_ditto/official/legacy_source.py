"""The reference's ``source_info`` pickle: one dict with a list per kind of thing, one entry per source frame."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.official.stored_array import StoredArray
from newsstudio_ditto.official.stored_pickle import read_stored
from newsstudio_ditto.units import NUM_KEYPOINTS, NUM_POSE_BINS

HINT = "give the pickle of a source_info dict, written with protocol 3 or later"

Floats = npt.NDArray[np.float32]

_MOTION_WIDTHS = {
    "kp": 3 * NUM_KEYPOINTS,
    "pitch": NUM_POSE_BINS,
    "yaw": NUM_POSE_BINS,
    "roll": NUM_POSE_BINS,
    "t": 3,
    "exp": 3 * NUM_KEYPOINTS,
    "scale": 1,
}
_LISTS = ("x_s_info_lst", "f_s_lst", "M_c2o_lst", "eye_open_lst", "eye_ball_lst", "img_rgb_lst")
_KNOWN = (*_LISTS, "sc", "is_image_flag")


@dataclass(frozen=True, eq=False)
class LegacySource:
    """A ``source_info`` pickle, mapped; small arrays are read, pictures and volumes stay in the file.

    Args:
        path: the pickle.
        motion: by name, (N, width) float32: ``kp``, ``pitch``, ``yaw``, ``roll``, ``t``, ``exp``, ``scale``.
        sc: (63,) canonical keypoints of frame 0 as the conditioning knows them.
        eye_open: (N, 2).
        eye_ball: (N, 6).
        crop_to_original: (N, 3, 3).
        volumes: N arrays (1, C, D, h, w).
        pictures: N arrays (H, W, 3) uint8.
        ignored: keys that are not part of the layout.
    """

    path: Path
    motion: dict[str, Floats]
    sc: Floats
    eye_open: Floats
    eye_ball: Floats
    crop_to_original: Floats
    volumes: list[StoredArray]
    pictures: list[StoredArray]
    ignored: tuple[str, ...]

    @property
    def num_frames(self) -> int:
        """N."""
        return len(self.pictures)

    @property
    def volume_shape(self) -> tuple[int, ...]:
        """(C, D, h, w) of one feature volume."""
        return self.volumes[0].shape[1:]

    @property
    def frame_size(self) -> tuple[int, int]:
        """Height and width of the pictures, pixels."""
        height, width, _ = self.pictures[0].shape
        return height, width

    @property
    def is_smoothed(self) -> bool:
        """Whether the motion was smoothed before it was saved: then frame 0 no longer has the keypoints of ``sc``."""
        return bool(np.abs(self.motion["kp"][0] - self.sc).max() > 1e-6)

    def arrays(self) -> Iterator[StoredArray]:
        """The large arrays, in the order of the frames."""
        for volume, picture in zip(self.volumes, self.pictures, strict=True):
            yield volume
            yield picture


def open_legacy(path: Path) -> LegacySource:
    """Map a ``source_info`` pickle and check its layout. Nothing in it is run, and no picture or volume is read.

    Raises:
        PacketFormatError: damaged, asks for code, or of another layout; field, expected and got are named.
    """
    content = read_stored(path, PacketFormatError, HINT)
    lists = {name: _list(content, name, path) for name in _LISTS}
    count = len(lists["img_rgb_lst"])
    for name, items in lists.items():
        if len(items) != count or not items:
            raise PacketFormatError(f"{path}: {name}: expected {max(count, 1)} entries, got {len(items)}", HINT)
    motion = {
        key: np.concatenate([_motion_row(info, key, f"{path}: x_s_info_lst[{i}]") for i, info in enumerate(infos)])
        for infos in (lists["x_s_info_lst"],)
        for key in _MOTION_WIDTHS
    }
    first_kp = motion["kp"][0]
    sc = _array(content["sc"], (first_kp.size,), f"{path}: sc") if "sc" in content else first_kp
    return LegacySource(
        path=path,
        motion=motion,
        sc=sc,
        eye_open=_rows(lists["eye_open_lst"], (2,), f"{path}: eye_open_lst"),
        eye_ball=_rows(lists["eye_ball_lst"], (6,), f"{path}: eye_ball_lst"),
        crop_to_original=_rows(lists["M_c2o_lst"], (3, 3), f"{path}: M_c2o_lst"),
        volumes=_alike(lists["f_s_lst"], (1, None, None, None, None), "f", f"{path}: f_s_lst"),
        pictures=_alike(lists["img_rgb_lst"], (None, None, 3), "u", f"{path}: img_rgb_lst"),
        ignored=tuple(sorted(set(content) - set(_KNOWN))),
    )


def _list(content: dict[str, Any], name: str, path: Path) -> list[Any]:
    value = content.get(name)
    if not isinstance(value, list):
        found = f"keys {', '.join(sorted(content))[:120]}" if value is None else type(value).__name__
        raise PacketFormatError(f"{path}: {name}: expected a list, got {found}", HINT)
    return value


def _motion_row(info: object, key: str, where: str) -> Floats:
    if not isinstance(info, dict):
        raise PacketFormatError(f"{where}: expected a dict, got {type(info).__name__}", HINT)
    return _array(info.get(key), (1, _MOTION_WIDTHS[key]), f"{where}.{key}")


def _array(value: object, shape: tuple[int, ...], where: str) -> Floats:
    """A small float array with as many numbers as ``shape`` asks for."""
    size = int(np.prod(shape))
    if not isinstance(value, StoredArray) or value.dtype.kind != "f" or int(np.prod(value.shape)) != size:
        found = f"{value.dtype} {value.shape}" if isinstance(value, StoredArray) else type(value).__name__
        raise PacketFormatError(f"{where}: expected floats {shape}, got {found}", HINT)
    return value.view().reshape(shape).astype(np.float32)


def _rows(values: list[Any], shape: tuple[int, ...], where: str) -> Floats:
    return np.stack([_array(value, shape, f"{where}[{index}]") for index, value in enumerate(values)])


def _alike(values: list[Any], shape: tuple[int | None, ...], kind: str, where: str) -> list[StoredArray]:
    """Large arrays that all have the same shape and dtype."""
    first = values[0]
    for index, value in enumerate(values):
        if not isinstance(value, StoredArray):
            raise PacketFormatError(f"{where}[{index}]: expected an array, got {type(value).__name__}", HINT)
        fits = len(value.shape) == len(shape) and all(
            want in (None, got) for want, got in zip(shape, value.shape, strict=True)
        )
        if not fits or value.dtype.kind != kind or (value.shape, value.dtype) != (first.shape, first.dtype):
            wanted = f"{first.dtype} {first.shape}" if index else f"{kind} with axes {shape}"
            raise PacketFormatError(f"{where}[{index}]: expected {wanted}, got {value.dtype} {value.shape}", HINT)
    return values
