"""The numbers behind the figures, as frames in base units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cuprof.analysis.cells import candidates, choose, list_published
from cuprof.analysis.experiment import FigureSpec
from cuprof.analysis.published import whole
from cuprof.analysis.study import Study, best_of_tunables
from cuprof.analysis.trials import by_kind


@dataclass(frozen=True)
class Scaling:
    """Times over one problem axis.

    Args:
        axis: the axis's name.
        points: contender, device, x, time_ns, low_ns, high_ns, bandwidth; the best tunables at each point.
        roof: device, x, time_ns: useful bytes over the measured read bandwidth.
        others: the other axes, held at the reference problem, as text.
    """

    axis: str
    points: pd.DataFrame
    roof: pd.DataFrame
    others: str


def variants_frame(study: Study) -> pd.DataFrame:
    """Return the right contenders at the reference problem, kernels before libraries before CPU."""
    return by_kind(study.best)


def scaling(study: Study) -> Scaling | None:
    """Return times over the problem axis with the most values, the others as at the reference; None with one value."""
    lines = {
        axis: {problem[axis] for problem in study.right["problem"] if _differ(problem, study.reference) <= {axis}}
        for axis in study.reference
    }
    fewest = 3 if study.experiment.problems else 2  # two of a study's named problems that share axes are no series
    numeric = {axis: values for axis, values in lines.items() if len(values) >= fewest and all(map(_is_number, values))}
    if not numeric:
        return None
    axis = max(numeric, key=lambda name: len(numeric[name]))
    others = {name: value for name, value in study.reference.items() if name != axis}
    here = study.right["problem"].map(lambda problem: all(problem.get(name) == value for name, value in others.items()))
    best = best_of_tunables(study.right[here])
    points = best.assign(x=[float(problem[axis]) for problem in best["problem"]])
    points = points.rename(columns={"time_low_ns": "low_ns", "time_high_ns": "high_ns"}).sort_values(
        ["order", "x"], kind="stable"
    )
    sizes = points.dropna(subset=["useful_bytes"]).groupby("x")["useful_bytes"].first().astype(float)
    used = [device for device in study.devices if device.read_bandwidth and device.label in set(points["device"])]
    roof = [
        {"device": device.label, "x": x, "time_ns": size / float(device.read_bandwidth or 1) * 1e9}
        for device in used
        for x, size in sizes.items()
    ]
    label = ", ".join(f"{name} = {value}" for name, value in others.items())
    return Scaling(axis, points.reset_index(drop=True), pd.DataFrame(roof, columns=["device", "x", "time_ns"]), label)


def distribution(study: Study) -> pd.DataFrame:
    """Return the samples of the best tunables of each contender at the reference problem: contender, duration_ns."""
    names = dict(zip(study.best["trial_id"], study.best["contender"], strict=True))
    samples = study.samples[study.samples["trial_id"].isin(names)]
    return samples.assign(contender=samples["trial_id"].map(names))[["contender", "round", "duration_ns"]]


def tunable_maps(study: Study) -> dict[str, pd.DataFrame]:
    """Return contender → its right trials at the reference problem, where there is more than one choice of tunables.

    Columns: one a tunable that varies (`tune.NAME`), time_ns, tunables_label.
    """
    maps = {}
    here = study.right[study.right["problem"] == study.reference]
    for contender, rows in here.groupby("contender", sort=False):
        names = list(dict.fromkeys(name for tunables in rows["tunables"] for name in tunables))
        varying = [name for name in names if len({tunables.get(name) for tunables in rows["tunables"]}) > 1]
        if varying:
            columns = {f"tune.{name}": [tunables.get(name) for tunables in rows["tunables"]] for name in varying}
            maps[str(contender)] = pd.DataFrame(columns).assign(
                time_ns=rows["time_ns"].to_numpy(), tunables_label=rows["tunables_label"].to_numpy()
            )
    return maps


def figure_frame(study: Study, spec: FigureSpec) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what a study's own figure draws: measured and published points.

    Columns of both: series, x, y (a map's second axis), value in base units, device; measured has low and high (of
    times), tunables and useful_bytes.
    """
    value = spec.value if spec.kind == "map" else spec.y
    facts = (spec.series, spec.x, spec.y) if spec.kind == "map" else (spec.series, spec.x)
    trials = candidates(study, spec.where, value)
    measured, published = [], []
    for key, trial in choose(trials, facts).items():
        place = {"series": key[0], "x": key[1], "y": key[2] if spec.kind == "map" else None, "order": trial["order"]}
        if pd.notna(trial["value"]) and key[1] is not None:
            bounds = (trial["time_low_ns"], trial["time_high_ns"]) if value == "time" else (None, None)
            label = trial["tunables_label"]
            measured.append({**place, "value": trial["value"], "low": bounds[0], "high": bounds[1], "tunables": label})
            measured[-1]["device"], measured[-1]["useful_bytes"] = trial["device"], trial["useful_bytes"]
        found = whole(list_published(study, spec.published, value, trial, facts)) if spec.published else None
        if found is not None and found.value is not None:
            published.append({**place, "value": found.value, "device": found.device})
    columns = ["series", "x", "y", "order", "value"]
    frames = (
        pd.DataFrame(measured, columns=[*columns, "low", "high", "tunables", "device", "useful_bytes"]),
        pd.DataFrame(published, columns=[*columns, "device"]),
    )
    return frames[0].sort_values("order", kind="stable"), frames[1].sort_values("order", kind="stable")


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Return the axes on which two problems differ."""
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
