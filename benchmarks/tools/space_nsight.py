"""The 48 configurations under nsight-python, which runs this file again under ncu; clocks are left alone."""

from __future__ import annotations

import argparse
import inspect
import sys
from functools import cache
from typing import Any

from benchmarks.space import CONFIGURATIONS
from benchmarks.tools.answer import answer


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how many rows nsight-python made of the launches."""
    import nsight

    @cache
    def prepare() -> tuple[list[Any], Any]:
        from benchmarks.tools.device import Device
        from benchmarks.tools.space_bench import make_launches

        device = Device()
        return make_launches(device), device

    def trial(index: int) -> None:
        launches, device = prepare()
        with nsight.annotate("axpy"):
            device.run_once([launches[index]])

    known = inspect.signature(nsight.analyze.kernel).parameters
    settings: dict[str, Any] = {"output": "quiet"} if "output" in known else {}
    profiled = nsight.analyze.kernel(
        configs=[(index,) for index in range(len(CONFIGURATIONS))],
        runs=1,
        metrics=arguments.metrics.split(","),
        cache_control="all",
        clock_control="none",
        thermal_mode="off",
        output_prefix=str(arguments.answer.parent) + "/",
        **settings,
    )(trial)
    frame = profiled().to_dataframe()
    return {"launches": int(frame["index"].nunique()), "version": nsight.__version__}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--metrics", required=True)
    sys.exit(answer(work, parser))
