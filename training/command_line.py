"""Settings of a run as command line options: one for each field of a dataclass."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

Options = TypeVar("Options")


def read_options(kind: type[Options], about: str | None, arguments: list[str] | None = None) -> Options:
    """Read a dataclass whose fields all have defaults; a field without a value, or with a path, takes a path."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for item in fields(kind):  # type: ignore[arg-type]
        is_path = item.default is None or isinstance(item.default, Path)
        name = f"--{item.name.replace('_', '-')}"
        parser.add_argument(name, type=Path if is_path else type(item.default), default=item.default)
    return kind(**vars(parser.parse_args(arguments)))
