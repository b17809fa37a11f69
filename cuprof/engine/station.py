"""One worker and the devices that it drives, as the engine deals with them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from cuprof.backends.registry import get_spec, is_host
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.engine.plausibility import Plausibility
from cuprof.engine.runner import JobRunner


@dataclass(eq=False)
class Station:
    """A place to run jobs; a sweep has one for each GPU that takes part.

    Args:
        runner: replaces the worker whenever it is lost.
        devices: back end → the device that the worker opens, or why there is none; filled when the sweep is planned.
        plausibility: back end → the check of its times, once the device is calibrated or known not to be.
        is_lost: its device has failed.
        number: its key in the store, for claiming trials; None if no other process may run them.
        doing: its current work, as text for the user.
    """

    runner: JobRunner
    devices: Mapping[str, DeviceFacts | Unavailable] = field(default_factory=dict)
    plausibility: dict[str, Plausibility] = field(default_factory=dict)
    is_lost: bool = False
    number: int | None = None
    doing: str = ""
    _series: tuple[Point | None, str, str] = (None, "", "")

    def find_series(self, problem: Point, backend: str) -> str:
        """Return a key shared by consecutive jobs of a problem here, and by no others."""
        if self._series[:2] != (problem, backend):
            self._series = (problem, backend, secrets.token_hex(8))
        return self._series[2]

    def find_device(self, backend: str) -> DeviceFacts | None:
        """Return the device of a back end, None where there is none."""
        device = self.devices.get(backend)
        return device if isinstance(device, DeviceFacts) else None

    def can_do(self, backend: str) -> bool:
        """Return whether jobs of a back end can be run here, as far as that is known."""
        return not isinstance(self.devices.get(backend), Unavailable)

    @property
    def name(self) -> str:
        """Return its display name: its devices other than the host, else the host."""
        ordinals = [f"{device.backend}:{device.index} ({device.name})" for device in self.accelerators]
        return " and ".join(ordinals) or "host"

    @property
    def accelerators(self) -> list[DeviceFacts]:
        """Return the devices that are not the host's own processor."""
        found = [device for device in self.devices.values() if isinstance(device, DeviceFacts)]
        return [device for device in found if not is_host(device)]

    @property
    def slow_to_open(self) -> tuple[str, ...]:
        """Return the back ends that were used here and whose devices another worker had better open ahead."""
        return tuple(sorted(backend for backend in self.plausibility if get_spec(backend).imports))

    def is_host(self, backend: str) -> bool:
        """Return whether the back end's device here is the host's own processor."""
        return is_host(self.find_device(backend))
