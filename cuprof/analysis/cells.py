"""Values of trials by facts: what a pivot table and a figure of a study have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from cuprof.analysis.cache_modes import why_uncounted
from cuprof.analysis.facts import Facts, fact_of, keep, point_label
from cuprof.analysis.published import PublishedValue, whole
from cuprof.analysis.quantities import QUANTITIES, Dimension
from cuprof.analysis.study import Study
from cuprof.analysis.trials import speedups
from cuprof.profiling.knowledge import heading_of

Key = tuple[Any, ...]


def candidates(study: Study, where: Facts, value: str) -> pd.DataFrame:
    """Return the trials that agree with `where`, with a column `value` in base units (NaN unless right and known).

    The column `reason` says why a counter of a right trial is missing, where that is known.

    Args:
        value: the name of a quantity (`cuprof.analysis.quantities`) or of a counter.
    """
    trials = keep(study.trials, where)
    right = trials["trial_id"].isin(study.right["trial_id"])
    if value in QUANTITIES:
        return trials.assign(value=trials[QUANTITIES[value].column].astype(float).where(right), reason="")
    counted = study.counters[study.counters["metric"] == value] if not study.counters.empty else study.counters
    values = dict(zip(counted["trial_id"], counted["value"], strict=True)) if len(counted) else {}
    texts = dict(zip(counted["trial_id"], counted["text"], strict=True)) if len(counted) else {}
    reasons = pd.Series(
        [why_uncounted(study, row, value) or texts.get(row["trial_id"]) or "" for row in trials.to_dict("records")],
        index=trials.index,
        dtype=object,
    )
    return trials.assign(
        value=trials["trial_id"].map(values).astype(float).where(right), reason=reasons.where(right, "")
    )


def as_listed(trials: pd.DataFrame, where: Facts) -> pd.DataFrame:
    """Return the trials in the order in which `where` lists their variants; as they are where it lists none."""
    listed = where.get("variant")
    if not isinstance(listed, list):
        return trials
    places = [
        listed.index(contender if contender in listed else variant)
        for contender, variant in zip(trials["contender"], trials["variant"], strict=True)
    ]
    return trials.assign(_place=places).sort_values("_place", kind="stable").drop(columns="_place")


def describe(study: Study, value: str) -> tuple[str, str, Dimension]:
    """Return heading, fixed unit (empty where it is chosen from the data) and dimension of a quantity or counter."""
    if value in QUANTITIES:
        return QUANTITIES[value].heading, "", QUANTITIES[value].dimension
    units: list[str] = []
    if not study.counters.empty:
        units = [str(unit) for unit in study.counters.loc[study.counters["metric"] == value, "unit"] if unit]
    return heading_of(value), units[0] if units else "", "plain"


def against(study: Study, variant: str) -> Study:
    """Return the study with speedups against another variant than its baseline; itself where none is named."""
    if not variant:
        return study
    return replace(study, trials=study.trials.assign(speedup=speedups(study.trials, variant)))


def choose(trials: pd.DataFrame, facts: Sequence[str]) -> dict[Key, dict[Any, Any]]:
    """Return, for each combination of facts, the trial to show: the fastest one with the value, else the first.

    Without a value, a trial that knows the reason goes before the others.

    The chosen row gains `alternatives`, the number of right trials that it was chosen from, and `choice`: the tunables
    that differ among them and are no facts of the table, as text.
    """
    groups: dict[Key, list[dict[Any, Any]]] = {}
    for row in trials.to_dict("records"):
        groups.setdefault(tuple(fact_of(row, fact) for fact in facts), []).append(row)
    chosen = {}
    for key, rows in groups.items():
        valued = [row for row in rows if pd.notna(row["value"])]
        chosen[key] = {
            **min(valued or rows, key=lambda row: row["time_ns"] if valued else not row["reason"]),
            "alternatives": len(valued),
        }
        named = [fact.partition(".")[2] for fact in facts if fact.startswith("tune.")]
        chosen[key]["choice"] = point_label(
            {
                name: value
                for name, value in chosen[key]["tunables"].items()
                if name not in named and len({row["tunables"].get(name) for row in valued}) > 1
            }
        )
    return chosen


def ordered(keys: Iterable[Key]) -> list[Key]:
    """Return distinct keys in order of appearance; where a position holds numbers only, sorted by them."""
    unique = list(dict.fromkeys(keys))
    for position in reversed(range(len(unique[0]) if unique else 0)):
        values = [key[position] for key in unique if key[position] is not None]
        if values and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            unique.sort(key=lambda key: (key[position] is not None, key[position] or 0))
        else:
            first = {value: i for i, value in reversed(list(enumerate(key[position] for key in unique)))}
            unique.sort(key=lambda key: first[key[position]])
    return unique


def list_published(
    study: Study,
    table: str,
    measure: str,
    trial: Mapping[Any, Any],
    facts: Iterable[str],
    *,
    reference: str = "",
) -> tuple[PublishedValue, ...]:
    """Return what is published for this trial, comparing only the tunables that are among `facts`.

    A value that does not state one of these is of no known place on it: one number is not one for every column.

    It is one value, or one a kernel where the kernels' counters were published apart.

    Args:
        reference: for the measure "speedup": the variant whose published time is divided by this one's.
    """
    if measure == "speedup":
        speedup = _published_speedup(study, table, trial, tuple(facts), reference or study.baseline)
        return (speedup,) if speedup else ()
    names = [fact.partition(".")[2] for fact in facts if fact.startswith("tune.")]
    tunables = {name: trial["tunables"].get(name) for name in names}
    found: dict[str, PublishedValue] = {}
    for value in study.published:
        if value.table != table or value.measure != measure:
            continue
        if any(tunables[name] is not None and name not in value.tunables for name in names):
            continue
        stated = {name: each for name, each in value.tunables.items() if trial["tunables"].get(name) is not None}
        if value.fits(trial["variant"], trial["problem"], {**trial["tunables"], **tunables}) and (
            set(stated) == set(value.tunables)
        ):
            found.setdefault(value.kernel, value)
    return tuple(found.values())


def _published_speedup(
    study: Study, table: str, trial: Mapping[Any, Any], facts: tuple[str, ...], reference: str
) -> PublishedValue | None:
    """Return the ratio of two published times, where both are published for this problem."""
    of_reference = {**trial, "variant": reference, "tunables": {}}
    after, before = (whole(list_published(study, table, "time", each, facts)) for each in (trial, of_reference))
    if after is None or before is None or not after.value or before.value is None or trial["variant"] == reference:
        return None
    return replace(after, measure="speedup", unit="x", dimension="ratio", value=before.value / after.value, text="")
