"""Sample candidates side by side, and say of each timing how it was taken."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cuprof.backends.contract import Backend, Reading, Runnable
from cuprof.backends.device_state import StateMonitor
from cuprof.core.records import Measure, Timing
from cuprof.worker.bench import Bench
from cuprof.worker.candidate import LONG_NS, Candidate
from cuprof.worker.executions import Executions
from cuprof.worker.held import Held
from cuprof.worker.method import stopping_rule, version
from cuprof.worker.sampling import Sampler
from cuprof.worker.status_page import Phase

IDLE_NS = 100_000_000
"""Bring a device back up to its clocks before sampling if it has rested for longer than this."""


class Rounds:
    """Sample on one device; one object serves all rotations of a job.

    Args:
        backend: the device that the bench's session is on.
        monitor: reads the device's state, or None.
        executions: deals the executions and keeps count of their results.
        held: keeps, from job to job, when the device last worked.

    Attributes:
        current: index of the candidate last executed or reported; -1 before the first.
    """

    def __init__(
        self,
        bench: Bench,
        backend: Backend[Runnable],
        monitor: StateMonitor | None,
        executions: Executions,
        held: Held,
    ) -> None:
        self.bench, self.backend, self.monitor, self.executions = bench, backend, monitor, executions
        self.held = held
        self.current = -1
        self._rng = np.random.default_rng()

    def sample(self, candidates: Sequence[Candidate], measure: Measure) -> Iterator[tuple[Candidate, Timing]]:
        """Yield each candidate with its timing, as soon as that is known well enough."""
        by_index = {candidate.index: candidate for candidate in candidates}
        pairs = [(index, each.runnable) for index, each in by_index.items() if each.runnable is not None]
        self.current = -1
        self.bench.integrity.hide()
        once = frozenset(index for index, each in by_index.items() if self.bench.restores(each))
        begun = {}
        for each in candidates if measure is Measure.COLD else ():
            if each.check_ns >= LONG_NS and (first := self._read_seen(each)) is not None:
                begun[each.index] = first
        for index, timing in self._sampler(measure, once, begun).sample(pairs, measure):
            self.keep_warm()
            self.current = index
            yield by_index[index], replace(timing, details={**self._details(measure), **timing.details})

    def _read_seen(self, candidate: Candidate) -> Reading | None:
        """Take a first sample of a slow candidate under the engine's clock as well; None for other candidates.

        The engine's clock stops once the results are fetched, since work postponed until then is the variant's too. A
        candidate that was slow only in its check, while it compiled, is sampled normally.
        """
        bench, executions, runnable = self.bench, self.executions, candidate.runnable
        if bench.be_seen is None or executions.compared_sets < 2 or runnable is None:
            return None
        taken: list[tuple[Reading, int]] = []

        def execute(count: int, only_write: bool) -> float:
            started = time.monotonic_ns()
            deal = partial(executions.deal, candidate.index)
            reading = bench.session.begin(runnable, Measure.COLD, 1, deal).reading()
            taken.append((reading, time.monotonic_ns() - started))
            bench.session.fetch(runnable)
            candidate.seen_ns = time.monotonic_ns() - started
            return reading.duration_ns

        self.attend(candidate.index)
        bench.be_seen(candidate.index, candidate.check_ns, execute, True)
        for reading, spent_ns in taken:
            executions.settle(candidate.index, runnable, spent_ns)
            if reading.duration_ns >= LONG_NS:
                return reading
        return None

    def keep_warm(self) -> None:
        """Note that the device has worked until now, and has its clocks."""
        self.held.busy_until_ns[self.backend.spec.name] = time.monotonic_ns()

    def stay_warm(self) -> None:
        """Note that the device works still, unless it has rested: a check is too short to bring its clocks up."""
        if not self._has_rested:
            self.keep_warm()

    def attend(self, index: int) -> None:
        """Say that a candidate is going to be executed."""
        self.current = index
        self.bench.enter(index, Phase.TIME)

    @property
    def _has_rested(self) -> bool:
        return time.monotonic_ns() - self.held.busy_until_ns.get(self.backend.spec.name, 0) > IDLE_NS

    def _sampler(self, measure: Measure, once: frozenset[int], begun: Mapping[int, Reading]) -> Sampler:
        config = self.bench.job.measure
        return Sampler(
            session=self.bench.session,
            rule=stopping_rule(config),
            method=self.bench.job.methods[measure],
            rng=self._rng,
            attend=self.attend,
            warmup=config.warmup,
            settle_ns=config.settle_seconds * 1e9 if self._has_rested else 0.0,
            clock_tolerance=config.clock_tolerance,
            monitor=self.monitor,
            dealer=self.executions if self.executions.count else None,
            once=once,
            begun=begun,
        )

    def _details(self, measure: Measure) -> dict[str, Any]:
        """Return details for every timing: the method's version, and the overhead subtracted from each duration."""
        return {"version": version(self.backend.spec.name), "correction_ns": self.backend.correction_ns(measure)}
