"""The 48 configurations by nvbench (cuda-bench) at its defaults, each measurement capped."""

from __future__ import annotations

import argparse
import sys
from functools import cache
from typing import Any

from benchmarks.space import CONFIGURATIONS
from benchmarks.tools.answer import answer
from benchmarks.tools.nvbench_report import read_states


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the cold GPU times in nanoseconds in the order of the configurations, and the time spent measuring."""
    import cuda.bench as bench

    from benchmarks.tools.device import Device
    from benchmarks.tools.space_bench import make_launches
    from cuprof.backends.cuda.driver import PackedLaunch

    @cache
    def prepare() -> tuple[list[PackedLaunch], Device]:
        # Inside nvbench's run, so that it makes no difference whether nvbench resets the device when it starts.
        device = Device()
        launches = make_launches(device)
        device.run_once(launches)
        return launches, device

    def axpy(state: Any) -> None:
        launch = prepare()[0][state.get_int64("configuration")]
        state.exec(lambda execution: launch(execution.get_stream().addressof()))

    registered = bench.register(axpy).add_int64_axis("configuration", list(range(len(CONFIGURATIONS))))
    registered.set_timeout(arguments.cap_s)
    file = arguments.answer.with_suffix(".nvbench.json")
    bench.run_all_benchmarks(["axpy", "--devices", "0", "--json", str(file)])
    states = {int(state.axes["configuration"]): state for state in read_states(file)}
    ordered = [states[index] for index in range(len(CONFIGURATIONS)) if index in states]
    return {
        "indices": sorted(states),
        "median_ns": [state.time_ns for state in ordered],
        "spread": [state.iqr for state in ordered],
        "samples": [state.samples for state in ordered],
        "measuring_s": sum(state.measuring_s for state in ordered),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cap-s", type=float, default=2.0)
    sys.exit(answer(work, parser))
