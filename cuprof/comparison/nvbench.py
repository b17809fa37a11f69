"""Trials of a JSON file that nvbench (or its Python package cuda-bench) wrote.

Samples come from the files beside it that `--jsonbin` makes; without them nvbench's own mean and standard deviation
stand in for the samples.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.comparison.foreign import Foreign, Record
from cuprof.core.errors import UsageError
from cuprof.core.point import Coordinate, Point
from cuprof.core.records import Measure, State
from cuprof.statistics.samples import Samples

SAMPLES = "nv/json/bin:nv/cold/sample_times"
MEAN = "nv/cold/time/gpu/mean"
NOISE = "nv/cold/time/gpu/stdev/relative"
DEVIATION = "nv/cold/time/gpu/stdev/absolute"
COUNT = "nv/cold/sample_size"
EXCEPTION = "Unexpected error"
"""How the reason begins with which nvbench skips a state whose benchmark raised (its runner.cxx,
`runner_base::handle_sampling_exception`); a benchmark that skips a state itself gives a reason of its own."""
NS = 1e9
"""nvbench's times are seconds."""


def read_nvbench(path: Path) -> Foreign:
    """Return the states of an nvbench JSON file.

    A state that its benchmark skipped is a skipped trial, one in which it raised is one that crashed.

    Raises:
        UsageError: the file cannot be read or is no such file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))  # editors on Windows put a mark ahead
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(f"{path} is no JSON ({error})") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply for a file that nvbench wrote") from None
    try:
        devices = {int(device["id"]): str(device["name"]) for device in content.get("devices") or []}
        reader = _Reader(path, devices)
        records = [reader.record(bench, state) for bench in content["benchmarks"] for state in bench["states"]]
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        OSError,
    ) as error:
        raise UsageError(
            f"{path} is not what nvbench writes with --json or --jsonbin ({type(error).__name__}: {error})"
        ) from None
    records = _mark_repeated_devices(records)
    notes = ["nvbench's times are of its own method: its cold samples follow a write of the cache"]
    if reader.without_samples:
        notes.append(
            f"{path.name}: {reader.without_samples} states have no samples beside it, only mean and deviation, which "
            "outliers move; --jsonbin keeps samples"
        )
    return Foreign("nvbench", f"nvbench's {path.name}", records, tuple(notes))


class _Reader:
    def __init__(self, path: Path, devices: Mapping[int, str]) -> None:
        self.path, self.devices = path, devices
        self.without_samples = 0

    def record(self, bench: Mapping[str, Any], state: Mapping[str, Any]) -> Record:
        summaries = {
            summary["tag"]: {part["name"]: part["value"] for part in summary.get("data") or []}
            for summary in state.get("summaries") or []
        }
        number = state.get("device")
        device = "" if number is None else self.devices.get(int(number), f"device {number}")
        series = None if state.get("is_skipped") else self._series(summaries)
        reason = " ".join(str(state.get("skip_reason") or "").split())
        absent = State.CRASHED if reason.startswith(EXCEPTION) else State.SKIPPED
        return {
            "family": str(bench["name"]),
            "problem": Point({str(axis["name"]): _value(axis) for axis in state.get("axis_values") or []}),
            "backend": "cuda",
            "device": device,
            "device_key": device,
            "device_number": -1 if number is None else int(number),
            "state": (State.OK if series is not None else absent).value,
            "message": reason if series is None else "",
            "tool": "nvbench",
            "series": {} if series is None else {Measure.COLD: series},
        }

    def _series(self, summaries: Mapping[str, Mapping[str, Any]]) -> Samples | None:
        """Return the samples, or a summary in their place; None where the state was not timed."""
        meta = summaries.get(SAMPLES)
        file = self._find(str(meta["filename"])) if meta else None
        if meta and file is not None:
            seconds = np.fromfile(file, dtype="<f4").astype(np.float64)
            if seconds.size != int(meta["size"]):
                raise ValueError(f"{file} holds {seconds.size} samples where {meta['size']} are announced")
            seconds = seconds[np.isfinite(seconds) & (seconds > 0)]
            if seconds.size:
                return Samples.of([seconds * NS])
        if MEAN not in summaries or COUNT not in summaries:
            return None
        mean, count = float(summaries[MEAN]["value"]), int(summaries[COUNT]["value"])
        if not (math.isfinite(mean * NS) and mean > 0 and count > 0):
            return None
        spread = float(summaries[NOISE]["value"]) if NOISE in summaries else math.inf
        if NOISE not in summaries and DEVIATION in summaries:
            spread = float(summaries[DEVIATION]["value"]) / mean
        self.without_samples += 1
        error = spread / math.sqrt(count) if math.isfinite(spread) else math.inf
        return Samples.of([np.array([mean * NS])], standard_error=max(error, 1e-9))

    def _find(self, name: str) -> Path | None:
        """Return a side-car file; its name is relative to where nvbench ran, to the JSON's folder or to its parent."""
        folder = self.path.absolute().parent
        for place in (
            folder / name,
            folder.parent / name,
            Path(name),
            folder / Path(name).parent.name / Path(name).name,
        ):
            if place.is_file():
                return place
        return None


def _mark_repeated_devices(records: Sequence[Record]) -> list[Record]:
    """Return the records, those of devices that share their name marked so."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for record in records:
        numbers[record["device"]].add(record["device_number"])
    return [{**record, "device_repeats": len(numbers[record["device"]]) > 1} for record in records]


def _value(axis: Mapping[str, Any]) -> Coordinate:
    """Return an axis value; numbers are written as text in the file."""
    value = axis["value"] if "value" in axis else axis.get("input_string", "")
    if isinstance(value, str) and axis.get("type") in ("int64", "float64"):
        return int(value) if axis["type"] == "int64" else float(value)
    return value if isinstance(value, (int, float, bool)) else str(value)
