"""Whether there is a GPU to measure, asked before any work."""

from __future__ import annotations

from cuprof.core.errors import CuprofError
from cuprof.core.records import Unavailable
from cuprof.worker.devices import DeviceTable
from cuprof.worker.messages import WorkerSettings


class NoGpuError(CuprofError):
    """Report that there is no GPU that cuprof can use."""


def require_gpu() -> None:
    """Go on where the first CUDA device can be used; it is asked of the driver, without a context on the device.

    Raises:
        NoGpuError: it cannot, and why.
    """
    found = DeviceTable(WorkerSettings()).describe("cuda")
    if isinstance(found, Unavailable):
        raise NoGpuError(f"no GPU to measure: {found}")
