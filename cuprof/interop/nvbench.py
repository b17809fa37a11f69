"""Trials of a JSON file that nvbench (or its Python package cuda-bench) wrote.

Samples come from the files beside it that `--jsonbin` makes; without them nvbench's own mean and standard
deviation are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.core.point import Coordinate
from cuprof.core.records import State
from cuprof.interop.files import open_regular
from cuprof.interop.results import Imported, ImportedTrial, as_durations, as_point, read_json

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


def recognizes(head: str) -> bool:
    """Return whether it may be JSON: an error says what nvbench's files have."""
    return head.lstrip().startswith(("{", "["))


def read(path: Path) -> Imported:
    """Return the states of a file: one that its benchmark skipped is skipped, one in which it raised has crashed."""
    content = read_json(path)
    devices = {int(device["id"]): str(device["name"]) for device in content.get("devices") or []}
    trials = [
        _read_state(path, devices, str(bench["name"]), state)
        for bench in content["benchmarks"]
        for state in bench["states"]
    ]
    notes = ["nvbench's times are of its own method: its cold samples follow a write of the cache"]
    if without_samples := sum(trial.durations_ns.size == 1 and trial.relative_error > 0 for trial in trials):
        notes.append(
            f"{path.name}: {without_samples} states have no samples beside it, only mean and deviation, "
            "which outliers move; --jsonbin keeps samples"
        )
    return Imported("nvbench", "nvbench", trials, tuple(notes))


def _read_state(path: Path, devices: Mapping[int, str], bench: str, state: Mapping[str, Any]) -> ImportedTrial:
    summaries = {
        summary["tag"]: {part["name"]: part["value"] for part in summary.get("data") or []}
        for summary in state.get("summaries") or []
    }
    durations, error = _read_durations(path, {} if state.get("is_skipped") else summaries)
    number = None if state.get("device") is None else int(state["device"])
    reason = " ".join(str(state.get("skip_reason") or "").split())
    absent = State.CRASHED if reason.startswith(EXCEPTION) else State.SKIPPED
    return ImportedTrial(
        family=bench,
        problem=as_point({str(axis["name"]): _read_value(axis) for axis in state.get("axis_values") or []}),
        device="" if number is None else devices.get(number, f"device {number}"),
        device_id=number,
        durations_ns=durations,
        relative_error=error,
        state=State.OK if durations.size else absent,
        message="" if durations.size else reason,
    )


def _read_durations(path: Path, summaries: Mapping[str, Mapping[str, Any]]) -> tuple[np.ndarray, float]:
    """Return the samples, or a mean in their place with its relative error; none where it was not timed."""
    meta = summaries.get(SAMPLES)
    file = _find(path, str(meta["filename"])) if meta else None
    if meta and file is not None and (found := _read_samples(file, int(meta["size"]))).size:
        return found, 0.0
    numbers = {tag: float(summaries[tag]["value"]) for tag in (MEAN, COUNT, NOISE, DEVIATION) if tag in summaries}
    mean, count = as_durations([numbers.get(MEAN, 0.0)], NS), numbers.get(COUNT, 0)
    if not mean.size or not count >= 1:
        return np.empty(0), 0.0
    spread = numbers.get(NOISE, numbers.get(DEVIATION, math.inf) / numbers[MEAN])
    return mean, max(spread / math.sqrt(count), 1e-9) if math.isfinite(spread) else math.inf


def _find(path: Path, name: str) -> Path | None:
    """Return a file of samples; its name is relative to where nvbench ran, to the JSON's folder or its parent."""
    folder = path.absolute().parent
    beside = f"{Path(name).parent.name}/{Path(name).name}"
    for top, place in ((folder, name), (folder.parent, name), (Path.cwd(), name), (folder, beside)):
        found = (top / place).resolve()
        if found.is_relative_to(top.resolve()) and found.is_file():
            return found
    return None


def _read_samples(file: Path, size: int) -> np.ndarray:
    with open_regular(file) as stream:
        content = stream.read(4 * size + 4) if 0 <= size < 1 << 30 else b""
    seconds = np.frombuffer(content[: len(content) // 4 * 4], "<f4").astype(np.float64)
    if seconds.size != size:
        raise ValueError(f"{file} holds {seconds.size} samples where {size} are announced")
    return as_durations(seconds.tolist(), NS)


def _read_value(axis: Mapping[str, Any]) -> Coordinate:
    """Return an axis value; numbers are written as text in the file."""
    value = axis["value"] if "value" in axis else axis.get("input_string", "")
    if isinstance(value, str) and axis.get("type") in ("int64", "float64"):
        return int(value) if axis["type"] == "int64" else float(value)
    return value if isinstance(value, (int, float, bool)) else str(value)
