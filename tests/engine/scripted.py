"""Executors without workers: what they are to build is built at once, and tests answer their trials."""

from __future__ import annotations

from cuprof.config.model import LimitsConfig
from cuprof.core.records import Outcome, State
from cuprof.engine.dispatcher import Scheduler
from cuprof.engine.executor import Batch, Executor, Result
from cuprof.worker.messages import Built, WorkerSettings


def make_executors(count: int) -> list[Executor]:
    return [Executor(WorkerSettings(), LimitsConfig()) for _ in range(count)]


def build(executor: Executor, batch: Batch) -> None:
    """Have everything built that a batch asks for."""
    executor.take_built(Built(tuple(trial.identity for job in batch.build for trial in job.trials)))


def ask(scheduler: Scheduler, executor: Executor) -> Batch | None:
    """Return the next batch with trials to measure."""
    while (batch := scheduler.ask(executor)) is not None:
        build(executor, batch)
        if batch.job is not None:
            executor.built.difference_update(trial.identity for trial in batch.job.trials)
            return batch
    return None


def list_identities(batch: Batch | None) -> list[str] | None:
    return None if batch is None or batch.job is None else [trial.identity for trial in batch.job.trials]


def tell(scheduler: Scheduler, executor: Executor, batch: Batch, identity: str) -> None:
    scheduler.tell(executor, Result(batch, Outcome(identity, State.OK)))
