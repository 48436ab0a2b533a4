"""Options of ``render`` that shape the presenter: a controls file, and flags that win over it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.control_file import ControlFile, read_control_file
from newsstudio_ditto.controls import BlinkOptions, ControlOptions
from newsstudio_ditto.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

_KEPT = "newsstudio_ditto.controls"


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Remember a flag that was given, so that a command need not take every one as an argument."""
    if value is not None and parameter.name is not None:
        context.meta.setdefault(_KEPT, {})[parameter.name] = value


def _flag(name: str, kind: Any, metavar: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, type=kind, metavar=metavar, default=None, help=text, callback=_keep, expose_value=False)


_FLAGS = (
    _flag("--controls", click.Path(path_type=Path), "FILE", "TOML or JSON file of controls; flags win over it."),
    _flag("--emotion", str, "LABEL", "happy, or a mix: happy+surprise. Only models trained with emotions."),
    _flag("--mouth-amplitude", float, "FACTOR", "How far the mouth opens; 0 to 3, 1 is the model's own."),
    _flag("--head-amplitude", float, "FACTOR", "How far the head moves; 0 to 3, 1 is the model's own."),
    _flag("--blink", str, "MODE", "model, off, fixed or random; with blinks a minute: random:16."),
    _flag("--fade-in-s", float, "SECONDS", "Rise from the source's face at the start."),
    _flag("--fade-out-s", float, "SECONDS", "Return to the source's face at the end."),
    _flag("--guidance", float, "SCALE", "Classifier-free guidance, 0 to 10; default: the model's own."),
)


def control_options(command: Command) -> Command:
    """Add the flags to a command, which asks :func:`chosen_controls` for them."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


@dataclass(frozen=True)
class ChosenControls:
    """A controls file with the flags laid over it.

    Args:
        file: what the file says, or nothing.
        controls: with flags.
        guidance_scale: the flag, if it was given.
    """

    file: ControlFile
    controls: ControlOptions
    guidance_scale: float | None

    def sampling(self, *, num_steps: int | None, seed: int | None) -> SamplingOptions:
        """Sampling of the file; flags that were given win."""
        flags = {"num_steps": num_steps, "seed": seed, "guidance_scale": self.guidance_scale}
        return SamplingOptions(**{**self.file.sampling, **{key: v for key, v in flags.items() if v is not None}})

    def stitch(self, *, is_off: bool) -> bool:
        """Whether to stitch; the flag switches it off whatever the file says."""
        return not is_off and self.file.stitch is not False


def chosen_controls() -> ChosenControls:
    """What the running command was told.

    Raises:
        UsageError: the file or a flag is not understood, or a value lies outside its range.
    """
    flags = dict(click.get_current_context().meta.get(_KEPT, {}))
    path, guidance = flags.pop("controls", None), flags.pop("guidance", None)
    file = ControlFile() if path is None else read_control_file(path)
    if "emotion" in flags:
        flags["emotion"] = _emotion(flags["emotion"])
    if "blink" in flags:
        flags["blink"] = _blink(flags["blink"], file.controls.blink)
    return ChosenControls(file, replace(file.controls, **flags), guidance)


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
