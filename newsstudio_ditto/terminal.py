"""What the command line shows: results on stdout, progress and errors on stderr."""

import json
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.progress import OnProgress


class DittoGroup(click.Group):
    """A command group that answers our own errors with two lines and exit code 1; any other keeps its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            with ending_politely():
                return super().invoke(ctx)
        except DittoError as error:
            click.echo(f"Error: {error.what}", err=True)
            if error.hint:
                click.echo(f"Hint: {error.hint}", err=True)
            ctx.exit(1)


@contextmanager
def ending_politely() -> Iterator[None]:
    """Let a wish to end (SIGTERM, SIGHUP) unwind the program, so that children end and half-made files go."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    # One that is ignored, as under nohup, stays ignored.
    wishes = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in wishes} if is_main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_json(document: object) -> None:
    """Print one JSON document on stdout."""
    text = json.dumps(document, indent=2, ensure_ascii=False, sort_keys=False)
    # A file name that is not UTF-8 cannot be printed as it is.
    click.echo(re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
    """Print a table on stdout; the last columns stay unwrapped when the output is piped."""
    table = Table(title=title or None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text, since brackets in a message or a file name would be taken for markup.
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)


def note(text: str) -> None:
    """One line for the person at the terminal, on stderr."""
    click.echo(text, err=True)


@contextmanager
def progress_bar(label: str) -> Iterator[OnProgress]:
    """A progress bar on stderr; yields ``on_progress(done, total)``."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def format_bytes(num_bytes: int) -> str:
    """Bytes for people: ``1.4 GB``."""
    size = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")
