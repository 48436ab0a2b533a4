"""Waiting for a place in a pool costs no CPU.

A step that finds its pool full is asked about again after a second, and later after up to fifteen. In between Dagster
means to sleep, but takes the *smallest* of zero and the time that is left, so the process turns in a loop at full load,
which is what the CPU stages of other avatars would need.
"""

import time
from typing import Any

from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

MOST_SLEEP_S = 1.0
"""Longer waits are cut up, so that a run that is cancelled meanwhile notices."""


def seconds_to_next_claim(context: InstanceConcurrencyContext) -> float:
    """How long the earliest of the waiting steps need not be asked about."""
    left = [ready_at - time.time() for ready_at in context._pending_timeouts.values()]
    return min(max(min(left, default=0.0), 0.0), MOST_SLEEP_S)


def sleep_while_waiting() -> None:
    """Put the right time in place of Dagster's, in this process."""
    upstream: Any = InstanceConcurrencyContext
    upstream.interval_to_next_pending_claim_check = seconds_to_next_claim
