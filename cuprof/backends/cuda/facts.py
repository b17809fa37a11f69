"""Read a CUDA device's facts from the driver, without making a context or importing CuPy."""

from __future__ import annotations

import platform

from cuprof.backends.built_in import CUDA
from cuprof.backends.cuda.driver import call, load_driver, read_attribute
from cuprof.backends.cuda.presence import require_device
from cuprof.backends.device_state import StateMonitor, ask, find_nvml
from cuprof.builds.nvrtc import nvrtc_version
from cuprof.core.records import DeviceFacts
from cuprof.families.toolchain import get_version

LIMITS = {
    "registers_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "blocks_per_multiprocessor": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "shared_bytes_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "constant_bytes": "TOTAL_CONSTANT_MEMORY",
}
"""Name among the details → the driver's name."""


def find_facts(index: int | None = None) -> DeviceFacts:
    """Return a device's name, memory and the versions that its timings depend on.

    Neither CuPy nor a context is needed, which cost a second.

    Raises:
        LaunchError: the driver refused.
        MissingDependencyError, CuprofError: see `require_device`.
    """
    index = index or 0
    require_device(index)
    driver = load_driver()
    call(driver.cuInit(0), "start the driver")
    name = call(driver.cuDeviceGetName(256, index), "read the device's name").split(b"\0")[0].decode()
    major, minor = (read_attribute(index, f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    capability = f"{major}.{minor}"
    multiprocessors = read_attribute(index, "MULTIPROCESSOR_COUNT")
    api = str(call(driver.cuDriverGetVersion(), "read the driver's version"))
    nvml = find_nvml()  # containers may lack it while CUDA works
    version = str((ask(nvml.nvmlSystemGetDriverVersion) if nvml else "") or f"CUDA {api}")
    nvrtc, uuid = nvrtc_version(), call(driver.cuDeviceGetUuid(index), "read the device's uuid").bytes.hex()
    return DeviceFacts(
        backend=CUDA.name,
        index=index,
        name=name,
        uuid=uuid,
        memory_bytes=int(call(driver.cuDeviceTotalMem(index), "read the device's memory")),
        identity={
            "name": name,
            "compute_capability": capability,
            "multiprocessors": str(multiprocessors),
            "driver": version,
            "nvrtc": nvrtc,
        },
        details={
            "compute_capability": capability,
            "multiprocessors": multiprocessors,
            "l2_bytes": read_attribute(index, "L2_CACHE_SIZE"),
            "shared_bytes_per_block_optin": read_attribute(index, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            "max_sm_clock_mhz": read_attribute(index, "CLOCK_RATE") / 1000,
            "max_memory_clock_mhz": read_attribute(index, "MEMORY_CLOCK_RATE") / 1000,
            **read_limits(index, uuid),
            "driver": version,
            "cuda_driver_api": api,
            "nvrtc": nvrtc,
            "cupy": get_version("cupy"),
            "cuda_bindings": get_version("cuda.bindings"),
            "host": platform.node(),
        },
    )


def read_limits(index: int, uuid: str) -> dict[str, float | None]:
    """Return a data sheet's figures: memory width and bandwidth, resources of a multiprocessor, the power limit."""
    clock_khz, bus_bits = read_attribute(index, "MEMORY_CLOCK_RATE"), read_attribute(index, "GLOBAL_MEMORY_BUS_WIDTH")
    threads, monitor = read_attribute(index, "MAX_THREADS_PER_MULTIPROCESSOR"), StateMonitor.find(uuid)
    return {
        "memory_bus_bits": bus_bits,
        "theoretical_bandwidth_gbs": 2 * clock_khz * bus_bits / 8 / 1e6,  # two transfers a clock
        "warps_per_multiprocessor": threads // read_attribute(index, "WARP_SIZE"),
        **{name: read_attribute(index, attribute) for name, attribute in LIMITS.items()},
        "power_limit_w": monitor.power_limit_w() if monitor else None,
    }
