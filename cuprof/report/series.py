"""The numbers behind the figures, in base units: which trials are drawn, and at which places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from cuprof.core.text import count
from cuprof.report.cells import Candidate, candidates, choose, list_published
from cuprof.report.experiment import FigureSpec
from cuprof.report.published import whole
from cuprof.report.study import Device, Study
from cuprof.report.trials import StudyTrial, best_of_tunables, by_kind, by_sure_time, by_time, grouped
from cuprof.report.units import QUANTITIES

MOST_BARS = 40
MOST_LINES = 14
ROOFED = ("time", "cold", "hot", "bandwidth")
"""The values that a read bandwidth bounds."""


@dataclass(frozen=True)
class Roof:
    """What the measured read bandwidth of a device allows: a value for each x."""

    device: str
    xs: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Scaling:
    """Times over one problem axis.

    Args:
        axis: the axis's name.
        others: the other axes, held at the reference problem, as text.
        trials: the best tunables of every contender at each point.
        lines: contender → its trials by rising x, of those that are drawn.
        roofs: useful bytes over the measured read bandwidth, ns.
        notes: what is not drawn.
    """

    axis: str
    others: str
    trials: tuple[StudyTrial, ...]
    lines: Mapping[str, Sequence[StudyTrial]]
    roofs: tuple[Roof, ...]
    notes: tuple[str, ...]

    @property
    def xs(self) -> list[float]:
        """Return the places on the axis, each once, rising."""
        return sorted({self.x_of(trial) for trial in self.trials})

    @property
    def middle_ns(self) -> float:
        """Return the time in the middle of all points, for which a unit is chosen."""
        return median(map(by_time, self.trials))

    @property
    def fastest_at_the_end(self) -> StudyTrial:
        """Return the fastest trial at the largest x."""
        return min((trial for trial in self.trials if self.x_of(trial) == self.xs[-1]), key=by_sure_time)

    def x_of(self, trial: StudyTrial) -> float:
        """Return a trial's place on the axis."""
        return float(trial.problem[self.axis])


@dataclass(frozen=True)
class FigurePoint:
    """One point of a study's own figure.

    Args:
        series, x: values of the facts that the figure names.
        y: of a map's second axis.
        value: in base units.
        interval: of a time, in ns; None without one.
        device: that it was measured on; of a published one, the device that its study names.
    """

    series: Any
    x: Any
    y: Any
    value: float
    order: int
    device: str
    interval: tuple[float, float] | None = None
    tunables: str = ""


@dataclass(frozen=True)
class FigurePoints:
    """What a study's own figure draws: measured and published points in the family's order, and roofs."""

    measured: tuple[FigurePoint, ...]
    published: tuple[FigurePoint, ...] = ()
    roofs: tuple[Roof, ...] = ()
    notes: tuple[str, ...] = ()


def fastest_variants(study: Study, quantity: str = "time") -> tuple[list[StudyTrial], tuple[str, ...]]:
    """Return the contenders that have a quantity at the reference problem, and a note where only the fastest are.

    Kernels come before libraries before CPU variants.
    """
    name = QUANTITIES[quantity].attribute
    every = [trial for trial in by_kind(study.best) if getattr(trial, name) is not None]
    if len(every) <= MOST_BARS:
        return every, ()
    kept = set(sorted(every, key=by_time)[:MOST_BARS])
    note = f"The {MOST_BARS} fastest of {count(len(every), 'variant')} are drawn; the table has all."
    return [trial for trial in every if trial in kept], (note,)


