"""Which OpenCL platforms are here, asked without creating a context on any device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from cuprof.backends.spec import ListedDevice
from cuprof.core.errors import MissingDependencyError, needing

OPENCL_VENDORS = Path("/etc/OpenCL/vendors")


def import_pyopencl() -> Any:
    """Return the module `pyopencl`, or raise `MissingDependencyError`."""
    with needing("PyOpenCL", "pip install 'cuprof[opencl]'"):
        import pyopencl
    return pyopencl


def list_platforms() -> list[tuple[str, list[str]]]:
    """Return the OpenCL platforms, each with its devices' names; none when PyOpenCL or a driver is missing."""
    with suppress(MissingDependencyError):
        return [(each.name.strip(), [one.name.strip() for one in devices]) for each, devices in _find_platforms()]
    return []


def find_devices() -> list[Any]:
    """Return every OpenCL device: GPUs first, then others, CPUs last, each kind in the platforms' order.

    Raises:
        MissingDependencyError: PyOpenCL is not installed.
    """
    kinds = import_pyopencl().device_type
    rank = {kinds.GPU: 0, kinds.CPU: 2}
    found = [device for _, devices in _find_platforms() for device in devices]
    return sorted(found, key=lambda device: rank.get(device.type & ~kinds.DEFAULT, 1))


def list_devices() -> Iterator[ListedDevice]:
    """Yield the devices under the numbers that open them; none where PyOpenCL is missing."""
    with suppress(MissingDependencyError):
        for index, device in enumerate(find_devices()):
            platform = device.platform
            yield ListedDevice(index, device.name.strip(), f"{platform.name.strip()}, {platform.version.strip()}")


def has_nvidia_icd(vendors: Path = OPENCL_VENDORS) -> bool:
    """Return whether NVIDIA's library is registered with the OpenCL loader."""
    return any("nvidia" in file.read_text(errors="replace").lower() for file in vendors.glob("*.icd"))


def _find_platforms() -> list[tuple[Any, list[Any]]]:
    """Return each platform with its devices; the loader, or a driver, that has none reports an error instead."""
    cl, found = import_pyopencl(), []
    with suppress(cl.Error):
        for each in cl.get_platforms():
            devices: list[Any] = []
            with suppress(cl.Error):
                devices = each.get_devices()
            found.append((each, devices))
    return found
