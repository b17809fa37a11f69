"""Profiles with their launches, counters and advice, written in one transaction a profile."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import StoreError
from cuprof.core.records import Artifact, Conditions, CounterValue, LaunchRecord, Profile, State, StoredProfile
from cuprof.core.text import hide_in_data
from cuprof.store.counter_models import Advice, Counter, Launch, Metric, TrialCounter
from cuprof.store.counter_models import Artifact as ArtifactRow
from cuprof.store.counter_models import Profile as ProfileRow
from cuprof.store.models import Trial
from cuprof.store.rows import chunks, columns_of, insert_row, upsert
from cuprof.store.trials import find_keys

MetricKey = tuple[str, str, str]


def record_profile(connection: Connection, sweep_id: int | None, profile: Profile) -> int:
    """Write one profile with its launches, counters and advice, and return its key.

    Args:
        sweep_id: the sweep it was collected in; None for reports taken in from elsewhere.
        profile: with identity None it stands for foreign launches under the name given.

    Raises:
        StoreError: the trial is not in the database.
    """
    trial_id = None
    if profile.identity is not None:
        trial_id = find_keys(connection, [profile.identity]).get(profile.identity)
        if trial_id is None:
            raise StoreError(f"trial {profile.identity} is not in the database; counters belong to stored trials")
    row = columns_of(
        ProfileRow,
        profile,
        trial_id=trial_id,
        sweep_id=sweep_id,
        artifact_id=save_artifact(connection, profile.artifact) if profile.artifact else None,
        recorded_at=time.time(),
        **asdict(profile.conditions),
    )
    profile_id = insert_row(connection, ProfileRow, row)
    values = [counter for launch in profile.launches for counter in launch.counters]
    metrics = _save_metrics(connection, [*values, *profile.rolled])
    for launch in profile.launches:
        _record_launch(connection, profile_id, launch, metrics, profile.conditions.cache_mode)
    place = {"profile_id": profile_id, "trial_id": trial_id}
    rolled = [place | _value_columns(value, metrics, profile.conditions.cache_mode) for value in profile.rolled]
    if rolled:
        connection.execute(sa.insert(TrialCounter), rolled)
    return profile_id


def save_artifact(connection: Connection, artifact: Artifact) -> int:
    """Insert the artifact, or note its new place where the same contents are known, and return its key."""
    row = columns_of(ArtifactRow, artifact, command=hide_in_data(artifact.command))
    upsert(connection, ArtifactRow, [row], key=["sha256"], update=["path"])
    return int(connection.execute(sa.select(ArtifactRow.id).where(ArtifactRow.sha256 == artifact.sha256)).scalar_one())


def profiled(
    connection: Connection, identities: Sequence[str], conditions: Conditions, metrics: Collection[str]
) -> dict[str, StoredProfile]:
    """Return what is stored of those trials that have been profiled for all of the metrics under these conditions.

    A trial that failed under the profiler is among them where nothing better is stored.

    Args:
        metrics: names as in `Profile.metrics`.
    """
    wanted = set(metrics)
    asked: dict[str, set[str]] = {}
    missing: dict[str, dict[str, str]] = {}
    settled: dict[str, StoredProfile] = {}
    for chunk in chunks(list(dict.fromkeys(identities))):
        found = connection.execute(
            sa.select(Trial.identity, ProfileRow.state, ProfileRow.message, ProfileRow.metrics, ProfileRow.missing)
            .join(ProfileRow, ProfileRow.trial_id == Trial.id)
            .where(
                Trial.identity.in_(chunk),
                *(getattr(ProfileRow, name) == value for name, value in asdict(conditions).items()),
            )
            .order_by(ProfileRow.id)
        )
        for identity, state, message, names, absent in found:
            if state == State.OK:
                asked.setdefault(identity, set()).update(names)
                missing.setdefault(identity, {}).update(absent)
            elif state != State.SKIPPED and wanted <= set(names):
                settled[identity] = StoredProfile(State(state), message)
    for identity, names in asked.items():
        if wanted <= names:
            lacking = {name: why for name, why in missing[identity].items() if name in wanted}
            settled[identity] = StoredProfile(State.OK, missing=lacking)
    return settled


def _record_launch(
    connection: Connection, profile_id: int, launch: LaunchRecord, metrics: dict[MetricKey, int], cache_mode: str
) -> None:
    names = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    sizes = dict(zip(names, (*launch.grid, *launch.block), strict=True))
    launch_id = insert_row(connection, Launch, columns_of(Launch, launch, profile_id=profile_id, **sizes))
    counters = [{"launch_id": launch_id, **_value_columns(value, metrics, cache_mode)} for value in launch.counters]
    if counters:
        connection.execute(sa.insert(Counter), counters)
    advice = [
        columns_of(Advice, piece, launch_id=launch_id, ordinal=ordinal) for ordinal, piece in enumerate(launch.advice)
    ]
    if advice:
        connection.execute(sa.insert(Advice), advice)


def _save_metrics(connection: Connection, values: Iterable[CounterValue]) -> dict[MetricKey, int]:
    rows: dict[MetricKey, dict[str, Any]] = {
        _metric_key(value): columns_of(Metric, value, name=value.metric) for value in values
    }
    known = _find_metrics(connection, rows)
    fresh = [row for key, row in rows.items() if known.get(key, (0, ""))[1] != row["meaning"] or key not in known]
    if fresh:
        upsert(connection, Metric, fresh, key=["name", "unit", "rollup"], update=["meaning"])
        known = _find_metrics(connection, rows)
    return {key: found[0] for key, found in known.items()}


def _find_metrics(connection: Connection, keys: Collection[MetricKey]) -> dict[MetricKey, tuple[int, str]]:
    found: dict[MetricKey, tuple[int, str]] = {}
    for chunk in chunks(sorted({name for name, _, _ in keys})):
        rows = connection.execute(
            sa.select(Metric.id, Metric.name, Metric.unit, Metric.rollup, Metric.meaning).where(Metric.name.in_(chunk))
        )
        found |= {(row.name, row.unit, row.rollup): (row.id, row.meaning) for row in rows}
    return {key: found[key] for key in keys if key in found}


def _metric_key(value: CounterValue) -> MetricKey:
    return value.metric, value.unit, value.rollup


def _value_columns(value: CounterValue, metrics: dict[MetricKey, int], cache_mode: str) -> dict[str, Any]:
    return {
        "metric_id": metrics[_metric_key(value)],
        "cache_mode": cache_mode,
        "value": value.value,
        "text": value.text or None,
        "instances": value.instances or None,
    }
