"""The exact command line that Nsight Compute is driven with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cuprof.config.model import NcuConfig
from cuprof.ncu.ranges import RANGE_PREFIX

RANGE_FILTER = f"regex:{RANGE_PREFIX}.+/"
"""Lets through every launch inside one of our push/pop ranges, at any depth: "/" marks a push/pop range by name, and a
name without "@" belongs to the default domain (Nsight Compute CLI, "NVTX Filtering")."""


def build_command(
    executable: Path, collection: NcuConfig, report: Path, target: Sequence[str], *, children: bool = False
) -> list[str]:
    """Return the argument list for one ncu process over many trials.

    Args:
        executable: ncu.
        collection: what to collect, settled (`cuprof.ncu.setting.settle`).
        report: the .ncu-rep file to write; one that exists is replaced.
        target: the program to profile with its arguments.
        children: profile the processes that it starts too.
    """
    processes = "all" if children else "application-only"
    command = [str(executable), "--target-processes", processes, "--replay-mode", collection.replay]
    command += ["--cache-control", collection.cache_control, "--clock-control", collection.clock_control]
    command += ["--nvtx", "--nvtx-include", RANGE_FILTER]
    if collection.set:
        command += ["--set", collection.set]
    for section in collection.sections:
        command += ["--section", section]
    if collection.metrics:
        command += ["--metrics", ",".join(collection.metrics)]
    command += ["--force-overwrite", "--export", str(report)]
    return [*command, *target]
