"""Seconds per stage of one render."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StageClock:
    """Adds up wall time by stage name, from its construction on."""

    def __init__(self) -> None:
        """Start the total."""
        self._started = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the body's time towards stage ``name``, but not that of stages inside it."""
        started, counted = time.perf_counter(), sum(self._seconds.values())
        try:
            yield
        finally:
            inside = sum(self._seconds.values()) - counted
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - started - inside

    def seconds(self) -> dict[str, float]:
        """Seconds by stage in the order they began to count, and ``total`` since the construction."""
        return {**self._seconds, "total": time.perf_counter() - self._started}
