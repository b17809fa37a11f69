"""Cold medians of kernels that last as long as they are told, against that time.

    python -m benchmarks.known_truth --out FOLDER

A spin kernel of one thread reads the device's nanosecond counter until the given time has passed. It is sampled
through cuprof's own timer and sampler, with flush, hold, correction and stopping rule.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.table import make_parser, report, start

SPINS_US = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
RELATIVE_FROM_US = 50
RELATIVE = 0.01
ABSOLUTE_US = 0.5
COLUMNS = (
    "spin µs", "median µs", "error µs", "error %", "allowed µs", "within", "interval ±%", "samples", "stopped by",
)  # fmt: skip


def allowed_us(truth_us: float) -> float:
    """Return how far a median may lie from the truth: 1 % from 50 µs up, 0.5 µs below."""
    return RELATIVE * truth_us if truth_us >= RELATIVE_FROM_US else ABSOLUTE_US


def make_row(truth_us: float, median_us: float, low_us: float, high_us: float) -> dict[str, Any]:
    """Return the table's row for one spin."""
    error = median_us - truth_us
    return {
        "spin µs": truth_us,
        "median µs": median_us,
        "error µs": error,
        "error %": 100 * error / truth_us,
        "allowed µs": allowed_us(truth_us),
        "within": abs(error) <= allowed_us(truth_us),
        "interval ±%": 100 * max(high_us - median_us, median_us - low_us) / median_us,
    }


def measure(target: float) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Return a row for each spin, and what the timer says of its own cost in nanoseconds."""
    from benchmarks.tools.device import Device, sample_cold

    device = Device()
    opened = device.backend.device
    timer = opened.timer
    spins = {str(us): opened.launch("spin", 1, 1, [np.uint64(1000 * us), 0]) for us in SPINS_US}
    timings = sample_cold(device, spins, target)
    rows = []
    for us in SPINS_US:
        timing = timings[str(us)]
        summary = timing.summary
        row = make_row(us, summary.median_ns * 1e-3, summary.low_ns * 1e-3, summary.high_ns * 1e-3)
        rows.append({**row, "samples": summary.count, "stopped by": timing.stopped_by})
    return rows, {**timer.own_costs, "correction_ns": timer.correction_ns}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; return 0 where every spin is within its bound."""
    parser = make_parser("cold medians of spin kernels against their known duration")
    parser.add_argument("--target", type=float, default=0.005, help="half-width of the interval (default: %(default)s)")
    arguments = parser.parse_args(argv)
    rows, costs = measure(arguments.target)
    print("timer, ns: " + ", ".join(f"{name} {value:.0f}" for name, value in costs.items()))
    long = all(row["within"] for row in rows if row["spin µs"] >= RELATIVE_FROM_US)
    short = all(row["within"] for row in rows if row["spin µs"] < RELATIVE_FROM_US)
    criteria: dict[str, bool | None] = {
        f"within {RELATIVE:.0%} of the truth at {RELATIVE_FROM_US} µs and above": long,
        f"within {ABSOLUTE_US} µs of the truth below": short,
    }
    return report("known_truth", COLUMNS, rows, arguments.out, criteria)


if __name__ == "__main__":
    sys.exit(start(main))
