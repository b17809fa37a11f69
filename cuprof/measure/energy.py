"""Energy of one execution, from NVML's energy counter over a loop that is long against the counter's steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuprof.records import Energy

IDLE_S = 0.5
EDGE_LIMIT_S = 0.5
"""An H200's counter moves every 100 ms, at once with the power; one that has not moved for this long does not move."""


ReadCounter = Callable[[], int | None]


@dataclass(frozen=True)
class EnergyReading:
    """Energy of repeated executions.

    Args:
        executions: how many the loop held.
        seconds: how long it took.
    """

    energy: Energy
    executions: int
    seconds: float

    def as_details(self) -> dict[str, Any]:
        """Return what is stored in a timing's details."""
        return {"energy_executions": self.executions, "energy_seconds": self.seconds}


class EnergyUnavailableError(Exception):
    """Say why energy cannot be told of a device."""


def measure_idle(read_mj: ReadCounter, seconds: float = IDLE_S) -> float:
    """Return the watts of a device without work.

    Raises:
        EnergyUnavailableError: the counter does not move.
    """
    start = _edge(read_mj, lambda: 0)
    time.sleep(seconds)
    return _watts(start, _edge(read_mj, lambda: 0))


def measure_energy(execute: Callable[[], int], read_mj: ReadCounter, idle_w: float, loop_s: float) -> EnergyReading:
    """Return the energy of one execution.

    Args:
        execute: runs some executions, waits for them, returns how many.
        read_mj: the device's energy counter in millijoules; None where this one reading failed.
        idle_w: what the device draws without work, stored beside the result.
        loop_s: the loop lasts this long; both of its ends are taken right at a step of the counter.

    Raises:
        EnergyUnavailableError: the counter does not move.
    """
    execute()  # the clocks rise before the loop proper
    start = _edge(read_mj, execute)
    executions = 0
    while time.perf_counter() - start.at_s < loop_s:
        executions += execute()
    end = _edge(read_mj, execute)
    executions += end.executions
    watts = _watts(start, end)
    seconds = end.at_s - start.at_s
    return EnergyReading(Energy(watts * seconds / executions, watts, idle_w), executions, seconds)


@dataclass(frozen=True)
class _Edge:
    """The moment at which the counter was seen to step."""

    energy_mj: int
    at_s: float
    executions: int


def _watts(start: _Edge, end: _Edge) -> float:
    if end.energy_mj < start.energy_mj:
        raise EnergyUnavailableError("the energy counter of the device went backwards")
    return (end.energy_mj - start.energy_mj) / 1000 / (end.at_s - start.at_s)


def _edge(read_mj: ReadCounter, work: Callable[[], int]) -> _Edge:
    """Work until the counter steps, and return when and where; a reading that failed is no step."""
    known, began, executions = read_mj(), time.perf_counter(), 0
    while True:
        executions += work()
        now, energy = time.perf_counter(), read_mj()
        if energy is not None and known is not None and energy != known:
            return _Edge(energy, now, executions)
        known = energy if known is None else known
        if now - began > EDGE_LIMIT_S:
            raise EnergyUnavailableError("the energy counter of the device does not move")