def scaling(study: Study) -> Scaling | None:
    """Return times over the problem axis with the most values, the others as at the reference; None with one value."""
    problems = {trial.problem for trial in study.right}
    lines = {
        axis: {problem[axis] for problem in problems if _differ(problem, study.reference) <= {axis}}
        for axis in study.reference
    }
    fewest = 3 if study.experiment.problems else 2  # two of a study's named problems that share axes are no series
    numeric = {axis: values for axis, values in lines.items() if len(values) >= fewest and all(map(_is_number, values))}
    if not numeric:
        return None
    axis = max(numeric, key=lambda name: len(numeric[name]))
    others = {name: value for name, value in study.reference.items() if name != axis}
    here = [trial for trial in study.right if all(trial.problem.get(name) == value for name, value in others.items())]
    best = sorted(best_of_tunables(here), key=lambda trial: (trial.order, float(trial.problem[axis])))
    drawn, notes = _fewer_lines(study, grouped(best, lambda trial: trial.contender))
    sizes = {float(trial.problem[axis]): float(trial.useful_bytes) for trial in reversed(best) if trial.useful_bytes}
    used = {trial.device for trial in best}
    roofs = [_roof(device, sizes) for device in study.devices if device.label in used and sizes]
    label = ", ".join(f"{name} = {value}" for name, value in others.items())
    return Scaling(axis, label, tuple(best), drawn, tuple(filter(None, roofs)), notes)


def figure_points(study: Study, spec: FigureSpec) -> FigurePoints:
    """Return what a study's own figure draws."""
    value = spec.value if spec.kind == "map" else spec.y
    facts = (spec.series, spec.x, spec.y) if spec.kind == "map" else (spec.series, spec.x)
    measured: list[FigurePoint] = []
    published: list[FigurePoint] = []
    shown: list[tuple[Any, Candidate]] = []
    for key, each in choose(candidates(study, spec.where, value), facts).items():
        trial, place = each.trial, (key[0], key[1], key[2] if spec.kind == "map" else None)
        if each.value is not None and key[1] is not None:
            interval = trial.interval if value == "time" else None
            shown.append((key[1], each))
            measured.append(FigurePoint(*place, each.value, trial.order, trial.device, interval, trial.tunables_label))
        found = whole(list_published(study, spec.published, value, trial, facts)) if spec.published else None
        if found is not None and found.value is not None:
            published.append(FigurePoint(*place, found.value, trial.order, found.device))
    for points in (measured, published):
        points.sort(key=lambda point: point.order)
    roofs = _roofs(study, spec, shown) if spec.roof else ()
    series = grouped(measured, lambda point: point.series)
    if spec.kind == "map" or len(series) <= MOST_LINES:
        return FigurePoints(tuple(measured), tuple(published), roofs)
    lowest = sorted(series, key=lambda name: min(point.value for point in series[name]))[:MOST_LINES]
    drawn, beside = (tuple(point for point in points if point.series in lowest) for points in (measured, published))
    return FigurePoints(drawn, beside, roofs, (f"{MOST_LINES} of {len(series)} series are drawn.",))


def _fewer_lines(
    study: Study, lines: Mapping[str, Sequence[StudyTrial]]
) -> tuple[dict[str, Sequence[StudyTrial]], tuple[str, ...]]:
    """Return the lines with the shortest times and the baseline's, and what is left out."""
    fastest = sorted(lines, key=lambda name: min(map(by_time, lines[name])))
    kept = {*fastest[:MOST_LINES], *(name for name, trials in lines.items() if trials[0].variant == study.baseline)}
    note = f"The {len(kept)} of {len(lines)} variants with the shortest times (and the baseline) are drawn."
    return {name: trials for name, trials in lines.items() if name in kept}, (note,) if len(kept) < len(lines) else ()


def _roofs(study: Study, spec: FigureSpec, shown: Sequence[tuple[Any, Candidate]]) -> tuple[Roof, ...]:
    """Return useful bytes over the measured read bandwidth (of a time), or that bandwidth itself."""
    roofs = []
    for device in study.devices if spec.y in ROOFED else ():
        sizes = {x: each.trial.useful_bytes or 0 for x, each in reversed(shown) if each.trial.device == device.label}
        roofs += [_roof(device, sizes, spec.y == "bandwidth")] if sizes else []
    return tuple(filter(None, roofs))


def _roof(device: Device, sizes: Mapping[Any, float], is_flat: bool = False) -> Roof | None:
    """Return what useful bytes over the measured read bandwidth come to, or that bandwidth itself."""
    if not device.read_bandwidth:
        return None
    allowed = {x: device.read_bandwidth if is_flat else sizes[x] / device.read_bandwidth * 1e9 for x in sorted(sizes)}
    return Roof(device.label, tuple(allowed), tuple(allowed.values()))


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Return the axes on which two problems differ."""
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
