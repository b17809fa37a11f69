"""The times of a variant over its tunables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cuprof.core.point import Coordinate
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial, by_sure_time, by_time, grouped

FEWEST_CHOICES = 3
"""Two choices of tunables are two numbers, which tables hold; from three on they are drawn."""


@dataclass(frozen=True)
class TunableMap:
    """The right trials of one contender at the reference problem, over the one or two tunables with the most values.

    Args:
        axes: tunable → its values in order.
        median_ns: a value of each axis → the fastest time there.
        hidden: further tunables vary, of which the fastest choice is taken.
    """

    contender: str
    axes: Mapping[str, tuple[Coordinate | None, ...]]
    median_ns: Mapping[tuple[Coordinate | None, ...], float]
    best: StudyTrial
    worst: StudyTrial
    hidden: bool


def tunable_maps(study: Study) -> list[TunableMap]:
    """Return a map for every contender that was measured with several choices of tunables."""
    groups = grouped(study.right_here, lambda trial: trial.contender)
    return [made for name, trials in groups.items() if len(trials) >= FEWEST_CHOICES and (made := _map(name, trials))]


def _map(contender: str, trials: list[StudyTrial]) -> TunableMap | None:
    names = dict.fromkeys(name for trial in trials for name in trial.tunables)
    values = {name: {trial.tunables.get(name) for trial in trials} for name in names}
    varying = sorted((name for name in names if len(values[name]) > 1), key=lambda name: -len(values[name]))
    if not varying:
        return None
    axes = {name: _ordered(values[name]) for name in varying[:2]}
    cells = grouped(trials, lambda trial: tuple(trial.tunables.get(name) for name in axes))
    return TunableMap(
        contender,
        axes,
        {place: by_time(min(here, key=by_sure_time)) for place, here in cells.items()},
        min(trials, key=by_sure_time),
        max(trials, key=by_time),
        len(varying) > 2,
    )


def _ordered(values: Iterable[Coordinate | None]) -> tuple[Coordinate | None, ...]:
    """Return values in order: numbers by size, then words, then none."""

    def rank(value: Coordinate | None) -> tuple[bool, bool, str, float]:
        is_word = isinstance(value, str)
        return value is None, is_word, str(value) if is_word else "", 0.0 if is_word or value is None else float(value)

    return tuple(sorted(values, key=rank))
