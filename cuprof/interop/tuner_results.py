"""Trials of a cache file of Kernel Tuner, or of its results in format T4.

The cache is an object with the kernel's name and device and a row a configuration; T4 is the autotuning community's
schema (https://github.com/odgaard/TuningSchema), which names neither kernel nor device.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cuprof.core.errors import UsageError
from cuprof.core.records import Measure, State
from cuprof.interop.files import read_bytes
from cuprof.interop.results import FAULTS, MOST_BYTES, Imported, ImportedTrial, as_durations, as_point

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
    """Return the configurations of a file; each meets the trial of a variant named like the kernel.

    Raises:
        UsageError: the file cannot be read or is neither.
    """
    try:
        content = _parse(read_bytes(path, MOST_BYTES).decode("utf-8"))
        trials = list(_of_cache(content) if "cache" in content else _of_t4(content, path.name.partition(".")[0]))
    except FAULTS as error:
        kind = type(error).__name__
        raise UsageError(f"{path} is neither a cache of Kernel Tuner's nor T4 ({kind}: {error})") from None
    note = "Kernel Tuner's times are of its own method: its samples follow one another, and nothing flushes the caches"
    return Imported("kernel_tuner", "Kernel Tuner", trials, (note,))


def _parse(text: str) -> Any:
    """Return what a file holds; Kernel Tuner leaves the end off a cache that it may go on with."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(text.rstrip().rstrip(",") + "}}")


def _of_cache(content: Mapping[str, Any]) -> Iterator[ImportedTrial]:
    names, device = content["tune_params_keys"], str(content.get("device_name", ""))
    objective = content.get("objective", "time")
    objective = objective if isinstance(objective, str) else [*objective, "time"][0]
    for row in content["cache"].values():
        tunables = {str(name): row[name] for name in names}
        time, samples = row.get(objective), row.get("times") or ()
        failed = None if isinstance(time, int | float) else STATES.get(str(time), State.LAUNCH_ERROR)
        milliseconds = list(samples) or ([row["time"]] if isinstance(row.get("time"), int | float) else [])
        yield _trial(str(content["kernel_name"]), tunables, device, failed, milliseconds, UNITS["ms"])


def _of_t4(content: Mapping[str, Any], kernel: str) -> Iterator[ImportedTrial]:
    for row in content["results"]:
        reason, factor = str(row["invalidity"]), UNITS["ms"]
        times = list(row["times"].get("runtimes") or ())
        for each in row.get("measurements") or ():
            if each["name"] == "time" and isinstance(each["value"], int | float):
                factor = UNITS.get(str(each.get("unit", "ms")), UNITS["ms"])
                times = times or [each["value"]]
        failed = None if reason == "correct" and times else STATES.get(reason, State.LAUNCH_ERROR)
        yield _trial(kernel, row["configuration"], "", failed, times, factor)


def _trial(
    kernel: str, tunables: Mapping[str, Any], device: str, failed: State | None, times: Any, factor: float
) -> ImportedTrial:
    durations = as_durations(times, factor) if failed is None else as_durations([], factor)
    if failed is None and not durations.size:
        failed = State.LAUNCH_ERROR
    return ImportedTrial(
        family=kernel,
        tunables=as_point(tunables),
        device=device,
        measure=Measure.HOT,
        durations_ns=durations,
        # The scatter behind a lone mean is unknown, so it decides nothing.
        relative_error=0.0 if durations.size > 1 else float("inf"),
        state=failed or State.OK,
        message="" if failed is None else "as Kernel Tuner says",
    )
