"""Which trial of BASE is compared with which of NEW."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cuprof.comparison.sides import Side
from cuprof.comparison.trials import coordinates_of, each, label_of, name_of, number_keys

MATCHED_BY = (
    "trial", "family", "variant", "backend", "problem", "tunables", "device", "device_number", "device_repeats",
    "expected", "state", "measure", "median_ns",
)  # fmt: skip
"""The columns of `Side.trials` that say which trials are matched."""
WHICH = "; several devices have that name, and which is meant cannot be told"


@dataclass(frozen=True)
class Matching:
    """The matched trials, and those that have no counterpart.

    Args:
        pairs: numbers of the trials under `base` and `new`; `choices` are the pairs of tunables that could have been
            compared in the place of each; pairs of one `group` are judged together.
        bases, news: a row for each trial of the sides, by its number: the first of its rows in `Side.trials`.
        only_base, only_new: numbers of trials without a counterpart.
        ambiguous: why trials are matched with none of several that could be meant, one line each.
    """

    pairs: pd.DataFrame
    bases: pd.DataFrame
    news: pd.DataFrame
    only_base: Sequence[int]
    only_new: Sequence[int]
    ambiguous: tuple[str, ...] = ()


def match(base: Side, new: Side, tunables: str = "best") -> Matching:
    """Return the matched trials of two sides; trials that are meant to be wrong are left out.

    Sweeps are matched by family, variant, back end, problem and tunables, whatever the source; variants by problem
    and tunables; another tool's states by the benchmark's name and the axes that it names. Where a trial ran on several
    devices, equal ones meet: of equal name and number, or of equal name where each side has one such device.

    Args:
        tunables: of two variants: each at its own fastest ("best"; where none is right, the first that failed), or each
            choice with its equal ("equal").
    """
    if base.kind == "variant" and new.kind == "variant":
        if tunables == "equal":
            return _match_keys(base.once, new.once, ("problem", "tunables"))
        found = _match_keys(base.fastest, new.fastest, ("problem",))
        choices = [side.fastest["choices"][found.pairs[name]] for side, name in ((base, "base"), (new, "new"))]
        return replace(found, pairs=found.pairs.assign(choices=choices[0].to_numpy() * choices[1].to_numpy()))
    if base.is_foreign != new.is_foreign:
        return _match_across(base.once, new.once)
    return _match_keys(base.once, new.once, ("family", "variant", "backend", "problem", "tunables"))


class _Place(NamedTuple):
    """What two trials have in common that are matched; equal keys alone may be of two devices."""

    key: int
    device: str
    device_number: str
    device_repeats: bool


def _places(trials: pd.DataFrame, keys: np.ndarray) -> dict[int, _Place]:
    columns = (trials[name].tolist() for name in _Place._fields[1:])
    return dict(zip(trials.index.tolist(), map(_Place, keys.tolist(), *columns), strict=True))


def _match_keys(bases: pd.DataFrame, news: pd.DataFrame, by: Sequence[str]) -> Matching:
    """Match trials whose columns are equal, on equal devices first, so that none is taken by another's trial."""
    # Plain dictionaries: pandas takes ten times as long for the few trials that most comparisons have.
    left, others = map(_places, (bases, news), number_keys(bases, news, by=by))
    turn = {place.key: number for number, place in reversed([*enumerate(others.values())])}
    pairs = _take_equal(left, others, by_number=True) + _take_equal(left, others, by_number=False)
    waiting: dict[int, list[int]] = defaultdict(list)
    for trial, place in others.items():
        waiting[place.key].append(trial)
    lonely: list[int] = []
    ambiguous: list[str] = []
    for trial, place in left.items():
        candidates = waiting[place.key]
        named_alike = [other for other in candidates if others[other].device == place.device]
        if named_alike:
            which = f"{_devices([place])} in BASE, {_devices([others[other] for other in named_alike])} in NEW"
            ambiguous.append(f"{label_of(next(each(bases.loc[[trial]])))}: {which}{WHICH}")
        elif candidates:
            pairs.append((trial, candidates.pop(0)))
            del others[pairs[-1][1]]
        else:
            lonely.append(trial)
    only_new = sorted(others, key=lambda trial: turn[others[trial].key])
    return Matching(_frame(pairs), bases, news, lonely, only_new, tuple(ambiguous))


def _take_equal(left: dict[int, _Place], others: dict[int, _Place], *, by_number: bool) -> list[tuple[int, int]]:
    """Take the trials out of both sides that have equal keys and devices, in their order.

    Without the device's number, only those are taken whose device's name stands for one device.
    """
    fields, waiting = 3 if by_number else 2, defaultdict[tuple[Any, ...], list[int]](list)
    for trial, place in reversed(others.items()):
        if by_number or not place.device_repeats:
            waiting[place[:fields]].append(trial)
    pairs = []
    for trial, place in left.items():
        equal = waiting[place[:fields]]
        if equal and (by_number or not place.device_repeats):
            pairs.append((trial, equal.pop()))
    for base, new in pairs:
        del left[base], others[new]
    return pairs


def _devices(places: Sequence[Any]) -> str:
    """Return which devices of one name these are of."""
    return f"{places[0].device} is device {' and '.join(place.device_number for place in places)}"


def _match_across(bases: pd.DataFrame, news: pd.DataFrame) -> Matching:
    """Match another tool's states with trials: of the variant named like the benchmark, at the values of their axes."""
    swapped = bool((news["variant"] != "").any())
    trials, states = (news, bases) if swapped else (bases, news)
    named: dict[str, list[Any]] = defaultdict(list)
    for trial in each(trials):
        for name in {trial.variant, name_of(trial), f"{trial.family}_{trial.variant}"}:
            named[name].append((trial, coordinates_of(trial).items()))
    pairs: list[tuple[int, int]] = []
    lonely: list[int] = []
    ambiguous: list[str] = []
    taken: set[int] = set()
    for state in each(states):
        wanted = coordinates_of(state).items()
        fitting = [trial for trial, has in named[state.family] if wanted <= has and trial.trial not in taken]
        fitting = [trial for trial in fitting if trial.device == state.device] or fitting
        if fitting and state.device_repeats:
            ambiguous.append(f"{label_of(state)}: {_devices([state])} in the other tool's file{WHICH}")
        elif len(fitting) == 1:
            taken.add(fitting[0].trial)
            pairs.append((state.trial, fitting[0].trial) if swapped else (fitting[0].trial, state.trial))
        else:
            lonely.append(state.trial)
    rest = [trial for trial in trials["trial"] if trial not in taken]
    only_base, only_new = (lonely, rest) if swapped else (rest, lonely)
    return Matching(_frame(pairs), bases, news, only_base, only_new, tuple(ambiguous))


def _frame(pairs: Sequence[tuple[int, int]]) -> pd.DataFrame:
    frame = pd.DataFrame(np.array(pairs, dtype=np.int64).reshape(-1, 2), columns=["base", "new"])
    return frame.assign(choices=1, group=0)
