"""One worker and the devices that it drives, as the engine deals with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuprof.backends.registry import is_host
from cuprof.engine.plausibility import Plausibility
from cuprof.engine.runner import JobRunner
from cuprof.records import DeviceFacts, Unavailable


@dataclass(eq=False)
class Station:
    """Where jobs are run; a sweep has one for each GPU that takes part.

    Args:
        runner: replaces the worker whenever it is lost.
        devices: back end → the device that the worker opens, or why there is none; filled when the sweep is planned.
        plausibility: back end → what holds its times, where the device has been calibrated.
        calibrated: back ends whose device is measured, or will not be.
    """

    runner: JobRunner
    devices: Mapping[str, DeviceFacts | Unavailable] = field(default_factory=dict)
    plausibility: dict[str, Plausibility] = field(default_factory=dict)
    calibrated: set[str] = field(default_factory=set)

    def find_device(self, backend: str) -> DeviceFacts | None:
        """Return the device of a back end, None where there is none."""
        device = self.devices.get(backend)
        return device if isinstance(device, DeviceFacts) else None

    def is_host(self, backend: str) -> bool:
        """Return whether the back end's device here is the host's own processor."""
        device = self.find_device(backend)
        return device is not None and is_host(backend, device.details)
