"""Command lines of Nsight Compute, clocks left alone, and what its report files say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from cuprof.statistics.median import locate_median


def ncu_command(report: Path, metrics: Sequence[str], kernels: Sequence[str]) -> list[str]:
    """Return ncu with its options, to be put in front of a program: cold caches before every pass.

    Args:
        kernels: names of the kernels to profile.
    """
    return [
        "ncu",
        *("--cache-control", "all"),
        *("--clock-control", "none"),
        *("--kernel-name", f"regex:^({'|'.join(kernels)})$"),
        *("--metrics", ",".join(metrics)),
        *("--force-overwrite", "--export", str(report)),
    ]


def read_durations(report: Path) -> dict[str, dict[str, float]]:
    """Return the median of gpu__time_duration.sum and the ends of its 95 % interval, in nanoseconds, each by kernel."""
    from cuprof.ncu.report_file import read_report

    durations: dict[str, list[float]] = {}
    for launch in chain.from_iterable(read_report(report, ["gpu__time_duration.sum"]).values()):
        if launch.duration_ns is not None:
            durations.setdefault(launch.kernel, []).append(launch.duration_ns)
    found: dict[str, dict[str, float]] = {"median_ns": {}, "low_ns": {}, "high_ns": {}}
    for kernel, readings in durations.items():
        (_, found["median_ns"][kernel], _), found["low_ns"][kernel], found["high_ns"][kernel] = locate_median(
            np.sort(readings), confidence=0.95
        )
    return found


def count_launches(report: Path) -> int:
    """Return how many launches a report holds."""
    from cuprof.ncu.report_file import read_report

    return sum(map(len, read_report(report, []).values()))
