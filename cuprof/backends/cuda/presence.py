"""Which NVIDIA driver and GPUs are here, asked without creating a context on any device."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass

from cuprof.backends.cuda.driver import call, load_driver, read_attribute
from cuprof.backends.device_state import StateMonitor, ask, find_nvml
from cuprof.backends.registry import CUDA
from cuprof.backends.spec import ListedDevice
from cuprof.builds.nvrtc import nvrtc_version
from cuprof.core.errors import CuprofError, MissingDependencyError
from cuprof.core.records import DeviceFacts
from cuprof.families.toolchain import get_version, is_installed


@dataclass(frozen=True)
class Driver:
    """Describe the NVIDIA driver; `cuda` is the newest CUDA version (major, minor) that it supports."""

    version: str
    cuda: tuple[int, int]
    gpus: tuple[ListedDevice, ...] = ()

    @property
    def extra(self) -> str:
        """Return cuprof's extra whose CuPy fits this driver, or empty when the driver is older than CUDA 12."""
        return "cuda13" if self.cuda[0] >= 13 else "cuda12" if self.cuda[0] == 12 else ""


def find_driver() -> Driver | None:
    """Return the NVIDIA driver and its GPUs, or None when there is none."""
    nvml = find_nvml()
    if nvml is None:
        return None
    try:
        number, version = int(nvml.nvmlSystemGetCudaDriverVersion_v2()), str(nvml.nvmlSystemGetDriverVersion())
        gpus = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            capability = "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle))
            memory = f"{nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30:.1f} GiB"
            details = f"compute capability {capability}, {memory}, driver {version}"
            gpus.append(ListedDevice(index, str(nvml.nvmlDeviceGetName(handle)), details))
        return Driver(version, (number // 1000, number % 1000 // 10), tuple(gpus))
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def list_devices() -> tuple[ListedDevice, ...]:
    """Return the GPUs that the driver's management library lists; none without a driver."""
    driver = find_driver()
    return driver.gpus if driver else ()


def count_devices() -> int:
    """Return how many GPUs this process may open, as limited by CUDA_VISIBLE_DEVICES.

    Raises:
        CuprofError: there is no driver, or no GPU.
    """
    driver, count = _load_library(), ctypes.c_int(0)
    status = driver.cuInit(0)
    if status == 0:
        driver.cuDeviceGetCount(ctypes.byref(count))
    if count.value == 0:
        raise CuprofError(f"the NVIDIA driver reports no usable GPU (cuInit returned {status})")
    return count.value


def require_device(index: int) -> None:
    """Raise for the first missing part in the order of a repair: driver, device, Python packages.

    Raises:
        CuprofError: there is no driver, or no such device.
        MissingDependencyError: a Python package is not installed.
    """
    count, version = count_devices(), ctypes.c_int(0)
    if index >= count:
        raise CuprofError(f"device.cuda={index}: there are {count} CUDA devices, numbered from 0")
    _load_library().cuDriverGetVersion(ctypes.byref(version))
    for module, what in (("cupy", "CuPy"), ("cuda.bindings", "cuda-bindings")):
        if not is_installed(module):
            raise MissingDependencyError(what, f"pip install 'cuprof[cuda{13 if version.value >= 13000 else 12}]'")


def _load_library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise CuprofError("no NVIDIA driver on this machine: libcuda.so.1 is not found") from None


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
    """Return a data sheet's figures: memory width and bandwidth, warps of a multiprocessor, the power limit."""
    clock_khz, bus_bits = read_attribute(index, "MEMORY_CLOCK_RATE"), read_attribute(index, "GLOBAL_MEMORY_BUS_WIDTH")
    threads, monitor = read_attribute(index, "MAX_THREADS_PER_MULTIPROCESSOR"), StateMonitor.find(uuid)
    return {
        "memory_bus_bits": bus_bits,
        "theoretical_bandwidth_gbs": 2 * clock_khz * bus_bits / 8 / 1e6,  # two transfers a clock
        "warps_per_multiprocessor": threads // read_attribute(index, "WARP_SIZE"),
        "power_limit_w": monitor.power_limit_w() if monitor else None,
    }
