"""What is known of the back end for OpenCL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cuprof.backends.spec import BackendSpec, ListedDevice, SweepNoise
from cuprof.errors import MissingDependencyError
from cuprof.records import Measure

if TYPE_CHECKING:
    from cuprof.backends.opencl.backend import OpenClBackend


def _open(index: int | None) -> OpenClBackend:
    from cuprof.backends.opencl.backend import OpenClBackend

    return OpenClBackend(index or 0)


def _list_devices() -> Iterator[ListedDevice]:
    from cuprof.backends.opencl.presence import list_devices

    try:
        devices = list_devices()
    except MissingDependencyError:
        return
    for index, device in enumerate(devices):
        platform = device.platform
        yield ListedDevice(index, device.name.strip(), f"{platform.name.strip()}, {platform.version.strip()}")


SPEC = BackendSpec(
    name="opencl",
    title="OpenCL",
    timing_version=2,
    measures=(Measure.COLD, Measure.HOT, Measure.TOTAL),
    setting="opencl",
    open=_open,
    list_devices=_list_devices,
    unheeded=frozenset({"graph", "timer"}),
    noise=SweepNoise.EVENTS,
)
