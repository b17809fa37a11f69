"""Which trial of BASE is compared with which of NEW."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from cuprof.comparison.sides import Side
from cuprof.comparison.trials import coordinates_of, each, label_of, name_of, number_keys
from cuprof.core.errors import SelectionError
from cuprof.core.records import FAILED, Measure

TUNABLES = ("best", "equal")
"""How two variants are compared: each at its own fastest tunables, or each choice with its equal."""
KERNEL_TIMES = (Measure.COLD, Measure.HOT)
WHICH = "; several devices have that name, and which is meant cannot be told"


@dataclass(frozen=True)
class Matching:
    """The matched trials, and those that have no counterpart.

    Args:
        pairs: numbers of the trials under `base` and `new`; `choices` are the pairs of tunables that could have been
            compared in the place of each.
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

    Raises:
        SelectionError: `tunables` is neither "best" nor "equal".
    """
    if tunables not in TUNABLES:
        raise SelectionError(f"tunables are compared {' or '.join(TUNABLES)}, not {tunables!r}")
    bases, news = (_distinct(side.trials) for side in (base, new))
    if base.kind == "variant" and new.kind == "variant":
        if tunables == "best":
            return _match_best(bases, news, (base, new))
        return _match_keys(bases, news, ("problem", "tunables"))
    if base.is_foreign != new.is_foreign:
        return _match_across(bases, news)
    return _match_keys(bases, news, ("family", "variant", "backend", "problem", "tunables"))


def _distinct(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each trial that is meant to be right, by its number."""
    first = trials[trials["expected"] != "wrong"].drop_duplicates("trial")
    return first.set_index("trial", drop=False).rename_axis(None)


def _match_keys(bases: pd.DataFrame, news: pd.DataFrame, by: Sequence[str]) -> Matching:
    """Match trials whose columns are equal, on equal devices first, so that none is taken by another's trial."""
    keys, other_keys = number_keys(bases, news, by=by)
    bases, news = bases.assign(key=keys), news.assign(key=other_keys)
    names = ["trial", "key", "device", "device_number", "device_repeats"]
    left, others = bases[names], news[names]  # what is few columns wide is matched in half of the time
    parts = []
    for on, is_alone in ((["key", "device", "device_number"], False), (["key", "device"], True)):
        ours, theirs = (side[~side["device_repeats"]] if is_alone else side for side in (left, others))
        ours, theirs = (side.assign(turn=side.groupby(on, sort=False).cumcount()) for side in (ours, theirs))
        met = ours.merge(theirs[[*on, "turn", "trial"]], on=[*on, "turn"], suffixes=("", "_new"))
        parts.append(met[["trial", "trial_new"]].to_numpy(np.int64))
        left, others = left.drop(met["trial"]), others.drop(met["trial_new"])
    rest, only_base, ambiguous = _match_rest(bases.loc[left.index], news.loc[others.index])
    parts.append(np.array(rest, dtype=np.int64).reshape(-1, 2))
    pairs = pd.DataFrame(np.concatenate(parts), columns=["base", "new"]).assign(choices=1)
    turn = news.groupby("key", sort=False).ngroup()
    lonely = others.drop([new for _, new in rest])
    only_new = lonely.loc[turn[lonely.index].sort_values(kind="stable").index, "trial"]
    return Matching(pairs, bases, news, only_base, list(only_new), tuple(ambiguous))


def _match_rest(left: pd.DataFrame, others: pd.DataFrame) -> tuple[list[tuple[int, int]], list[int], list[str]]:
    """Match the trials without an equal device with those that are left, on any device."""
    if left.empty:
        return [], [], []
    waiting: dict[int, list[Any]] = defaultdict(list)
    for other in each(others):
        waiting[other.key].append(other)
    found: list[tuple[int, int]] = []
    lonely: list[int] = []
    ambiguous: list[str] = []
    for trial in each(left):
        candidates = waiting[trial.key]
        named_alike = [other for other in candidates if other.device == trial.device]
        if named_alike:
            which = f"{_devices([trial])} in BASE, {_devices(named_alike)} in NEW"
            ambiguous.append(f"{label_of(trial)}: {which}{WHICH}")
        elif candidates:
            found.append((trial.trial, candidates.pop(0).trial))
        else:
            lonely.append(trial.trial)
    return found, lonely, ambiguous


def _devices(trials: Sequence[Any]) -> str:
    """Return which devices of one name these are of."""
    numbers = " and ".join("None" if trial.device_number < 0 else str(trial.device_number) for trial in trials)
    return f"{trials[0].device} is device {numbers}"


def _match_best(bases: pd.DataFrame, news: pd.DataFrame, sides: tuple[Side, Side]) -> Matching:
    """Match each variant's fastest tunables at each problem and device; where none is right, the first that failed."""
    best, others = (_choose_best(trials, side.trials) for trials, side in zip((bases, news), sides, strict=True))
    found = _match_keys(best, others, ("problem",))
    choices = best["choices"][found.pairs["base"]].to_numpy() * others["choices"][found.pairs["new"]].to_numpy()
    return replace(found, pairs=found.pairs.assign(choices=choices))


def _choose_best(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the trial that stands for each problem and device, and under `choices` how many it was chosen from."""
    times = pd.Series(np.inf, index=trials.index)
    for measure in (Measure.TOTAL, *reversed(KERNEL_TIMES)):
        medians = rows[rows["measure"] == measure.value].set_index("trial")["median_ns"]
        known = medians.index.intersection(times.index)
        times[known] = medians[known]
    is_timed = trials["measure"] != ""
    (group,) = number_keys(trials, by=("problem", "device"))
    rank = np.where(is_timed, 0, np.where(trials["state"].isin([*FAILED]), 1, 2))
    trials = trials.assign(group=group, rank=rank, time=np.where(is_timed, times, 0.0), is_timed=is_timed)
    trials["choices"] = trials.groupby("group")["is_timed"].transform("sum").clip(lower=1)
    return trials.sort_values(["group", "rank", "time"], kind="stable").drop_duplicates("group")


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
    found = pd.DataFrame(np.array(pairs, dtype=np.int64).reshape(-1, 2), columns=["base", "new"]).assign(choices=1)
    return Matching(found, bases, news, only_base, only_new, tuple(ambiguous))
