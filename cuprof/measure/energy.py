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


def measure_idle(read_mj: Callable[[], int], seconds: float = IDLE_S) -> float | None:
    """Return the watts of a device without work, or None where the counter does not move."""
    start = _edge(read_mj, lambda: 0)
    if start is None:
        return None
    time.sleep(seconds)
    end = _edge(read_mj, lambda: 0)
    return None if end is None else _watts(start, end)


def measure_energy(
    execute: Callable[[], int], read_mj: Callable[[], int], idle_w: float, loop_s: float
) -> EnergyReading | None:
    """Return the energy of one execution, or None where the counter does not move.

    Args:
        execute: runs some executions, waits for them, returns how many.
        read_mj: the device's energy counter in millijoules.
        idle_w: what the device draws without work, stored beside the result.
        loop_s: the loop lasts this long; both of its ends are taken right at a step of the counter.
    """
    execute()  # the clocks rise before the loop proper
    start = _edge(read_mj, execute)
    if start is None:
        return None
    executions = 0
    while time.perf_counter() - start.at_s < loop_s:
        executions += execute()
    end = _edge(read_mj, execute)
    if end is None:
        return None
    executions += end.executions
    joules = (end.energy_mj - start.energy_mj) / 1000
    return EnergyReading(Energy(joules / executions, _watts(start, end), idle_w), executions, end.at_s - start.at_s)


@dataclass(frozen=True)
class _Edge:
    """The moment at which the counter was seen to step."""

    energy_mj: int
    at_s: float
    executions: int


def _watts(start: _Edge, end: _Edge) -> float:
    return (end.energy_mj - start.energy_mj) / 1000 / (end.at_s - start.at_s)


def _edge(read_mj: Callable[[], int], work: Callable[[], int]) -> _Edge | None:
    """Work until the counter steps; return when and where, or None after `EDGE_LIMIT_S`."""
    first, began, executions = read_mj(), time.perf_counter(), 0
    while True:
        executions += work()
        now, energy = time.perf_counter(), read_mj()
        if energy != first:
            return _Edge(energy, now, executions)
        if now - began > EDGE_LIMIT_S:
            return None
