"""One run at a time on an avatar's bench, whoever starts it: the queue, a terminal, or another machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from newsstudio_ditto.exclusion import hold_bench
from newsstudio_ditto.graph_run import PARTITION_TAG
from resources.partitions import avatar_of
from resources.storage import StorageResource


class BenchResource(dg.ConfigurableResource[Any]):
    """Held for a whole run by everything that writes parts of a packet. A second run of the avatar is refused at once.

    The lock is the file system's, so it ends with the process that holds it, however that dies.
    """

    storage: StorageResource

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["BenchResource"]:
        """Take the bench of the run's avatar."""
        key = context.run.tags.get(PARTITION_TAG) if context.run else None
        if context.run is None or key is None:
            yield self
            return
        with hold_bench(self.storage.layout, avatar_of(key), f"run {context.run.run_id}"):
            yield self
