"""Trials as another tool measured them; they are compared and shown, never stored as our own.

A package adds a reader by an entry point of the group `cuprof.results`: an object with `recognizes(head)`, which says
whether a file that begins so is the tool's, and `read(path)`, which returns an `Imported`.

nvbench's samples come from the files beside its JSON that `--jsonbin` makes; without them its own mean and standard
deviation are used. Kernel Tuner's cache is an object with the kernel's name and device and a row a configuration; T4 is
the autotuning community's schema (https://github.com/odgaard/TuningSchema), which names neither kernel nor device.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cuprof.core.errors import UsageError
from cuprof.core.files import open_regular, read_regular
from cuprof.core.plugins import list_plugins, load_plugin
from cuprof.core.point import Coordinate, Point
from cuprof.core.records import Measure, State

GROUP = "cuprof.results"
BUILT_IN = {name.lower(): f"{__name__}:{name}" for name in ("KERNEL_TUNER", "NVBENCH")}
"""nvbench's reader accepts any JSON, so it comes last."""
LOOKED_AT = 100_000
"""Bytes of a file that a reader gets to recognise its own format."""
MOST_BYTES, MOST_SAMPLES = 1 << 30, 1 << 26
FAULTS = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
"""Errors that a damaged or malicious file may raise while it is read; links in a circle raise RuntimeError."""

SAMPLES = "nv/json/bin:nv/cold/sample_times"
MEAN = "nv/cold/time/gpu/mean"
NOISE = "nv/cold/time/gpu/stdev/relative"
DEVIATION = "nv/cold/time/gpu/stdev/absolute"
COUNT = "nv/cold/sample_size"
EXCEPTION = "Unexpected error"
"""How the reason begins with which nvbench skips a state whose benchmark raised (its runner.cxx,
`runner_base::handle_sampling_exception`); a benchmark that skips a state itself gives a reason of its own."""
STATES = {
    "InvalidConfig": State.SKIPPED, "CompilationFailedConfig": State.COMPILE_ERROR,
    "RuntimeFailedConfig": State.LAUNCH_ERROR, "constraints": State.SKIPPED, "compile": State.COMPILE_ERROR,
    "runtime": State.LAUNCH_ERROR, "correctness": State.WRONG_RESULT, "timeout": State.TIMED_OUT,
}  # fmt: skip
"""Values in the objective of Kernel Tuner's cache, or T4's invalidity, that replace the time."""
UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1e9),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e6),
    **dict.fromkeys(("us", "μs", "usec", "microsecond", "microseconds"), 1e3),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1.0),
}
"""Spellings of a unit, case-folded (which makes the micro sign the Greek letter), and its nanoseconds."""
LEAST_NS, MOST_NS = 1e-3, 1e18
"""A measurement takes between a picosecond and thirty years."""


@dataclass(frozen=True)
class ImportedTrial:
    """One configuration as another tool measured it.

    Args:
        family: the kernel or the benchmark.
        device_id: its number, where the file has several devices.
        measure: what the durations are durations of.
        durations_ns: the samples; a mean alone is one value.
        relative_error: standard error of a mean alone, relative to it.
        message: why there is no time.
    """

    family: str
    problem: Point = field(default_factory=Point)
    tunables: Point = field(default_factory=Point)
    device: str = ""
    device_id: int | None = None
    measure: Measure = Measure.COLD
    durations_ns: np.ndarray = field(default_factory=lambda: np.empty(0))
    relative_error: float = 0.0
    state: State = State.OK
    message: str = ""


@dataclass(frozen=True)
class Imported:
    """What a file holds.

    Args:
        kind: the tool's name in a word.
        tool: its name for people.
        notes: what a reader must know before believing a comparison with these times.
    """

    kind: str
    tool: str
    trials: Sequence[ImportedTrial]
    notes: tuple[str, ...] = ()


def read_results(path: Path) -> Imported:
    """Return what a file of another tool holds; readers of installed packages are asked first.

    Raises:
        UsageError: it cannot be read, or no reader knows it.
    """
    with open_regular(path, MOST_BYTES) as stream:
        head = stream.read(LOOKED_AT).decode("utf-8-sig", "replace")
    names = list_plugins(GROUP, BUILT_IN)
    for name in (*(name for name in names if name not in BUILT_IN), *BUILT_IN):
        reader = load_plugin(GROUP, name, BUILT_IN, "reader of results")
        if reader.recognizes(head):
            try:
                found: Imported = reader.read(path)
                return found
            except FAULTS as error:
                said = f"{type(error).__name__}: {error}"
                if isinstance(error, KeyError):
                    said = f"{error} is missing"
                elif "digits" in said:
                    said = "a number is too long"
                elif isinstance(error, AttributeError | TypeError):
                    said = "a part is a list, an object or a value where that format has another of these"
                raise UsageError(f"{path} is not what {name} writes ({said})") from None
    raise UsageError(f"{path} holds no results that cuprof can read; known are files of {', '.join(names)}")


