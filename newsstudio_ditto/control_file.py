"""The controls file of a speech: TOML or JSON, read strictly. ``docs/controls.md`` lists its keys."""

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.controls import BlinkOptions, ControlOptions, Curve, Emotion, PointOffset
from newsstudio_ditto.errors import UsageError

Reader = Callable[[str, Any], Any]

CURVE_HINT = "give a number or [[t_seconds, value], ...]"


@dataclass(frozen=True)
class ControlFile:
    """What a controls file says.

    Args:
        controls: the presenter's controls.
        sampling: entries of ``[sampling]``, fields of ``config.SamplingOptions``; only those that were given.
        stitch: apply the stitching network; None if the file does not say.
    """

    controls: ControlOptions = field(default_factory=ControlOptions)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    stitch: bool | None = None


def read_control_file(path: Path) -> ControlFile:
    """Read a controls file; ``.json`` is JSON, any other name is TOML.

    Raises:
        UsageError: it cannot be read or parsed, has an unknown key, or a value outside its range.
    """
    try:
        return read_controls(_parse(path))
    except RecursionError as error:  # of a parser, or of showing what it gave
        raise UsageError(
            f"{path}: lists or tables are nested too deeply", "give values as docs/controls.md shows"
        ) from error
    except UsageError as error:
        raise UsageError(f"{path}: {error.what}", error.hint) from error


def read_controls(document: Any) -> ControlFile:
    """Read what a controls file holds, parsed already.

    Raises:
        UsageError: an unknown key, or a value outside its range.
    """
    known: dict[str, Reader] = {**_CONTROL_READERS, "stitch": _flag, "sampling": _sampling}
    values = _read_table("", document, known)
    sampling, stitch = values.pop("sampling", {}), values.pop("stitch", None)
    SamplingOptions(**sampling)  # refused here, where the file's name is known
    return ControlFile(ControlOptions(**values), sampling, stitch)


def _parse(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:  # both parsers raise kinds of ValueError
        raise UsageError(f"cannot be read: {error}", "give a TOML file, or a JSON file named .json") from error


def _read_table(where: str, table: Any, known: Mapping[str, Reader]) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise UsageError(f"{where or 'the file'} is {table!r}", f"give a table with some of {', '.join(known)}")
    unknown = [key for key in table if key not in known]
    if unknown:
        names = ", ".join(f"{where}.{key}" if where else key for key in unknown)
        raise UsageError(f"unknown: {names}", f"known are {', '.join(sorted(known))}")
    return {key: known[key](f"{where}.{key}" if where else key, value) for key, value in table.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(name: str, value: Any) -> float:
    if not _is_number(value):
        raise UsageError(f"{name} is {value!r}", "give a number")
    return float(value)


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}", "give a whole number")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}", "give true or false")
    return value


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} is {value!r}", "give a word in quotation marks")
    return value


def _words(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{name} is {value!r}", "give a list of words")
    return tuple(_word(name, entry) for entry in value)


def _pairs(name: str, value: list[Any], hint: str) -> list[tuple[float, Any]]:
    for point in value:
        if not isinstance(point, list) or len(point) != 2 or not _is_number(point[0]):
            raise UsageError(f"{name} has the point {point!r}", hint)
    return [(float(time_s), entry) for time_s, entry in value]


def _curve(name: str, value: Any) -> Curve:
    if not isinstance(value, list):
        if not _is_number(value):
            raise UsageError(f"{name} is {value!r}", CURVE_HINT)
        return float(value)
    points = _pairs(name, value, CURVE_HINT)
    return tuple((time_s, _number(f"{name} at {time_s:g} s", entry)) for time_s, entry in points)


def _emotion(name: str, value: Any) -> Emotion:
    """A label, a list of labels, a table of weights, or ``[[t_seconds, label], ...]``, which fades between labels."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {label: _curve(f"{name}.{label}", weight) for label, weight in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], list):
        points = _pairs(name, value, "give [[t_seconds, label], ...]")
        labels = [_word(name, label) for _, label in points]
        return {
            label: tuple((time_s, float(label == now)) for time_s, now in points) for label in dict.fromkeys(labels)
        }
    return _words(name, value)


def _driven(name: str, value: Any) -> dict[str, float]:
    if isinstance(value, dict):
        return {part: _number(f"{name}.{part}", gain) for part, gain in value.items()}
    return dict.fromkeys(_words(name, value), 1.0)


def _blink(name: str, value: Any) -> BlinkOptions:
    table = {"mode": value} if isinstance(value, str) else value
    return BlinkOptions(**_read_table(name, table, _BLINK_READERS))


def _point_offsets(name: str, value: Any) -> tuple[PointOffset, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{name} is {value!r}", "give a list of tables with point, x, y, z")
    tables = [_read_table(name, entry, _POINT_READERS) for entry in value]
    if not all("point" in table for table in tables):
        raise UsageError(f"{name}: an entry has no point", "name the keypoint, 0 to 20")
    return tuple(PointOffset(**table) for table in tables)


def _sampling(name: str, value: Any) -> dict[str, Any]:
    return _read_table(name, value, _SAMPLING_READERS)


_BLINK_READERS: dict[str, Reader] = {"mode": _word, "per_minute": _number, "seed": _whole, "closing": _number}
_POINT_READERS: dict[str, Reader] = {"point": _whole, "x": _curve, "y": _curve, "z": _curve}
_SAMPLING_READERS: dict[str, Reader] = {
    "num_steps": _whole,
    "guidance_scale": _number,
    "overlap_frames": _whole,
    "smoothing_frames": _whole,
    "seed": _whole,
}
_SPECIAL: dict[str, Reader] = {
    "emotion": _emotion,
    "driven_parts": _driven,
    "relative": _word,
    "drive_eyes": _flag,
    "freeze_eyes": _flag,
    "reference_character": _flag,
    "limit_motion": _flag,
    "blink": _blink,
    "gaze_follows_head": _flag,
    "expression_offsets": _point_offsets,
    "fade_in_s": _number,
    "fade_out_s": _number,
    "fade_to": _word,
    "fade_parts": _words,
}
_CONTROL_READERS: dict[str, Reader] = {part.name: _SPECIAL.get(part.name, _curve) for part in fields(ControlOptions)}
