"""What is known of the back end for OpenCL."""

from __future__ import annotations

from cuprof.backends.spec import BackendSpec, NoiseSource
from cuprof.records import Measure

SPEC = BackendSpec(
    name="opencl",
    title="OpenCL",
    timing_version=3,
    measures=(Measure.COLD, Measure.HOT, Measure.TOTAL),
    setting="opencl",
    opener="cuprof.backends.opencl.backend:OpenClBackend",
    lister="cuprof.backends.opencl.presence:list_devices",
    unheeded=frozenset({"graph", "timer"}),
    noise=NoiseSource.EVENTS,
)