class Nvbench:
    """Read nvbench's JSON."""

    def recognizes(self, head: str) -> bool:
        """Return whether it may be JSON: an error says what nvbench's files have."""
        return head.lstrip().startswith(("{", "["))

    def read(self, path: Path) -> Imported:
        """Return a file's states: one that its benchmark skipped is skipped, one in which it raised has crashed."""
        content = json.loads(read_regular(path, MOST_BYTES).decode("utf-8-sig"))
        devices = {int(device["id"]): str(device["name"]) for device in content.get("devices") or []}
        trials, samples = list[ImportedTrial](), 0
        states = [(str(bench["name"]), state) for bench in content["benchmarks"] for state in bench["states"]]
        for name, state in states:
            trials.append(_read_state(path, devices, name, state))
            samples += trials[-1].durations_ns.size
            if samples > MOST_SAMPLES:  # many states may name one file
                raise ValueError(f"it has more than {MOST_SAMPLES} samples")
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
        problem=_as_point({str(axis["name"]): _read_value(axis) for axis in state.get("axis_values") or []}),
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
    mean, count = _as_durations([numbers.get(MEAN, 0.0)], "s"), numbers.get(COUNT, 0)
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
        content = stream.read(4 * size + 4) if 0 <= size <= MOST_SAMPLES else b""
    seconds = np.frombuffer(content[: len(content) // 4 * 4], "<f4").astype(np.float64)
    if seconds.size != size:
        raise ValueError(f"{file} holds {seconds.size} samples where {size} are announced")
    return _as_durations(seconds, "s")


def _read_value(axis: Mapping[str, Any]) -> Coordinate:
    """Return an axis value; numbers are written as text in the file."""
    value = axis["value"] if "value" in axis else axis.get("input_string", "")
    if isinstance(value, str) and axis.get("type") in ("int64", "float64"):
        return int(value) if axis["type"] == "int64" else float(value)
    return value if isinstance(value, (int, float, bool)) else str(value)


class KernelTuner:
    """Read a cache file of Kernel Tuner, or its results in format T4."""

    def recognizes(self, head: str) -> bool:
        """Return whether a file is a cache or T4."""
        return '"tune_params_keys"' in head or '"invalidity"' in head

    def read(self, path: Path) -> Imported:
        """Return the configurations of a file; each meets the trial of a variant named like the kernel."""
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")  # editors on Windows put a mark ahead
        try:
            content = json.loads(text)
        except json.JSONDecodeError:  # Kernel Tuner leaves the end off a cache that it may go on with
            content = json.loads(text.rstrip().rstrip(",") + "}}")
        trials = list(_read_cache(content) if "cache" in content else _read_t4(content, path))
        note = (
            "Kernel Tuner's times are of its own method: its samples follow one another, and nothing flushes the caches"
        )
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


def _read_t4(content: Mapping[str, Any], path: Path) -> Iterator[ImportedTrial]:
    kernel = path.name.partition(".")[0]
    for row in content["results"]:
        unit, times = "ms", list(row["times"].get("runtimes") or ())
        for each in row.get("measurements") or ():
            if each["name"] == "time" and isinstance(each["value"], int | float):
                unit, times = str(each.get("unit") or "ms").strip().casefold(), times or [each["value"]]
                if unit not in UNITS:
                    raise UsageError(f"{path}: unknown unit of time {unit[:40]!r}; known are {', '.join(UNITS)}")
        reason = "" if row["invalidity"] == "correct" else str(row["invalidity"])
        yield _make_trial(kernel, row["configuration"], "", reason, times, unit)


def _make_trial(
    kernel: str, tunables: Mapping[str, Any], device: str, reason: str, times: Any, unit: str = "ms"
) -> ImportedTrial:
    """Return a trial; without a time it has failed, as `STATES` says of the reason."""
    durations = _as_durations([] if reason else times, unit)
    return ImportedTrial(
        family=kernel,
        tunables=_as_point(tunables),
        device=device,
        measure=Measure.HOT,
        durations_ns=durations,
        # The scatter behind a lone mean is unknown, so it decides nothing.
        relative_error=0.0 if durations.size > 1 else float("inf"),
        state=State.OK if durations.size else STATES.get(reason, State.LAUNCH_ERROR),
        message="" if durations.size else "as Kernel Tuner says",
    )


def _as_durations(values: Any, unit: str) -> np.ndarray:
    """Return times in ns, those that a measurement can have given; raise `ValueError` where one is no number."""
    with np.errstate(over="ignore"):
        listed = values if isinstance(values, np.ndarray) else msgspec.convert(values, list[float])
        found = np.array(listed, np.float64) * UNITS[unit]
    return found[(found >= LEAST_NS) & (found <= MOST_NS)]


def _as_point(coordinates: Any) -> Point:
    """Return coordinates on named axes; raise `ValueError` where a value is neither a number nor a text."""
    for name, value in msgspec.convert(coordinates, dict[str, Coordinate]).items():
        if value in (math.inf, -math.inf) or value != value or (isinstance(value, int) and value.bit_length() > 64):
            raise ValueError(f"{name} must be a finite number, of 64 bits at most")
    return Point(coordinates)


NVBENCH, KERNEL_TUNER = Nvbench(), KernelTuner()
