"""Read what Nsight Compute said of a sweep's trials, in one cache mode: the newest value of each trial and metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.orm import Session

from cuprof.analysis.library_profiles import OtherAlgorithm, find_other_algorithms
from cuprof.analysis.undefined_ratios import blank_undefined
from cuprof.store import counter_models as tables

COUNTERS = [
    *("trial_id", "profile_id", "metric", "unit", "rollup", "meaning", "cache_mode", "clock_control", "value", "text")
]
LAUNCHES = ["trial_id", "profile_id", "ordinal", "kernel", "metric", "unit", "rollup", "value", "text"]
FINDINGS = ["trial_id", "profile_id", "cache_mode", "kernel", "rule", "severity", "title", "text", "speedup"]
PROFILES = ["trial_id", "profile_id", "cache_mode", "clock_control", "duration_ns"]
CHUNK = 400
UNLOCKED = ("none", "")
"""Clock controls of Nsight Compute that leave the clocks alone, or that nobody knows."""


@dataclass(frozen=True)
class Counters:
    """What is stored of some trials in one cache mode; `cuprof.analysis.study` describes the parts."""

    values: pd.DataFrame
    launches: pd.DataFrame
    findings: pd.DataFrame
    hot_only: frozenset[tuple[int, str]]
    other_algorithm: Mapping[tuple[int, str], OtherAlgorithm]


def read_counters(session: Session, trials: pd.DataFrame) -> Counters:
    """Return the trials' counters, all of one cache mode: cold where any trial has a cold one, to match the times.

    For the same reason counters taken with locked clocks are left out where others are there, and those of a library's
    other algorithm than the timed one always. Ratios of nothing have no value (`cuprof.analysis.undefined_ratios`).

    A trial profiled several times in that mode keeps, of each metric, its newest value.

    Args:
        trials: the trials frame (`cuprof.analysis.trials`).
    """
    trial_ids = [int(trial) for trial in trials["trial_id"]]
    profile, launch, metric = tables.Profile, tables.Launch, tables.Metric
    rolled, counter, finding = tables.TrialCounter, tables.Counter, tables.Advice
    named = (metric.name, metric.unit)
    selects = (
        sa.select(
            profile.trial_id,
            profile.id,
            *named,
            metric.rollup,
            metric.meaning,
            rolled.cache_mode,
            profile.clock_control,
            rolled.value,
            rolled.text,
        )
        .join(rolled, rolled.profile_id == profile.id)
        .join(metric, metric.id == rolled.metric_id)
        .order_by(profile.id, metric.name),
        sa.select(
            profile.trial_id,
            profile.id,
            launch.ordinal,
            launch.kernel,
            *named,
            metric.rollup,
            counter.value,
            counter.text,
        )
        .join(launch, launch.profile_id == profile.id)
        .join(counter, counter.launch_id == launch.id)
        .join(metric, metric.id == counter.metric_id)
        .order_by(profile.id, launch.ordinal, metric.name),
        sa.select(
            profile.trial_id,
            profile.id,
            profile.cache_mode,
            launch.kernel,
            finding.rule,
            finding.severity,
            finding.title,
            finding.text,
            finding.speedup,
        )
        .join(launch, launch.profile_id == profile.id)
        .join(finding, finding.launch_id == launch.id)
        .order_by(profile.id, launch.ordinal, finding.ordinal),
        sa.select(
            profile.trial_id,
            profile.id,
            profile.cache_mode,
            profile.clock_control,
            _whole_sum(launch.duration_ns),
        )
        .join(launch, launch.profile_id == profile.id)
        .where(profile.clock_control.in_(UNLOCKED))
        .group_by(profile.trial_id, profile.id, profile.cache_mode, profile.clock_control)
        .order_by(profile.id),
    )
    frames = []
    for select, columns in zip(selects, (COUNTERS, LAUNCHES, FINDINGS, PROFILES), strict=True):
        rows = [
            tuple(row)
            for start in range(0, len(trial_ids), CHUNK)
            for row in session.execute(select.where(profile.trial_id.in_(trial_ids[start : start + CHUNK])))
        ]
        frames.append(pd.DataFrame(rows, columns=columns))
    counters, launches, findings, profiles = frames
    others = find_other_algorithms(trials, profiles)
    dropped = counters[counters["profile_id"].isin(others)]
    counters = blank_undefined(counters[~counters["profile_id"].isin(others)], ["profile_id"])
    clocks = _clocks(counters)
    counters, findings = (frame[frame["profile_id"].isin(clocks)] for frame in (counters, findings))
    cold = counters["cache_mode"] == "cold"
    mode = "cold" if cold.any() else "hot"
    values = _newest(counters[cold] if cold.any() else counters)
    if not counters.empty:
        dropped = dropped[dropped["cache_mode"] == mode]
    kept = _keys(values)
    return Counters(
        values,
        _of_profiles(blank_undefined(launches, ["profile_id", "ordinal"]), values),
        _of_newest_profile(findings[findings["cache_mode"] == mode]),
        _keys(counters) - kept,
        {
            (row["trial_id"], row["metric"]): others[row["profile_id"]]
            for row in dropped.to_dict("records")
            if (row["trial_id"], row["metric"]) not in kept
        },
    )


def _whole_sum(column: Any) -> sa.ColumnElement[float]:
    """Return the sum of a column over a group, NULL where a row of it has none: half a sum is not a sum."""
    return sa.case((sa.func.count() == sa.func.count(column), sa.func.sum(column)))


def _clocks(counters: pd.DataFrame) -> set[int]:
    """Return the profiles that may stand side by side: those with clocks as when timing, else the others."""
    unlocked = counters[counters["clock_control"].isin(UNLOCKED)]
    return set((counters if unlocked.empty else unlocked)["profile_id"])


def _newest(counters: pd.DataFrame) -> pd.DataFrame:
    """Return one value a trial and metric, that of the newest profile."""
    ranked = counters.sort_values(["trial_id", "metric", "profile_id"], kind="stable")
    return ranked.drop_duplicates(["trial_id", "metric"], keep="last").reset_index(drop=True)


def _keys(counters: pd.DataFrame) -> frozenset[tuple[int, str]]:
    return frozenset(zip(counters["trial_id"], counters["metric"], strict=True))


def _of_profiles(launches: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Return the launches' values that the trials' values were rolled up from."""
    if launches.empty:
        return launches
    chosen = values[["trial_id", "profile_id", "metric"]]
    return launches.merge(chosen, on=["trial_id", "profile_id", "metric"]).reset_index(drop=True)


def _of_newest_profile(findings: pd.DataFrame) -> pd.DataFrame:
    if findings.empty:
        return findings
    newest = findings.groupby("trial_id")["profile_id"].transform("max")
    return findings[findings["profile_id"] == newest].reset_index(drop=True)
