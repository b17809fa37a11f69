"""Facts about the back end for whole executables."""

from __future__ import annotations

from cuprof.backends.spec import BackendSpec
from cuprof.core.records import Measure

SPEC = BackendSpec(
    name="program",
    title="Program",
    timing_version=1,
    measures=(Measure.COLD, Measure.TOTAL),  # a process runs once: nothing of it can be hot
    setting="cuda",
    opener="cuprof.backends.program.backend:ProgramBackend",
    lister="cuprof.backends.program.backend:list_devices",
    unheeded=frozenset({"flush", "blocking", "graph", "timer", "host_memory", "energy"}),
    steps=("execute",),
)
