"""Energy of one execution, from NVML's energy counter over a loop that is long against the counter's steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuprof.records import Energy

LOOP_S = 1.0
"""The counter of data-centre boards moves every 20 to 100 ms, so a second holds 10 to 50 of its steps and both ends
of the loop are taken right at one."""
IDLE_S = 0.5
EDGE_LIMIT_S = 0.5


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


def measure_energy(
    execute: Callable[[], int], read_mj: Callable[[], int], loop_s: float = LOOP_S, idle_s: float = IDLE_S
) -> EnergyReading | None:
    """Return the energy of one execution, or None where the counter does not move.

    Args:
        execute: runs some executions, waits for them, returns how many.
        read_mj: the device's energy counter in millijoules.
    """
    idle = _edge(read_mj, lambda: 0)
    if idle is None:
        return None
    time.sleep(idle_s)
    before = _edge(read_mj, lambda: 0)
    execute()  # the clocks rise before the loop proper
    start = _edge(read_mj, execute)
    if before is None or start is None:
        return None
    executions = 0
    while time.perf_counter() - start.at_s < loop_s:
        executions += execute()
    end = _edge(read_mj, execute)
    if end is None:
        return None
    executions += end.executions
    seconds = end.at_s - start.at_s
    joules = (end.energy_mj - start.energy_mj) / 1000
    idle_w = (before.energy_mj - idle.energy_mj) / 1000 / (before.at_s - idle.at_s)
    return EnergyReading(Energy(joules / executions, joules / seconds, idle_w), executions, seconds)


@dataclass(frozen=True)
class _Edge:
    """The moment at which the counter was seen to step."""

    energy_mj: int
    at_s: float
    executions: int


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
