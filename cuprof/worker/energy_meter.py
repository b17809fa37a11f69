"""Measure the energy of one execution, reported beside its timing."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from cuprof.backends.contract import Backend, Runnable
from cuprof.backends.device_state import StateMonitor
from cuprof.core.records import ENERGY_UNAVAILABLE, Timing
from cuprof.worker.bench import Bench
from cuprof.worker.candidate import Candidate
from cuprof.worker.energy import Edge, EnergyReading, EnergyUnavailableError, Idle, measure_energy, measure_idle
from cuprof.worker.status_page import Phase

MOST_EXECUTIONS = 1000
"""Execute at most this many times between two reads of the counter."""
WIDER = 6.0
"""The energy interval may be this many times as wide as the time's: with a counter that steps every 100 ms, an equal
one costs ten times what the samples do."""
_idle: WeakKeyDictionary[Backend[Runnable], Idle] = WeakKeyDictionary()
"""The idle power of each open device. It is measured once, since that takes as long as the energy of five trials."""


class EnergyMeter:
    """Measure the energy of a job's candidates.

    Args:
        backend: the device that the bench's session is on.
    """

    def __init__(self, bench: Bench, backend: Backend[Runnable], monitor: StateMonitor | None) -> None:
        self.bench, self.backend, self.monitor = bench, backend, monitor
        self._last: Edge | None = None

    def add(self, candidate: Candidate, timing: Timing) -> Timing:
        """Return the timing with the energy of an execution, or why there is none."""
        try:
            reading = self._measure(candidate, timing.summary.median_ns)
        except EnergyUnavailableError as error:
            return replace(timing, details={**timing.details, ENERGY_UNAVAILABLE: str(error)})
        return replace(timing, energy=reading.energy, details={**timing.details, **reading.as_details()})

    def _measure(self, candidate: Candidate, median_ns: float) -> EnergyReading:
        monitor, bench, runnable = self.monitor, self.bench, candidate.runnable
        assert runnable is not None
        if bench.restores(candidate):
            raise EnergyUnavailableError("back-to-back executions would start from what earlier ones left behind")
        if monitor is None:
            raise EnergyUnavailableError("NVML does not know the device")

        def execute(seconds: float) -> int:
            bench.enter(candidate.index, Phase.TIME)  # the loop may last longer than the limit of one execution
            count = max(1, min(MOST_EXECUTIONS, int(seconds * 1e9 / max(median_ns, 1e3))))
            bench.session.repeat(runnable, count)
            return count

        bench.enter(candidate.index, Phase.TIME)
        if self.backend not in _idle:
            if monitor.energy_mj() is None:
                raise EnergyUnavailableError("NVML has no energy counter for the device")
            _idle[self.backend] = measure_idle(monitor.energy_mj)
        seconds, target = bench.job.measure.energy_seconds, WIDER * bench.job.measure.target
        reading = measure_energy(execute, monitor.energy_mj, _idle[self.backend], seconds, target, self._last)
        self._last = reading.end
        return reading
