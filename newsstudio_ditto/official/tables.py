"""Tables of the configuration pickle: emotion, limits, the blink, and the reference character."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.errors import BundleError, DittoError
from newsstudio_ditto.maths.conditions import emotion_rows
from newsstudio_ditto.networks.release_defaults import DefaultTables
from newsstudio_ditto.official.sections import HINT, Section, show
from newsstudio_ditto.official.stored_array import StoredArray
from newsstudio_ditto.units import MOTION_DIM, NUM_KEYPOINTS, NUM_POSE_BINS

_POINTS = 3 * NUM_KEYPOINTS
_MOTION_WIDTHS: Mapping[str, int] = {
    "scale": 1,
    "pitch": NUM_POSE_BINS,
    "yaw": NUM_POSE_BINS,
    "roll": NUM_POSE_BINS,
    "t": 3,
    "exp": _POINTS,
}
_DEFAULT_EMOTION = 4
_EYE_WIDTHS: Mapping[str, int] = {"eye_open": 2, "eye_ball": 6}


def read_tables(session: Section) -> tuple[DefaultTables, list[str]]:
    """Read the tables of the section with the session's defaults.

    Returns:
        The tables, and the names of keys of the reference character that nobody knows.

    Raises:
        BundleError: a table of another shape, or a character that lacks a part.
    """
    limits, blink = session.array("v_min_max_for_clip", MOTION_DIM, rows=2), session.array("delta_eye_arr", _POINTS)
    character, alien = _character(session)
    tables = DefaultTables(
        emotion=_emotion(session),
        motion_limits=None if limits is None else torch.from_numpy(limits[:2].copy()),
        blink_offsets=None if blink is None else torch.from_numpy(blink),
        **character,
    )
    return tables, alien


def _emotion(session: Section) -> Tensor:
    """(m, 8) of a table, an index, indices that are mixed, or a list of mixes, one for each frame."""
    if isinstance(session.values.get("emo"), StoredArray):
        table = session.array("emo", 8)
        assert table is not None, "the value is there"
        return torch.from_numpy(table)
    value = session.take("emo", (int, list, tuple), _DEFAULT_EMOTION)
    try:
        return emotion_rows(_plain_lists(value))
    except (DittoError, TypeError) as error:
        wanted = "an index 0 to 7, a list of them, a list of such lists, or an array (m, 8)"
        raise BundleError(f"{session.where}.emo: expected {wanted}, got {show(value)}", HINT) from error


def _plain_lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain_lists(item) for item in value]
    if type(value) is not int:
        raise TypeError(value)
    return value


def _character(session: Section) -> tuple[dict[str, Tensor], list[str]]:
    found = session.take("ch_info", dict, None)
    if found is None:
        return {}, []
    character = Section(found, f"{session.where}.ch_info")
    character.skip("is_image_flag", "img_rgb_lst", "M_c2o_lst", "f_s_lst", "lmk_lst")  # of a whole saved source
    frames = character.take("x_s_info_lst", (list, tuple), ())
    if not frames or not isinstance(frames[0], dict):
        raise BundleError(f"{character.where}.x_s_info_lst: expected a list of tables, got {show(frames)}", HINT)
    first = Section(frames[0], f"{character.where}.x_s_info_lst.0")
    first.skip("kp", "x_s")  # the canonical keypoints that condition the motion are those of sc
    parts = {name: _row(first, name, width) for name, width in _MOTION_WIDTHS.items()}
    motion = np.concatenate([parts["scale"] - 1.0, *(parts[name] for name in list(_MOTION_WIDTHS)[1:])])
    tables = {
        "character_motion": torch.from_numpy(motion),
        "character_canonical": torch.from_numpy(_row(character, "sc", _POINTS)),
        **{f"character_{name}": _eyes(character, f"{name}_lst", width) for name, width in _EYE_WIDTHS.items()},
    }
    alien = [f"{part.where.rpartition(': ')[2]}.{name}" for part in (character, first) for name in part.left]
    return tables, alien


def _row(section: Section, name: str, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    section.left.discard(name)
    value = section.values.get(name)
    if not isinstance(value, StoredArray) or int(np.prod(value.shape)) != width:
        raise BundleError(f"{section.where}.{name}: expected an array of {width} numbers, got {show(value)}", HINT)
    return value.view().astype(np.float32).reshape(width)


def _eyes(character: Section, name: str, width: int) -> Tensor:
    """(k, width) of a list with one (1, width) array for each frame."""
    rows = character.take(name, (list, tuple), ())
    if not rows or not all(isinstance(row, StoredArray) and row.shape[-1:] == (width,) for row in rows):
        raise BundleError(f"{character.where}.{name}: expected a list of arrays (1, {width}), got {show(rows)}", HINT)
    return torch.from_numpy(np.concatenate([row.view().astype(np.float32).reshape(-1, width) for row in rows]))
