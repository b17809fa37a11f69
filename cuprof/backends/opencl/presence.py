"""Which OpenCL platforms are here, asked without creating a context on any device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuprof.backends.spec import ListedDevice
from cuprof.core.errors import MissingDependencyError

OPENCL_VENDORS = Path("/etc/OpenCL/vendors")


def list_devices() -> Iterator[ListedDevice]:
    """Yield the devices under the numbers that open them; none where PyOpenCL is missing."""
    try:
        devices = find_devices()
    except MissingDependencyError:
        return
    for index, device in enumerate(devices):
        platform = device.platform
        yield ListedDevice(index, device.name.strip(), f"{platform.name.strip()}, {platform.version.strip()}")


@dataclass(frozen=True)
class Platform:
    """Describe one OpenCL platform and the names of its devices."""

    name: str
    version: str
    devices: tuple[str, ...] = field(default=())


def import_pyopencl() -> Any:
    """Return the module `pyopencl`, or raise `MissingDependencyError`."""
    try:
        import pyopencl
    except ImportError:
        raise MissingDependencyError("PyOpenCL", "pip install 'cuprof[opencl]'") from None
    return pyopencl


def find_devices() -> list[Any]:
    """Return every OpenCL device: GPUs first, then others, CPUs last, each kind in the platforms' order.

    Raises:
        MissingDependencyError: PyOpenCL is not installed.
    """
    cl = import_pyopencl()
    try:
        devices = [device for each in cl.get_platforms() for device in _list_platform_devices(cl, each)]
    except cl.Error:  # without any platform the loader reports an error instead of an empty list
        return []
    rank = {cl.device_type.GPU: 0, cl.device_type.CPU: 2}
    return sorted(devices, key=lambda device: rank.get(device.type & ~cl.device_type.DEFAULT, 1))


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
    """Return whether NVIDIA's library is registered with the OpenCL loader."""
    return any("nvidia" in file.read_text(errors="replace").lower() for file in vendors.glob("*.icd"))


def _list_platform_devices(cl: Any, each: Any) -> list[Any]:
    try:
        return list(each.get_devices())
    except cl.Error:  # a driver without a device reports an error instead of an empty list
        return []
