"""Trials of a cache file of Kernel Tuner, or of its results in format T4.

The cache is an object with the kernel's name and device and a row a configuration; T4 is the autotuning community's
schema (https://github.com/odgaard/TuningSchema), which names neither kernel nor device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cuprof.core.records import Measure, State
from cuprof.interop.results import Imported, ImportedTrial, as_durations, as_point, read_json

MARKS = ('"tune_params_keys"', '"invalidity"')
"""Keys that distinguish a cache and T4 from other JSON."""
STATES = {
    "InvalidConfig": State.SKIPPED, "CompilationFailedConfig": State.COMPILE_ERROR,
    "RuntimeFailedConfig": State.LAUNCH_ERROR, "constraints": State.SKIPPED, "compile": State.COMPILE_ERROR,
    "runtime": State.LAUNCH_ERROR, "correctness": State.WRONG_RESULT, "timeout": State.TIMED_OUT,
}  # fmt: skip
"""Values in a cache's objective, or T4's invalidity, that replace the time."""
UNITS = {"s": 1e9, "seconds": 1e9, "ms": 1e6, "milliseconds": 1e6, "us": 1e3, "microseconds": 1e3, "ns": 1.0}


def recognizes(head: str) -> bool:
    """Return whether a file is a cache or T4."""
    return any(mark in head for mark in MARKS)


def read(path: Path) -> Imported:
    """Return the configurations of a file; each meets the trial of a variant named like the kernel."""
    content = read_json(path, end="}}")  # Kernel Tuner leaves the end off a cache that it may go on with
    trials = list(_read_cache(content) if "cache" in content else _read_t4(content, path.name.partition(".")[0]))
    note = "Kernel Tuner's times are of its own method: its samples follow one another, and nothing flushes the caches"
    return Imported("kernel_tuner", "Kernel Tuner", trials, (note,))


def _read_cache(content: Mapping[str, Any]) -> Iterator[ImportedTrial]:
    kernel, device = str(content["kernel_name"]), str(content.get("device_name", ""))
    objective = content.get("objective", "time")
    objective = objective if isinstance(objective, str) else [*objective, "time"][0]
    for row in content["cache"].values():
        tunables = {str(name): row[name] for name in content["tune_params_keys"]}
        time, mean = row.get(objective), row.get("time")
        times = list(row.get("times") or ()) or ([mean] if isinstance(mean, int | float) else [])
        yield _make_trial(kernel, tunables, device, "" if isinstance(time, int | float) else str(time), times)


def _read_t4(content: Mapping[str, Any], kernel: str) -> Iterator[ImportedTrial]:
    for row in content["results"]:
        unit, times = "ms", list(row["times"].get("runtimes") or ())
        for each in row.get("measurements") or ():
            if each["name"] == "time" and isinstance(each["value"], int | float):
                unit, times = str(each.get("unit", "ms")), times or [each["value"]]
        reason = "" if row["invalidity"] == "correct" else str(row["invalidity"])
        yield _make_trial(kernel, row["configuration"], "", reason, times, unit)


def _make_trial(
    kernel: str, tunables: Mapping[str, Any], device: str, reason: str, times: Any, unit: str = "ms"
) -> ImportedTrial:
    """Return a trial; without a time it has failed, as `STATES` says of the reason."""
    durations = as_durations([] if reason else times, UNITS.get(unit, UNITS["ms"]))
    return ImportedTrial(
        family=kernel,
        tunables=as_point(tunables),
        device=device,
        measure=Measure.HOT,
        durations_ns=durations,
        # The scatter behind a lone mean is unknown, so it decides nothing.
        relative_error=0.0 if durations.size > 1 else float("inf"),
        state=State.OK if durations.size else STATES.get(reason, State.LAUNCH_ERROR),
        message="" if durations.size else "as Kernel Tuner says",
    )
