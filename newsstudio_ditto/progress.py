"""How far the running stage is: told to whoever listens in this thread, and to nobody otherwise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

OnProgress = Callable[[int, int], None]
"""Called with (done, in all)."""

OnStage = Callable[[str, int, int], None]

_listener: ContextVar[OnStage | None] = ContextVar("stage_listener", default=None)


@contextmanager
def listening(on_stage: OnStage) -> Iterator[None]:
    """Call ``on_stage(stage, done_frames, num_frames)`` while the block runs."""
    token = _listener.set(on_stage)
    try:
        yield
    finally:
        _listener.reset(token)


def report_stage(stage: str, done_frames: int, num_frames: int) -> None:
    """Say that ``stage`` has finished ``done_frames`` of ``num_frames``."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done_frames, num_frames)
