"""Options of ``render`` that shape the presenter: a controls file, and flags that win over it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from newsstudio_ditto.control_choice import ChosenControls, choose_controls

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
    _flag("--blink", str, "MODE", "model, generated, off, fixed or random; with blinks a minute: random:16."),
    _flag("--fade-in-s", float, "SECONDS", "Rise from the source's face at the start."),
    _flag("--fade-out-s", float, "SECONDS", "Return to the source's face at the end."),
    _flag("--guidance", float, "SCALE", "Classifier-free guidance, 0 to 10; default: the model's own."),
)


def control_options(command: Command) -> Command:
    """Add the flags to a command, which asks :func:`chosen_controls` for them."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def chosen_controls() -> ChosenControls:
    """What the running command was told.

    Raises:
        UsageError: the file or a flag is not understood, or a value lies outside its range.
    """
    flags = dict(click.get_current_context().meta.get(_KEPT, {}))
    if "guidance" in flags:
        flags["guidance_scale"] = flags.pop("guidance")
    return choose_controls(flags.pop("controls", None), flags)
