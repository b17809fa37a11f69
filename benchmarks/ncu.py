"""Command lines of Nsight Compute, clocks left alone, and what its report files say."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import chain
from pathlib import Path


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


def median_durations(report: Path) -> dict[str, float]:
    """Return the median of gpu__time_duration.sum in nanoseconds, by kernel."""
    from cuprof.ncu.report_file import read_report

    found: dict[str, list[float]] = {}
    for launch in chain.from_iterable(read_report(report, ["gpu__time_duration.sum"]).values()):
        if launch.duration_ns is not None:
            found.setdefault(launch.kernel, []).append(launch.duration_ns)
    return {kernel: statistics.median(durations) for kernel, durations in found.items()}


def count_launches(report: Path) -> int:
    """Return how many launches a report holds."""
    from cuprof.ncu.report_file import read_report

    return sum(map(len, read_report(report, []).values()))
