"""What this machine has, asked without creating a context on any device."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OPENCL_VENDORS = Path("/etc/OpenCL/vendors")


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


@dataclass(frozen=True)
class Platform:
    """Describe one OpenCL platform and the names of its devices."""

    name: str
    version: str
    devices: tuple[str, ...] = field(default=())


def find_driver() -> Driver | None:
    """Return the NVIDIA driver and its GPUs, or None when there is none."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        number = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        gpus = tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
        return Driver(str(pynvml.nvmlSystemGetDriverVersion()), (number // 1000, number % 1000 // 10), gpus)
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def list_platforms() -> tuple[Platform, ...]:
    """Return the OpenCL platforms; none when PyOpenCL or a driver is missing."""
    try:
        import pyopencl
    except ImportError:
        return ()
    try:
        return tuple(
            Platform(
                found.name.strip(), found.version.strip(), tuple(each.name.strip() for each in found.get_devices())
            )
            for found in pyopencl.get_platforms()
        )
    except pyopencl.Error:
        return ()


def has_nvidia_icd(vendors: Path = OPENCL_VENDORS) -> bool:
    """Return whether the OpenCL loader is told of NVIDIA's library."""
    return any("nvidia" in file.read_text(errors="replace").lower() for file in vendors.glob("*.icd"))


def cpu_name() -> str:
    """Return the processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpu_count() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        index, str(nvml.nvmlDeviceGetName(handle)), int(nvml.nvmlDeviceGetMemoryInfo(handle).total), f"{major}.{minor}"
    )
