"""Energy of one execution, from NVML's energy counter over a loop that is long against the counter's steps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

from cuprof.backends.contract import Backend, Runnable, Session
from cuprof.backends.device_state import StateMonitor
from cuprof.config.model import MeasureConfig
from cuprof.core.records import ENERGY_UNAVAILABLE, Energy, Timing

IDLE_S = 0.5
EDGE_LIMIT_S = 0.5
"""Take a counter that has not moved for this long to be standing still. An H200's moves every 100 ms, at once with the
power."""
COARSE_S, FINE_S = 5e-3, 5e-4
"""Between two reads of the counter, execute for about this long: the coarse interval far from a step, the fine one near
it."""
LIKELY = 1 - 0.05**0.5
"""Each end of a loop is seen with a uniform delay of up to one gap. In 95 of 100 loops the two delays differ by less
than this fraction of a gap, since their difference is triangular."""
NEAR = 0.1
"""Look closely for a step once less than this fraction of the step interval is left."""
FOLLOWS_S = 1e-3
"""A loop may start at the last step if it follows that step, and the read that showed it, this closely. An H200's
counter follows the power at once."""

MOST_EXECUTIONS = 1000
"""Execute at most this many times between two reads of the counter."""
WIDER = 6.0
"""The energy interval may be this many times as wide as the time's: with a counter that steps every 100 ms, an equal
one costs ten times what the samples do."""

ReadCounter = Callable[[], int | None]
Execute = Callable[[float], int]


@dataclass(frozen=True)
class Idle:
    """A device's power without work, and the time between two steps of its counter."""

    watts: float
    step_s: float


@dataclass(frozen=True)
class Edge:
    """The moment when the counter was seen to step, and the time since the read before it."""

    energy_mj: int
    at_s: float
    gap_s: float
    executions: int


class EnergyUnavailableError(Exception):
    """Report why a device's energy cannot be measured."""


_idle: WeakKeyDictionary[Backend[Runnable], Idle] = WeakKeyDictionary()
"""The idle power of each open device. It is measured once, since that takes as long as the energy of five trials."""


class EnergyMeter:
    """Measure the energy of executions on a session's device."""

    def __init__(self, session: Session[Runnable], monitor: StateMonitor | None, config: MeasureConfig) -> None:
        self.session, self.monitor, self.config = session, monitor, config
        self._last: Edge | None = None

    def add(self, timing: Timing, runnable: Runnable, attend: Callable[[], None], *, restores: bool) -> Timing:
        """Return the timing with the energy of an execution, or why there is none.

        Args:
            attend: called before each part of the loop, which may last longer than the limit of one execution.
            restores: an execution changes data that must be restored for the next one.
        """
        try:
            if restores:
                raise EnergyUnavailableError("back-to-back executions would start from what earlier ones left behind")

            def execute(seconds: float) -> int:
                attend()
                count = max(1, min(MOST_EXECUTIONS, int(seconds * 1e9 / max(timing.summary.median_ns, 1e3))))
                self.session.run(runnable, count)
                return count

            attend()
            energy, details, self._last = self._measure(execute)
        except EnergyUnavailableError as error:
            return replace(timing, details={**timing.details, ENERGY_UNAVAILABLE: str(error)})
        return replace(timing, energy=energy, details={**timing.details, **details})

    def _measure(self, execute: Execute) -> tuple[Energy, dict[str, Any], Edge]:
        if self.monitor is None:
            raise EnergyUnavailableError("NVML does not know the device")
        read_mj, backend = self.monitor.energy_mj, self.session.backend
        if backend not in _idle:
            if read_mj() is None:
                raise EnergyUnavailableError("NVML has no energy counter for the device")
            _idle[backend] = measure_idle(read_mj)
        idle, seconds, target = _idle[backend], self.config.energy_seconds, WIDER * self.config.target
        return measure_energy(execute, read_mj, idle, seconds, target, self._last)


def measure_idle(read_mj: ReadCounter) -> Idle:
    """Return the watts of a device without work, and the shortest time between steps of its counter.

    Raises:
        EnergyUnavailableError: the counter does not move.
    """
    edges = [_edge(read_mj, _rest)]
    while edges[-1].at_s - edges[0].at_s < IDLE_S:
        edges.append(_edge(read_mj, _rest))
    return Idle(_watts(edges[0], edges[-1]), min(later.at_s - earlier.at_s for earlier, later in pairwise(edges)))


def measure_energy(
    execute: Execute,
    read_mj: ReadCounter,
    idle: Idle,
    most_s: float,
    target: float = 0.0,
    last: Edge | None = None,
) -> tuple[Energy, dict[str, Any], Edge]:
    """Return the energy of one execution, the details of its timing, and the step at which the loop ended.

    The details are how many executions the loop held, how long it took, and the half-width of the 95 % interval,
    relative, as far as it comes of when its ends were seen.

    Args:
        execute: runs executions for about the given number of seconds, waits for them, and returns their number.
        read_mj: reads the device's energy counter in millijoules; None if the reading failed.
        idle: its power is stored beside the result.
        most_s: the loop ends at the counter's step nearest to this,
        target: or earlier, once at most this fraction of its energy is uncertain. It starts and ends right at a step.
        last: if the device has worked until just now, the step at which that ended; the loop begins there.

    Raises:
        EnergyUnavailableError: the counter does not move.
    """
    if last is None or time.perf_counter() - last.at_s > last.gap_s + FOLLOWS_S:
        execute(COARSE_S)  # the clocks rise before the loop proper
        last = _edge(read_mj, lambda: execute(FINE_S))
    start = end = last
    executions, unknown, step_s = 0, math.inf, idle.step_s
    while end.at_s - start.at_s < most_s - step_s / 2 and unknown > target:
        while time.perf_counter() - end.at_s < (1 - NEAR) * step_s - COARSE_S:
            executions += execute(COARSE_S)
        before, end = end, _edge(read_mj, lambda: execute(FINE_S), end)
        executions += end.executions
        step_s = min(step_s, end.at_s - before.at_s)  # a step that came sooner was missed among the longer executions
        unknown = LIKELY * (start.gap_s + end.gap_s) / 2 / (end.at_s - start.at_s)
    watts, seconds = _watts(start, end), end.at_s - start.at_s
    details = {
        "energy_executions": executions,
        "energy_seconds": seconds,
        "energy_uncertainty": round(unknown, 5),
    }
    return Energy(watts * seconds / executions, watts, idle.watts), details, end


def _rest() -> int:
    time.sleep(FINE_S)
    return 0


def _watts(start: Edge, end: Edge) -> float:
    if end.energy_mj < start.energy_mj:
        raise EnergyUnavailableError("the energy counter of the device went backwards")
    return (end.energy_mj - start.energy_mj) / 1000 / (end.at_s - start.at_s)


def _edge(read_mj: ReadCounter, work: Callable[[], int], last: Edge | None = None) -> Edge:
    """Work until the counter steps, and return when and at what value; a failed reading is not a step.

    Args:
        last: the previous step, if the counter has not been read since.
    """
    began, executions = time.perf_counter(), 0
    known, looked_s = (read_mj(), began) if last is None else (last.energy_mj, last.at_s)
    while True:
        executions += work()
        now, energy = time.perf_counter(), read_mj()
        if energy is not None:
            if known is not None and energy != known:
                return Edge(energy, now, now - looked_s, executions)
            known, looked_s = energy, now
        if now - began > EDGE_LIMIT_S:
            raise EnergyUnavailableError("the energy counter of the device does not move")
