"""The contract of what decides which trials are measured next."""

from __future__ import annotations

from typing import Protocol

from cuprof.engine.events import Batch, Result
from cuprof.engine.executor import Executor


class Scheduler(Protocol):
    """Choose the next trials to measure: all of a plan, or a search's proposals.

    A scheduler may go by earlier results: it receives each one, already durable in the store, before the same executor
    gets another batch.

    Attributes:
        tolerates_failures: whether the sweep succeeds as long as one trial does.
    """

    tolerates_failures: bool

    @property
    def done(self) -> bool:
        """Return whether no executor will ever get another batch."""

    def ask(self, executor: Executor) -> Batch | None:
        """Return a free executor's next batch; None if there is nothing for it now."""

    def tell(self, executor: Executor, result: Result) -> None:
        """Receive the result of one trial, except those that are stored beside others."""

    def release(self, executor: Executor, batch: Batch) -> None:
        """Take back the open trials of an executor that is lost for good."""
