"""Facts about the back end for the host's processor."""

from __future__ import annotations

from cuprof.backends.spec import BackendSpec
from cuprof.core.records import Measure

SPEC = BackendSpec(
    name="cpu",
    title="CPU",
    timing_version=4,
    measures=(Measure.COLD, Measure.HOT),  # there is no transfer that total time could include
    setting="cpu_threads",
    opener="cuprof.backends.cpu.backend:CpuBackend",
    lister="cuprof.backends.cpu.processor:list_devices",
    shared="cuprof.backends.cpu.shared:SharedHostMemory",
    unheeded=frozenset({"blocking", "graph", "timer", "clock_tolerance", "energy"}),
    is_host=True,
    runs_in_process=True,
    builds_ahead=False,  # functions compile when they are prepared
    steps=("invoke",),
)
