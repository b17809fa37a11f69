"""A back end: functions on NumPy's arrays, timed by the host's clock."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns

from cuprof.backends.contract import Backend, Draw, Draws, Frame, Reading, Runnable, Session
from cuprof.backends.cpu.memory import HostMemory
from cuprof.backends.spec import BackendSpec, ListedDevice
from cuprof.core.point import Point
from cuprof.core.records import Calibration, DeviceFacts, Measure
from cuprof.families import Program, Variant


def list_devices() -> Iterator[ListedDevice]:
    """Yield the one device."""
    yield ListedDevice(0, "abacus", "ten beads")


SPEC = BackendSpec(
    name="abacus",
    title="Abacus",
    timing_version=1,  # raised when `begin` changes what a number means: earlier timings are then not compared
    measures=(Measure.COLD,),
    setting="",
    opener="cuprof_example.backend:Abacus",
    lister="cuprof_example.backend:list_devices",
    # `begin` empties no cache, holds no queue and reads the host's clock alone. No method's hash has these settings.
    unheeded=frozenset({"flush", "blocking", "graph", "timer", "host_memory", "energy", "clock_tolerance"}),
    runs_in_process=True,
)


class AbacusSession(Session[Runnable]):
    """Arrays in host memory."""

    memories = HostMemory

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> Runnable:
        """Let the variant prepare itself."""
        return Runnable(variant.make(problem, tunables, self.inputs, self.outputs), self.outputs)

    def begin(self, runnable: Runnable, measure: Measure, batch: int = 1, draw: Draws = Draw) -> Frame:
        """Time one execution."""
        self.give(runnable, draw())
        started = perf_counter_ns()
        runnable.enqueue()
        spent_ns = perf_counter_ns() - started
        return lambda: Reading(float(spent_ns))


class Abacus(Backend[Runnable]):
    """The one device."""

    spec = SPEC
    sessions = AbacusSession

    def __init__(self, number: int | None = None) -> None:
        pass

    def facts(self) -> DeviceFacts:
        """Return its name."""
        return DeviceFacts(SPEC.name, 0, "abacus", memory_bytes=1 << 30, identity={"name": "abacus"})

    def calibrate(self) -> Calibration:
        """State a bandwidth that no abacus has."""
        return Calibration(SPEC.name, read_bandwidth=1e12)
