"""A controls file with single values laid over it: flags of the command line, or fields of a Dagster run's settings."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.control_file import ControlFile, read_control_file, read_controls
from newsstudio_ditto.controls import BlinkOptions, ControlOptions
from newsstudio_ditto.errors import UsageError


@dataclass(frozen=True)
class ChosenControls:
    """A controls file with the values laid over it.

    Args:
        file: what the file says, or nothing.
        controls: with the values.
        guidance_scale: the value, if it was given.
    """

    file: ControlFile
    controls: ControlOptions
    guidance_scale: float | None

    def sampling(self, *, num_steps: int | None, seed: int | None) -> SamplingOptions:
        """Sampling of the file; values that were given win."""
        given = {"num_steps": num_steps, "seed": seed, "guidance_scale": self.guidance_scale}
        return SamplingOptions(**{**self.file.sampling, **{key: v for key, v in given.items() if v is not None}})

    def stitch(self, *, is_off: bool) -> bool | None:
        """Whether to stitch; the flag switches it off whatever the file says. None is the model's own default."""
        return False if is_off else self.file.stitch


def choose_controls(path: Path | None, values: Mapping[str, Any]) -> ChosenControls:
    """Lay values over a controls file.

    Args:
        path: of the file, if there is one.
        values: fields of :class:`ControlOptions` and ``guidance_scale``; ``emotion`` may be a text such as
            ``happy+surprise``, ``blink`` one such as ``random:16``.

    Raises:
        UsageError: the file or a value is not understood, or lies outside its range.
    """
    given = dict(values)
    guidance = given.pop("guidance_scale", None)
    file = ControlFile() if path is None else read_control_file(path)
    if "emotion" in given:
        given["emotion"] = _emotion(given["emotion"])
    if "blink" in given:
        given["blink"] = _blink(given["blink"], file.controls.blink)
    return ChosenControls(file, replace(file.controls, **given), guidance)


def _emotion(text: str) -> str | tuple[str, ...]:
    labels = tuple(label.strip() for label in text.split("+"))
    return labels[0] if len(labels) == 1 else labels


def _blink(text: str, base: BlinkOptions) -> BlinkOptions:
    mode, _, rate = text.partition(":")
    try:
        per_minute = float(rate) if rate else base.per_minute
    except ValueError as error:
        raise UsageError(f"blink {text!r}: {rate!r} is no number", "give blinks a minute, such as random:16") from error
    return replace(base, mode=mode, per_minute=per_minute)  # type: ignore[arg-type]


def controls_to_text(controls: ControlOptions) -> str:
    """What differs from the defaults, as JSON that :func:`controls_from_text` reads back."""
    plain, defaults = asdict(controls), asdict(ControlOptions())
    return json.dumps({name: value for name, value in plain.items() if value != defaults[name]})


def controls_from_text(text: str) -> ControlOptions:
    """The controls that :func:`controls_to_text` wrote.

    Raises:
        UsageError: a value lies outside its range.
    """
    return read_controls(json.loads(text)).controls
