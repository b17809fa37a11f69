"""The 48 configurations by Kernel Tuner: brute force, 7 executions each, nothing cached."""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import numpy as np

from benchmarks.space import BLOCKS, CONFIGURATIONS, PER_THREAD, SOURCE, A, Configuration, N
from benchmarks.tools.answer import answer

BACKENDS = ("CUPY", "NVCUDA")


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return medians in nanoseconds in the order of the configurations, and the time spent measuring."""
    from kernel_tuner import tune_kernel

    rng = np.random.default_rng()
    x, y = rng.random(N, np.float32), rng.random(N, np.float32)
    results, _ = tune_kernel(
        "axpy",
        SOURCE.read_text(),
        problem_size=N,
        arguments=[x, y, np.empty_like(x), np.float32(A), np.uint32(N)],
        tune_params={"BLOCK": list(BLOCKS), "ITEMS": list(PER_THREAD)},
        grid_div_x=["BLOCK", "ITEMS"],
        block_size_names=["BLOCK"],
        lang=arguments.backend,
        iterations=7,
        quiet=True,
    )
    by_configuration = {
        Configuration(int(result["BLOCK"]), int(result["ITEMS"])): result for result in results if "times" in result
    }
    indices = [index for index, one in enumerate(CONFIGURATIONS) if one in by_configuration]
    times = [by_configuration[CONFIGURATIONS[index]]["times"] for index in indices]
    return {
        "indices": indices,
        "median_ns": [statistics.median(found) * 1e6 for found in times],
        "spread": [spread(found) for found in times],
        "samples": [len(found) for found in times],
        "measuring_s": sum(result["benchmark_time"] for result in by_configuration.values()) * 1e-3,
        "backend": arguments.backend,
    }


def spread(times: list[float]) -> float:
    """Return the distance between the quartiles over the median."""
    low, median, high = np.quantile(times, [0.25, 0.5, 0.75])
    return float((high - low) / median)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0])
    sys.exit(answer(work, parser))
