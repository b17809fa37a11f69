"""The ten kernels by nvbench (cuda-bench), cold measurements only."""

from __future__ import annotations

import argparse
import sys
from functools import cache
from typing import Any

from benchmarks.ten_kernels import BUFFERS, LAUNCHES, NAMES, SOURCE
from benchmarks.tools.answer import answer
from benchmarks.tools.nvbench_report import read_states

CAP_S = 1.0


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return nvbench's cold GPU time in nanoseconds, by kernel."""
    import cuda.bench as bench

    from benchmarks.tools.device import Device
    from cuprof.backends.cuda.driver import PackedLaunch

    @cache
    def prepare() -> tuple[list[PackedLaunch], Device]:
        # Inside nvbench's run, so that it makes no difference whether nvbench resets the device when it starts.
        device = Device()
        module, buffers = device.load(SOURCE), device.allocate(BUFFERS)
        packed = [device.bind(module, launch, buffers) for launch in LAUNCHES]
        device.run_once(packed)
        return packed, device

    def ten_kernels(state: Any) -> None:
        launch = prepare()[0][state.get_int64("kernel")]
        state.exec(lambda execution: launch(execution.get_stream().addressof()), batched=False)

    bench.register(ten_kernels).add_int64_axis("kernel", list(range(len(LAUNCHES)))).set_timeout(CAP_S)
    file = arguments.answer.with_suffix(".nvbench.json")
    bench.run_all_benchmarks(["ten_kernels", "--devices", "0", "--json", str(file)])
    states = read_states(file)
    return {"median_ns": {NAMES[int(state.axes["kernel"])]: state.time_ns for state in states}}


if __name__ == "__main__":
    sys.exit(answer(work))
