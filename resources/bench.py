"""One run at a time on an avatar's bench, whoever starts it: the queue, a terminal, or another machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from newsstudio_ditto.packet.files import try_locked
from newsstudio_ditto.storage import StorageLayout
from resources.partitions import avatar_of
from resources.storage import StorageResource

PARTITION_TAG = "dagster/partition"


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


@contextmanager
def hold_bench(layout: StorageLayout, avatar_id: str, holder: str) -> Iterator[None]:
    """Hold an avatar's bench.

    Args:
        layout: where everything lives.
        avatar_id: whose.
        holder: said to whoever comes second.

    Raises:
        Failure: somebody holds it; not retried.
    """
    with try_locked(layout.bench_lock(avatar_id), holder) as other:
        if other is not None:
            raise dg.Failure(
                f"the packet of {avatar_id} is being made by {other or 'somebody else'} "
                "(wait until that has ended, or cancel it)",
                allow_retries=False,
            )
        yield
