"""Read what nvbench wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class NvbenchState:
    """One configuration.

    Args:
        axes: axis → value, as text.
        time_ns: the median of the cold GPU times, or their mean where this nvbench gives no median.
        iqr: the distance between the quartiles over the median, or the relative deviation where there are none.
        samples: how many cold samples.
        measuring_s: wall time of the cold and the batched measurement.
    """

    axes: dict[str, str]
    time_ns: float
    iqr: float | None
    samples: int
    measuring_s: float


def read_states(file: Path) -> list[NvbenchState]:
    """Return the configurations of the file's first benchmark; skipped ones are left out."""
    return [
        _read(state)
        for state in json.loads(file.read_text())["benchmarks"][0]["states"]
        if not state.get("is_skipped") and state.get("summaries")
    ]


def _read(state: dict[str, Any]) -> NvbenchState:
    values = {summary["tag"]: _value(summary) for summary in state["summaries"]}
    time_s = _first(values, "nv/cold/time/gpu/median", "nv/cold/time/gpu/mean")
    if time_s is None:
        raise ValueError(f"nvbench gave no cold GPU time, only {', '.join(values)}")
    walls = (values.get("nv/cold/walltime"), values.get("nv/batch/walltime"))
    return NvbenchState(
        axes={axis["name"]: str(axis["value"]) for axis in state["axis_values"]},
        time_ns=time_s * 1e9,
        iqr=_first(values, "nv/cold/time/gpu/iqr/relative", "nv/cold/time/gpu/stdev/relative"),
        samples=int(values.get("nv/cold/sample_size") or 0),
        measuring_s=sum(wall or 0.0 for wall in walls),
    )


def _value(summary: dict[str, Any]) -> float | None:
    for entry in summary.get("data", []):
        if (
            entry.get("name") == "value"
            and entry.get("type") in ("float64", "int64")
            and entry.get("value") is not None
        ):
            return float(entry["value"])
    return None


def _first(values: dict[str, float | None], *tags: str) -> float | None:
    return next((value for tag in tags if (value := values.get(tag)) is not None), None)
