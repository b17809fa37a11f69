"""Sample candidates side by side, and say of each timing how it was taken."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cuprof.backends.contract import Backend, Reading, Runnable
from cuprof.backends.device_state import StateMonitor
from cuprof.measure.method import stopping_rule, version
from cuprof.measure.sampling import Sampler
from cuprof.records import Measure, Timing
from cuprof.worker.bench import Bench
from cuprof.worker.candidate import Candidate
from cuprof.worker.executions import Executions
from cuprof.worker.status_page import Phase

IDLE_NS = 100_000_000
"""A device that has rested for longer than this is brought up to its clocks anew before it is sampled."""


class Rounds:
    """Sample on one device; one object serves all rotations of a job.

    Args:
        backend: the device that the bench's session is on.
        monitor: tells the device's state, or None.
        executions: deals the executions and keeps count of their results.

    Attributes:
        current: index of the candidate that was executed or told of last; -1 before the first.
    """

    def __init__(
        self, bench: Bench, backend: Backend[Runnable], monitor: StateMonitor | None, executions: Executions
    ) -> None:
        self.bench, self.backend, self.monitor, self.executions = bench, backend, monitor, executions
        self.current = -1
        self._rng = np.random.default_rng()
        self._sampled_ns: int | None = None

    def sample(self, candidates: Sequence[Candidate], measure: Measure) -> Iterator[tuple[Candidate, Timing]]:
        """Yield each candidate with its timing, as soon as that is known well enough."""
        by_index = {candidate.index: candidate for candidate in candidates}
        pairs = [(index, each.runnable) for index, each in by_index.items() if each.runnable is not None]
        self.current = -1
        self.bench.integrity.hide()
        once = frozenset(index for index, each in by_index.items() if self.bench.restores(each))
        long = [each for each in candidates if each.is_long and measure is Measure.COLD]
        begun = {each.index: each.first for each in long if each.first}
        for index, timing in self._sampler(measure, once, begun).sample(pairs, measure):
            self._sampled_ns = time.monotonic_ns()
            self.current = index
            yield by_index[index], replace(timing, details={**self._details(measure), **timing.details})

    def attend(self, index: int) -> None:
        """Say that a candidate is going to be executed."""
        self.current = index
        self.bench.enter(index, Phase.TIME)

    def _sampler(self, measure: Measure, once: frozenset[int], begun: Mapping[int, Reading]) -> Sampler:
        config = self.bench.job.measure
        rested = self._sampled_ns is None or time.monotonic_ns() - self._sampled_ns > IDLE_NS
        return Sampler(
            session=self.bench.session,
            rule=stopping_rule(config),
            method=self.bench.job.methods[measure],
            rng=self._rng,
            attend=self.attend,
            warmup=config.warmup,
            settle_ns=config.settle_seconds * 1e9 if rested else 0.0,
            clock_tolerance=config.clock_tolerance,
            monitor=self.monitor,
            dealer=self.executions if self.executions.count else None,
            once=once,
            begun=begun,
        )

    def _details(self, measure: Measure) -> dict[str, Any]:
        """Return what is stored with every timing: the method's version, and what was taken off each duration."""
        return {"version": version(self.backend.spec.name), "correction_ns": self.backend.correction_ns(measure)}
