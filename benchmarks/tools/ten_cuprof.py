"""The ten kernels through cuprof's timer and sampler."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.ten_kernels import BUFFERS, LAUNCHES, SOURCE
from benchmarks.tools.answer import answer


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return median and interval in nanoseconds, by kernel."""
    from benchmarks.tools.device import Device, sample_cold

    device = Device()
    module, buffers = device.load(SOURCE), device.allocate(BUFFERS)
    timings = sample_cold(device, {launch.kernel: device.bind(module, launch, buffers) for launch in LAUNCHES})
    return {
        "median_ns": {name: timing.summary.median_ns for name, timing in timings.items()},
        "low_ns": {name: timing.summary.low_ns for name, timing in timings.items()},
        "high_ns": {name: timing.summary.high_ns for name, timing in timings.items()},
        "samples": {name: timing.summary.count for name, timing in timings.items()},
        "correction_ns": device.backend.device.timer.correction_ns,
    }


if __name__ == "__main__":
    sys.exit(answer(work))
