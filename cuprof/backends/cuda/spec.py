"""Facts about the back end for CUDA."""

from __future__ import annotations

from cuprof.backends.spec import BackendSpec, LaunchLimits
from cuprof.core.records import Measure
from cuprof.search.usual_block import UsualBlock

SPEC = BackendSpec(
    name="cuda",
    title="CUDA",
    timing_version=5,
    measures=(Measure.COLD, Measure.HOT, Measure.TOTAL),
    setting="cuda",
    opener="cuprof.backends.cuda.backend:CudaBackend",
    facts_reader="cuprof.backends.cuda.facts:find_facts",
    imports=("cupy",),
    shared="cuprof.backends.cuda.shared:SharedCudaMemory",
    counter="cuprof.backends.cuda.presence:count_devices",
    lister="cuprof.backends.cuda.presence:list_devices",
    # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the same from 5.0 to 12.x.
    limits=LaunchLimits(grid=(2**31 - 1, 65535, 65535), block=(1024, 1024, 64), block_threads=1024),
    cooperative=True,
    extended=True,
    steps=("launch", "fill", "copy", "repeat", "invoke"),
    uses_cuda_headers=True,
    builder="cuprof.backends.cuda.offline:build",
    # The CUDA C++ Best Practices Guide begins with 128 to 256, of whole warps.
    usual_block=UsualBlock(128, 512, multiple=32),
)
