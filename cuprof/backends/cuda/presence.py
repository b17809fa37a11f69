"""Which NVIDIA driver and GPUs are here, asked without creating a context on any device."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from cuprof.backends.device_state import find_nvml
from cuprof.backends.spec import ListedDevice
from cuprof.core.errors import CuprofError, MissingDependencyError


@dataclass(frozen=True)
class Gpu:
    """Describe one NVIDIA GPU as its driver's management library does."""

    index: int
    name: str
    memory_bytes: int
    compute_capability: str


@dataclass(frozen=True)
class Driver:
    """Describe the NVIDIA driver; `cuda` is the newest CUDA version (major, minor) that it supports."""

    version: str
    cuda: tuple[int, int]
    gpus: tuple[Gpu, ...] = ()

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
        number, gpus = int(nvml.nvmlSystemGetCudaDriverVersion_v2()), []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            capability = "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle))
            size = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
            gpus.append(Gpu(index, str(nvml.nvmlDeviceGetName(handle)), size, capability))
        return Driver(str(nvml.nvmlSystemGetDriverVersion()), (number // 1000, number % 1000 // 10), tuple(gpus))
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def list_devices() -> Iterator[ListedDevice]:
    """Yield the GPUs that the driver's management library lists; none without a driver."""
    if driver := find_driver():
        for gpu in driver.gpus:
            memory = f"{gpu.memory_bytes / 2**30:.1f} GiB"
            details = f"compute capability {gpu.compute_capability}, {memory}, driver {driver.version}"
            yield ListedDevice(gpu.index, gpu.name, details)


def count_devices() -> int:
    """Return how many GPUs this process may open, as limited by CUDA_VISIBLE_DEVICES.

    Raises:
        CuprofError: there is no driver, or no GPU.
    """
    driver, count = _load_driver(), ctypes.c_int(0)
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
    _load_driver().cuDriverGetVersion(ctypes.byref(version))
    for module, what in (("cupy", "CuPy"), ("cuda.bindings", "cuda-bindings")):
        try:
            found = find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise MissingDependencyError(what, f"pip install 'cuprof[cuda{13 if version.value >= 13000 else 12}]'")


def _load_driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise CuprofError("no NVIDIA driver on this machine (libcuda.so.1 is not found)") from None
