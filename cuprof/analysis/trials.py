"""The trials frame: one row a trial, with everything that is computed from its stored values.

Columns: trial_id, run_id, run_sweep_id, ordinal, identity, family, variant, contender (the variant, with its device
where it ran on several), order, kind, backend, expected, description, origin, device, problem and tunables
(Points), problem_label, problem_name, tunables_label, state, message, log, check_error, check_message, registers,
useful_bytes, flops, {cold,hot,total}_{ns,low_ns,high_ns,count,excluded,stopped_by}, time_* (the measure that ranks:
cold, else hot), time_measure, rotation of that measure, energy_j, mean_w and idle_w (stored with the measure that was
taken first), energy_unavailable (why there is none although it was asked for, or empty), bandwidth (bytes/s), rate
(FLOP/s), share (of the device's measured read bandwidth), speedup (against the baseline at the same problem).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from cuprof.analysis.experiment import Experiment
from cuprof.analysis.facts import point_label
from cuprof.analysis.study import Device
from cuprof.records import ENERGY_UNAVAILABLE

MEASURES = ("cold", "hot", "total")
TIMED = ("ns", "low_ns", "high_ns", "count", "excluded", "stopped_by")
OF_ENERGY = ("energy_j", "mean_w", "idle_w")
KINDS = {"kernel": 0, "library": 1, "cpu": 2}


def trials_frame(
    rows: Sequence[Mapping[str, Any]], devices: Iterable[Device], experiment: Experiment, baseline: str
) -> pd.DataFrame:
    """Return the trials frame of one sweep.

    Args:
        rows: what is stored of each trial: the columns above up to `flops`, and `timings`: measure → summary mapping.
        devices: with their roofs.
        baseline: variant that speedups are against.
    """
    several = _ran_on_several(rows)
    frame = pd.DataFrame([_row(row, several, experiment) for row in rows])
    roofs = {device.label: device.read_bandwidth for device in devices}
    useful = frame["useful_bytes"].astype(float)
    frame["bandwidth"] = useful.where(useful > 0) / (frame["time_ns"] / 1e9)
    flops = frame["flops"].astype(float)
    frame["rate"] = flops.where(flops > 0) / (frame["time_ns"] / 1e9)
    frame["share"] = frame["bandwidth"] / frame["device"].map(roofs).astype(float)
    frame["speedup"] = speedups(frame, baseline)
    return frame


def by_kind(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with kernels before libraries before CPU variants, each in the family's order."""
    ranks = frame["kind"].map(KINDS).fillna(len(KINDS))
    return frame.assign(_rank=ranks).sort_values(["_rank", "order"], kind="stable").drop(columns="_rank")


def _row(row: Mapping[str, Any], several: set[str], experiment: Experiment) -> dict[str, Any]:
    made = {key: value for key, value in row.items() if key != "timings"}
    made["contender"] = f"{row['variant']} @ {row['device']}" if row["variant"] in several else row["variant"]
    made["problem_label"] = row["problem"].label
    made["problem_name"] = experiment.problem_name(row["problem"]) or point_label(row["problem"])
    made["tunables_label"] = point_label(row["tunables"])
    timings: Mapping[str, Mapping[str, Any]] = row["timings"]
    for measure in MEASURES:
        for name in TIMED:
            made[f"{measure}_{name}"] = timings.get(measure, {}).get(name)
    ranking = next((measure for measure in ("cold", "hot") if measure in timings), "")
    made["time_measure"] = ranking
    for name in TIMED:
        made[f"time_{name}"] = made[f"{ranking}_{name}"] if ranking else None
    made["rotation"] = timings.get(ranking, {}).get("rotation")
    measured = next((timing for timing in timings.values() if timing.get("energy_j") is not None), {})
    made |= {name: measured.get(name) for name in OF_ENERGY}
    reasons = (timing.get(ENERGY_UNAVAILABLE) for timing in timings.values())
    made[ENERGY_UNAVAILABLE] = next(filter(None, reasons), "")
    numbers = ("_ns", "_j", "_w")
    return {name: float("nan") if value is None and name.endswith(numbers) else value for name, value in made.items()}


def _ran_on_several(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    devices: dict[str, set[str]] = {}
    for row in rows:
        if row["device"]:
            devices.setdefault(row["variant"], set()).add(row["device"])
    return {variant for variant, names in devices.items() if len(names) > 1}


def speedups(frame: pd.DataFrame, baseline: str) -> pd.Series:
    """Return baseline time / time at the same problem; the baseline's own device first, else any device it ran on."""
    right = frame[(frame["state"] == "ok") & (frame["expected"] != "wrong") & frame["time_ns"].notna()]
    before = right[right["variant"] == baseline]
    on_device = before.groupby(["problem_label", "device"])["time_ns"].min().to_dict()
    anywhere = before.groupby("problem_label")["time_ns"].min().to_dict()
    values = [
        on_device.get((problem, device), anywhere.get(problem, float("nan"))) / time
        for problem, device, time in zip(frame["problem_label"], frame["device"], frame["time_ns"], strict=True)
    ]
    return pd.Series(values, index=frame.index, dtype=float).where(frame.index.isin(right.index))
