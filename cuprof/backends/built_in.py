"""Facts about the back ends that come with cuprof, in display order."""

from __future__ import annotations

from cuprof.backends.spec import BackendSpec, LaunchLimits, NoiseSource
from cuprof.core.records import Measure
from cuprof.search.usual_block import UsualBlock

CUDA = BackendSpec(
    name="cuda",
    title="CUDA",
    timing_version=5,
    measures=(Measure.COLD, Measure.HOT, Measure.TOTAL),
    setting="cuda",
    opener="cuprof.backends.cuda.backend:CudaBackend",
    facts_reader="cuprof.backends.cuda.presence:find_facts",
    imports=("cupy",),
    shared="cuprof.backends.cuda.memory:SharedCudaMemory",
    counter="cuprof.backends.cuda.presence:count_devices",
    lister="cuprof.backends.cuda.presence:list_devices",
    # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the same from 5.0 to 12.x.
    limits=LaunchLimits(grid=(2**31 - 1, 65535, 65535), block=(1024, 1024, 64), block_threads=1024),
    cooperative=True,
    extended=True,
    steps=("launch", "fill", "copy", "repeat", "invoke"),
    uses_cuda_headers=True,
    builder="cuprof.backends.cuda.loading:build_images",
    # The CUDA C++ Best Practices Guide begins with 128 to 256, of whole warps.
    usual_block=UsualBlock(128, 512, multiple=32),
)
OPENCL = BackendSpec(
    name="opencl",
    title="OpenCL",
    timing_version=3,
    measures=(Measure.COLD, Measure.HOT, Measure.TOTAL),
    setting="opencl",
    opener="cuprof.backends.opencl.backend:OpenClBackend",
    lister="cuprof.backends.opencl.presence:list_devices",
    shared="cuprof.backends.cpu.memory:SharedHostMemory",  # of a device that is the host's own processor
    unheeded=frozenset({"graph", "timer"}),
    noise=NoiseSource.EVENTS,
    # CLBlast's tuning database, 12 kernels: 93 % of 406 bests on AMD's GPUs lie there, 80 % of 763 on NVIDIA's; nine
    # in ten are multiples of 64. HIP's performance guidelines say 128 to 256, in multiples of 64.
    usual_block=UsualBlock(64, 256, multiple=64),
)
CPU = BackendSpec(
    name="cpu",
    title="CPU",
    timing_version=5,
    measures=(Measure.COLD, Measure.HOT),  # there is no transfer that total time could include
    setting="cpu_threads",
    opener="cuprof.backends.cpu.backend:CpuBackend",
    lister="cuprof.backends.cpu.processor:list_devices",
    shared="cuprof.backends.cpu.memory:SharedHostMemory",
    unheeded=frozenset({"blocking", "graph", "timer", "clock_tolerance", "energy"}),
    is_host=True,
    runs_in_process=True,
    builds_ahead=False,  # functions compile when they are prepared
    steps=("invoke",),
)
PROGRAM = BackendSpec(
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
