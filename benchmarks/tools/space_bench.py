"""The 48 configurations on the device, as the tools that bring no compiler of their own use them."""

from __future__ import annotations

from typing import Any

from benchmarks.space import BUFFERS, CONFIGURATIONS, SOURCE
from benchmarks.tools.device import Device
from cuprof.backends.cuda.driver import PackedLaunch


def make_launches(device: Device, buffers: dict[str, Any] | None = None) -> list[PackedLaunch]:
    """Return a launch for each configuration, each compiled on its own as cuprof does."""
    buffers = buffers or device.allocate(BUFFERS)
    return [
        device.bind(device.load(SOURCE, configuration.defines), configuration.launch, buffers)
        for configuration in CONFIGURATIONS
    ]
