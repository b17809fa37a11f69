"""Open back ends, or say why one cannot be opened here and what mends it."""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from typing import Any

from cuprof.errors import CuprofError, MissingDependencyError
from cuprof.family.trace import describe
from cuprof.records import DeviceFacts, Unavailable
from cuprof.worker.messages import WorkerSettings


class DeviceTable:
    """The back ends of one process, opened at first use."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self._open: dict[str, Any] = {}

    def get(self, backend: str) -> Any:
        """Return an open back end.

        Raises:
            CuprofError: it cannot be opened here; the message says why.
        """
        if backend not in self._open:
            self._open[backend] = _open(backend, self.settings)
        return self._open[backend]

    def describe(self, backend: str) -> DeviceFacts | Unavailable:
        """Return the device's facts, or why there is none."""
        try:
            if backend == "cuda":  # the driver tells without CuPy and a context, which cost a second
                _require_cuda(self.settings.cuda_index)
                from cuprof.backends.cuda_facts import read_facts

                return read_facts(self.settings.cuda_index)
            facts: DeviceFacts = self.get(backend).facts()
            return facts
        except MissingDependencyError as error:
            return Unavailable(f"{error.what} is not available", error.remedy)
        except CuprofError as error:
            return Unavailable(str(error))
        except Exception as error:  # a broken driver or package of one back end leaves the others usable
            return Unavailable(f"{backend} cannot be opened: {describe(error)}")


def _open(backend: str, settings: WorkerSettings) -> Any:
    if backend == "cuda":
        _require_cuda(settings.cuda_index)
        from cuprof.backends.cuda import CudaBackend

        return CudaBackend(settings.cuda_index)
    if backend == "opencl":
        from cuprof.backends.opencl import OpenClBackend

        return OpenClBackend(settings.opencl_index)
    from cuprof.backends.cpu import CpuBackend

    return CpuBackend(settings.cpu_threads)


def _require_cuda(index: int) -> None:
    """Raise in the order in which a person would mend things: driver, device, Python packages."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise CuprofError("no NVIDIA driver on this machine (libcuda.so.1 is not found)") from None
    status = driver.cuInit(0)
    count = ctypes.c_int(0)
    if status == 0:
        driver.cuDeviceGetCount(ctypes.byref(count))
    if count.value == 0:
        raise CuprofError(f"the NVIDIA driver reports no usable GPU (cuInit returned {status})")
    if index >= count.value:
        raise CuprofError(f"device.cuda={index}: there are {count.value} CUDA devices, numbered from 0")
    version = ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    remedy = f"pip install 'cuprof[cuda{13 if version.value >= 13000 else 12}]'"
    for module, what in (("cupy", "CuPy"), ("cuda.bindings", "cuda-bindings")):
        try:
            found = find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise MissingDependencyError(what, remedy)
