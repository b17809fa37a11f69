"""What is known of the back end for CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cuprof.backends.spec import BackendSpec, LaunchLimits, ListedDevice, SweepNoise
from cuprof.records import DeviceFacts, Measure

if TYPE_CHECKING:
    from cuprof.backends.cuda.backend import CudaBackend


def _open(index: int | None) -> CudaBackend:
    from cuprof.backends.cuda.presence import require_device

    require_device(index or 0)
    from cuprof.backends.cuda.backend import CudaBackend

    return CudaBackend(index or 0)


def _read_facts(index: int | None) -> DeviceFacts:
    """Ask the driver, without CuPy and a context, which cost a second."""
    from cuprof.backends.cuda.presence import require_device

    require_device(index or 0)
    from cuprof.backends.cuda.facts import read_facts

    return read_facts(index or 0)


def _list_devices() -> Iterator[ListedDevice]:
    from cuprof.backends.cuda.presence import find_driver

    driver = find_driver()
    if driver is None:
        return
    for gpu in driver.gpus:
        memory = f"{gpu.memory_bytes / 2**30:.1f} GiB"
        details = f"compute capability {gpu.compute_capability}, {memory}, driver {driver.version}"
        yield ListedDevice(gpu.index, gpu.name, details)


SPEC = BackendSpec(
    name="cuda",
    title="CUDA",
    timing_version=3,
    measures=(Measure.COLD, Measure.HOT, Measure.TOTAL),
    setting="cuda",
    open=_open,
    read_facts=_read_facts,
    list_devices=_list_devices,
    profilers=("ncu",),
    # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the same from 5.0 to 12.x.
    limits=LaunchLimits(grid=(2**31 - 1, 65535, 65535), block=(1024, 1024, 64), block_threads=1024),
    cooperative=True,
    uses_cuda_headers=True,
    noise=SweepNoise.LAUNCHES,
)
