"""The ten kernels' durations by CUPTI's activity records, with the caches flushed as cuprof does."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable
from typing import Any

from benchmarks.ten_kernels import BUFFERS, LAUNCHES, NAMES, SOURCE
from benchmarks.tools.answer import answer

EXECUTIONS = 60
WARM_UP = 10
BUFFER_BYTES = 8 << 20


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the median of CUPTI's durations in nanoseconds, by kernel."""
    from cupti import cupti

    from benchmarks.tools.device import Device, on_stream
    from cuprof.backends.cuda.timing import Work

    device = Device()
    module, buffers = device.load(SOURCE), device.allocate(BUFFERS)
    timer = device.backend.device.timer
    durations: dict[str, list[int]] = {name: [] for name in NAMES}

    def take(activities: Iterable[Any]) -> None:
        for activity in activities:
            if activity.name in durations:
                durations[activity.name].append(int(activity.end) - int(activity.start))

    packed = [device.bind(module, launch, buffers) for launch in LAUNCHES]
    device.run_once(packed)
    cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), take)
    cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)
    try:
        for launch in packed:
            for _ in range(EXECUTIONS):
                timer.cold(Work(on_stream(launch, device.stream)))()
        device.backend.device.stream.synchronize()
        cupti.activity_flush_all(1)
    finally:
        cupti.activity_disable(cupti.ActivityKind.CONCURRENT_KERNEL)
    lost = [name for name, found in durations.items() if len(found) != EXECUTIONS]
    if lost:
        raise RuntimeError(f"CUPTI recorded other than {EXECUTIONS} executions of {', '.join(lost)}")
    return {"median_ns": {name: statistics.median(found[WARM_UP:]) for name, found in durations.items()}}


if __name__ == "__main__":
    sys.exit(answer(work))
