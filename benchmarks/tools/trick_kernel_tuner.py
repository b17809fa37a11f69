"""One variant of the family `tricks` in CUDA C++ by Kernel Tuner, with the right answer given to it."""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import numpy as np

from benchmarks.tools.answer import answer
from benchmarks.tools.trick_arrays import Case, make_parser
from benchmarks.trick_records import FAMILY
from cuprof.families.program import as_scalar

BACKENDS = ("CUPY", "NVCUDA")
TOLERANCE = 1e-5
"""Absolute, as Kernel Tuner's is; results lie below 3.25 and are good to 3e-6."""


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return whether the result was right, and the median in nanoseconds where it was."""
    from kernel_tuner import tune_kernel

    case = Case.of(arguments)
    (launch,) = case.program.launches
    arrays: dict[str, Any] = {**case.inputs, "z": np.zeros(arguments.n, np.float32)}
    for name, each in case.program.scratch.items():
        arrays[name] = np.zeros(each.shape, each.dtype)
    given = [arrays[value] if isinstance(value, str) else as_scalar(value) for value in launch.args]
    result = case.program.results.get("z", "z")
    expected = [case.expected["z"].astype(np.float32) if value == result else None for value in launch.args]
    try:
        results, _ = tune_kernel(
            launch.kernel,
            (FAMILY / str(case.variant.source)).read_text(),
            problem_size=launch.grid[0] * launch.block[0],
            arguments=given,
            tune_params={"BLOCK": [launch.block[0]]},
            block_size_names=["BLOCK"],
            lang=arguments.backend,
            answer=expected,
            atol=TOLERANCE,
            quiet=True,
        )
    except RuntimeError as error:  # how it says that a result is not the answer
        if "correct" not in str(error) and "verif" not in str(error).lower():
            raise
        return {"right": False}
    times = [time for found in results for time in found.get("times", ())]
    return {"right": True, "median_ns": statistics.median(times) * 1e6} if times else {"right": False}


if __name__ == "__main__":
    parser = make_parser()
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0])
    sys.exit(answer(work, parser))
