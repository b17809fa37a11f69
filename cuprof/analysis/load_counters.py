"""Read what Nsight Compute said of a sweep's trials: the newest profile of each trial and cache mode."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.orm import Session

from cuprof.store import counter_models as tables

COUNTERS = ["trial_id", "profile_id", "metric", "unit", "rollup", "meaning", "cache_mode", "value", "text"]
LAUNCHES = ["trial_id", "profile_id", "ordinal", "kernel", "metric", "unit", "value", "text"]
FINDINGS = ["trial_id", "profile_id", "kernel", "rule", "severity", "title", "text", "speedup"]
CHUNK = 400


def read_counters(session: Session, trial_ids: Sequence[int]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the trials' counters, their launches' counters, and Nsight's findings.

    A trial profiled several times keeps, of each metric, its newest value; cold ones are preferred to hot ones, to
    match the times.
    """
    profile, launch, metric = tables.Profile, tables.Launch, tables.Metric
    rolled, counter, finding = tables.TrialCounter, tables.Counter, tables.Finding
    named = (metric.name, metric.unit)
    selects = (
        sa.select(
            profile.trial_id,
            profile.id,
            *named,
            metric.rollup,
            metric.meaning,
            rolled.cache_mode,
            rolled.value,
            rolled.text,
        )
        .join(rolled, rolled.profile_id == profile.id)
        .join(metric, metric.id == rolled.metric_id)
        .order_by(profile.id, metric.name),
        sa.select(profile.trial_id, profile.id, launch.ordinal, launch.kernel, *named, counter.value, counter.text)
        .join(launch, launch.profile_id == profile.id)
        .join(counter, counter.launch_id == launch.id)
        .join(metric, metric.id == counter.metric_id)
        .order_by(profile.id, launch.ordinal, metric.name),
        sa.select(
            profile.trial_id,
            profile.id,
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
    )
    frames = []
    for select, columns in zip(selects, (COUNTERS, LAUNCHES, FINDINGS), strict=True):
        rows = [
            tuple(row)
            for start in range(0, len(trial_ids), CHUNK)
            for row in session.execute(select.where(profile.trial_id.in_(trial_ids[start : start + CHUNK])))
        ]
        frames.append(pd.DataFrame(rows, columns=columns))
    counters, launches, findings = frames
    return _newest(counters), _of_profiles(launches, counters), _of_newest_profile(findings)


def _newest(counters: pd.DataFrame) -> pd.DataFrame:
    """Return one value a trial and metric: cold before hot, then the newest profile."""
    if counters.empty:
        return counters
    cold = counters["cache_mode"].isin(["all", "cold"])
    ranked = counters.assign(_cold=cold).sort_values(["trial_id", "metric", "_cold", "profile_id"], kind="stable")
    return ranked.drop_duplicates(["trial_id", "metric"], keep="last").drop(columns="_cold").reset_index(drop=True)


def _of_profiles(launches: pd.DataFrame, counters: pd.DataFrame) -> pd.DataFrame:
    """Return the launches' values that the trials' values were rolled up from."""
    if launches.empty:
        return launches
    chosen = _newest(counters)[["trial_id", "profile_id", "metric"]]
    return launches.merge(chosen, on=["trial_id", "profile_id", "metric"]).reset_index(drop=True)


def _of_newest_profile(findings: pd.DataFrame) -> pd.DataFrame:
    if findings.empty:
        return findings
    newest = findings.groupby("trial_id")["profile_id"].transform("max")
    return findings[findings["profile_id"] == newest].reset_index(drop=True)
