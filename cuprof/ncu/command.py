"""The exact command line that Nsight Compute is driven with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuprof.ncu.ranges import RANGE_PREFIX
from cuprof.profiling.contract import Request
from cuprof.records import Conditions

RANGE_FILTER = f"regex:{RANGE_PREFIX}.+/"
"""Lets through every launch inside one of our push/pop ranges, at any depth: "/" marks a push/pop range by name, and a
name without "@" belongs to the default domain (Nsight Compute CLI, "NVTX Filtering")."""


@dataclass(frozen=True)
class Collection:
    """Say what is collected from each launch, and under which conditions.

    Args:
        metrics: metric names as ncu takes them, without duplicates.
        section_set: one of ncu's own sets ("basic", "detailed", "full"), or empty.
        sections: ncu section identifiers.
        cache_control: "all" empties the caches before every pass (cold counters); "none" leaves them (hot). Emptying
            them once before the launch would be right for the first pass only, and most metric sets take several.
        clock_control: "none" leaves the clocks as they are when the trials are timed; "base" locks them.
        replay: ncu's replay mode.
    """

    metrics: tuple[str, ...] = ()
    section_set: str = ""
    sections: tuple[str, ...] = ()
    cache_control: str = "all"
    clock_control: str = "none"
    replay: str = "kernel"

    @property
    def conditions(self) -> Conditions:
        """Return the conditions that the counters are stored under."""
        cache_mode = "cold" if self.cache_control == "all" else "hot"
        return Conditions(cache_mode, self.clock_control, self.replay)

    @property
    def is_whole(self) -> bool:
        """Return whether sets or sections are collected, whatever metrics they have."""
        return bool(self.section_set or self.sections)

    @property
    def request(self) -> Request:
        """Return this as what is asked for: metric names, "section:NAME", "set:NAME"."""
        sections = [f"section:{name}" for name in self.sections]
        names = (*self.metrics, *sections, *([f"set:{self.section_set}"] if self.section_set else []))
        return Request(names, self.conditions, self.is_whole)


def build_command(
    executable: Path, collection: Collection, report: Path, target: Sequence[str], *, children: bool = False
) -> list[str]:
    """Return the argument list for one ncu process over many trials.

    Args:
        executable: ncu.
        collection: what to collect.
        report: the .ncu-rep file to write; one that exists is replaced.
        target: the program to profile with its arguments.
        children: profile the processes that it starts too.
    """
    processes = "all" if children else "application-only"
    command = [str(executable), "--target-processes", processes, "--replay-mode", collection.replay]
    command += ["--cache-control", collection.cache_control, "--clock-control", collection.clock_control]
    command += ["--nvtx", "--nvtx-include", RANGE_FILTER]
    if collection.section_set:
        command += ["--set", collection.section_set]
    for section in collection.sections:
        command += ["--section", section]
    if collection.metrics:
        command += ["--metrics", ",".join(collection.metrics)]
    command += ["--force-overwrite", "--export", str(report)]
    return [*command, *target]


def query_command(executable: Path) -> list[str]:
    """Return the argument list that lists every base metric of the devices here."""
    return [str(executable), "--query-metrics"]
