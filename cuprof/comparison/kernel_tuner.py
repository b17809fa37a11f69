"""Trials of a cache file of Kernel Tuner, or of its results in format T4: times of another tool, never our own.

The cache is an object with the kernel's name and device and a row a configuration; T4 is the autotuning community's
schema (https://github.com/odgaard/TuningSchema), which names neither kernel nor device.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.comparison.foreign import Foreign, Record
from cuprof.core.errors import UsageError
from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.statistics.samples import Samples

KIND = "kernel_tuner"
MARKS = ('"tune_params_keys"', '"invalidity"')
"""By which a cache and T4 are told from other JSON."""
LOOKED_AT = 100_000
"""Characters of a file in which that is looked for; a row has some hundred."""
STATES = {
    "InvalidConfig": State.SKIPPED, "CompilationFailedConfig": State.COMPILE_ERROR,
    "RuntimeFailedConfig": State.LAUNCH_ERROR, "constraints": State.SKIPPED, "compile": State.COMPILE_ERROR,
    "runtime": State.LAUNCH_ERROR, "correctness": State.WRONG_RESULT, "timeout": State.TIMED_OUT,
}  # fmt: skip
"""What stands in a cache's objective or T4's invalidity where there is no time."""
UNITS = {"s": 1e9, "seconds": 1e9, "ms": 1e6, "milliseconds": 1e6, "us": 1e3, "microseconds": 1e3, "ns": 1.0}


def is_kernel_tuner(path: Path) -> bool:
    """Return whether a file is a cache or T4."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        head = stream.read(LOOKED_AT)
    return any(mark in head for mark in MARKS)


def read_kernel_tuner(path: Path) -> Foreign:
    """Return the configurations of a file; each meets the trial of a variant named like the kernel.

    Raises:
        UsageError: the file cannot be read or is neither.
    """
    try:
        content = _parse(path.read_text(encoding="utf-8"))
        records = list(_of_cache(content) if "cache" in content else _of_t4(content, path.name.partition(".")[0]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        kind = type(error).__name__
        raise UsageError(f"{path} is neither a cache of Kernel Tuner's nor T4 ({kind}: {error})") from None
    note = "Kernel Tuner's times are of its own method: its samples follow one another, and nothing flushes the caches"
    return Foreign(KIND, f"Kernel Tuner's {path.name}", records, (note,))


def _parse(text: str) -> Any:
    """Return what a file holds; Kernel Tuner leaves the end off a cache that it may go on with."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(text.rstrip().rstrip(",") + "}}")


def _of_cache(content: Mapping[str, Any]) -> Iterator[Record]:
    names, device = content["tune_params_keys"], str(content.get("device_name", ""))
    objective = content.get("objective", "time")
    objective = objective if isinstance(objective, str) else objective[0]
    for row in content["cache"].values():
        tunables = Point({str(name): row[name] for name in names})
        time, samples = row.get(objective), row.get("times") or ()
        failed = STATES.get(str(time), State.LAUNCH_ERROR) if not isinstance(time, int | float) else None
        milliseconds = list(samples) or ([row["time"]] if isinstance(row.get("time"), int | float) else [])
        yield _record(
            str(content["kernel_name"]), tunables, device, failed, np.array(milliseconds, float) * UNITS["ms"]
        )


def _of_t4(content: Mapping[str, Any], kernel: str) -> Iterator[Record]:
    for row in content["results"]:
        reason, factor = str(row["invalidity"]), UNITS["ms"]
        times = list(row["times"].get("runtimes") or ())
        for each in row.get("measurements") or ():
            if each["name"] == "time" and isinstance(each["value"], int | float):
                factor = UNITS.get(str(each.get("unit", "ms")), UNITS["ms"])
                times = times or [each["value"]]
        failed = None if reason == "correct" and times else STATES.get(reason, State.LAUNCH_ERROR)
        yield _record(kernel, Point(row["configuration"]), "", failed, np.array(times, float) * factor)


def _record(kernel: str, tunables: Point, device: str, failed: State | None, times_ns: np.ndarray) -> Record:
    times_ns = times_ns[np.isfinite(times_ns) & (times_ns > 0)]
    if failed is None and not times_ns.size:
        failed = State.LAUNCH_ERROR
    # A mean alone does not say how much it scatters, so nothing is decided by it.
    error = 0.0 if times_ns.size > 1 else float("inf")
    return {
        "family": kernel,
        "tunables": tunables,
        "backend": "cuda",
        "device": device,
        "device_key": device,
        "state": (failed or State.OK).value,
        "message": "" if failed is None else "as Kernel Tuner says",
        "tool": "Kernel Tuner",
        "series": {} if failed else {Measure.HOT: Samples.of([times_ns], standard_error=error)},
    }
