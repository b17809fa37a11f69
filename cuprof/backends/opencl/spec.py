"""Facts about the back end for OpenCL."""

from __future__ import annotations

from cuprof.backends.spec import BackendSpec, NoiseSource
from cuprof.core.records import Measure
from cuprof.search.usual_block import UsualBlock

SPEC = BackendSpec(
    name="opencl",
    title="OpenCL",
    timing_version=3,
    measures=(Measure.COLD, Measure.HOT, Measure.TOTAL),
    setting="opencl",
    opener="cuprof.backends.opencl.backend:OpenClBackend",
    lister="cuprof.backends.opencl.presence:list_devices",
    shared="cuprof.backends.cpu.shared:SharedHostMemory",  # of a device that is the host's own processor
    unheeded=frozenset({"graph", "timer"}),
    noise=NoiseSource.EVENTS,
    # CLBlast's tuning database, 12 kernels: 93 % of 406 bests on AMD's GPUs lie there, 80 % of 763 on NVIDIA's; nine
    # in ten are multiples of 64. HIP's performance guidelines say 128 to 256, in multiples of 64.
    usual_block=UsualBlock(64, 256, multiple=64),
)
