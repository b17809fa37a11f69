"""Profiles with their launches, counters and advice, written in one transaction a profile.

Counters by machine instruction are one row a launch: short lists of numbers, and the instructions' text packed.
"""

from __future__ import annotations

import base64
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import StoreError
from cuprof.core.records import (
    INSTRUCTION_BYTES,
    Artifact,
    Conditions,
    CounterValue,
    LaunchRecord,
    Profile,
    SourceCounters,
    State,
    StoredProfile,
    read_opcode,
)
from cuprof.core.text import hide_in_data
from cuprof.store import tables as t
from cuprof.store.rows import among, columns_of, insert_row, save
from cuprof.store.trials import find_keys

_key = attrgetter("rollup", "unit", "metric")


def record_profile(connection: Connection, sweep_id: int | None, profile: Profile) -> int:
    """Write one profile with its launches, counters and advice, and return its key.

    Args:
        sweep_id: the sweep it was collected in; None for imported reports.
        profile: with identity None it holds foreign launches under the given name.

    Raises:
        StoreError: the trial is not in the database.
    """
    trial_id = None
    if profile.identity is not None:
        trial_id = find_keys(connection, [profile.identity]).get(profile.identity)
        if trial_id is None:
            raise StoreError(f"trial {profile.identity} is not in the database; counters belong to stored trials")
    row = columns_of(
        t.profile,
        profile,
        trial_id=trial_id,
        sweep_id=sweep_id,
        artifact_id=save_artifact(connection, profile.artifact) if profile.artifact else None,
        recorded_at=time.time(),
        **asdict(profile.conditions),
    )
    profile_id = insert_row(connection, t.profile, row)
    values = [*chain.from_iterable(launch.counters for launch in profile.launches), *profile.rolled]
    described = {_key(value): columns_of(t.metric, value, name=value.metric) for value in values}
    key = ["rollup", "unit", "name"]
    metrics = save(connection, t.metric, list(described.values()), key=key, update=["meaning"])
    cache_mode = profile.conditions.cache_mode

    def describe(value: CounterValue, **place: int | None) -> dict[str, Any]:
        texts = {"text": value.text or None, "instances": value.instances or None}
        return {**place, "metric_id": metrics[_key(value)], "cache_mode": cache_mode, "value": value.value, **texts}

    for launch in profile.launches:
        launch_id = _record_launch(connection, profile_id, launch)
        _insert(connection, t.counter, [describe(value, launch_id=launch_id) for value in launch.counters])
    rolled = [describe(value, profile_id=profile_id, trial_id=trial_id) for value in profile.rolled]
    _insert(connection, t.trial_counter, rolled)
    return profile_id


def save_artifact(connection: Connection, artifact: Artifact) -> int:
    """Insert the artifact, or store its new path where the same contents are known, and return its key."""
    row = columns_of(t.artifact, artifact, command=hide_in_data(artifact.command))
    return save(connection, t.artifact, [row], key=["sha256"], update=["path"])[artifact.sha256]


def profiled(
    connection: Connection, identities: Sequence[str], conditions: Conditions, metrics: Collection[str]
) -> dict[str, StoredProfile]:
    """Return the stored profiles of the trials that have been profiled for all metrics under these conditions.

    A trial that failed under the profiler is among them where nothing better is stored.

    Args:
        metrics: names as in `Profile.metrics`.
    """
    wanted = set(metrics)
    asked: dict[str, set[str]] = {}
    missing: dict[str, dict[str, str]] = {}
    settled: dict[str, StoredProfile] = {}
    found = connection.execute(
        sa.select(t.trial.c.identity, *(t.profile.c[name] for name in ("state", "message", "metrics", "missing")))
        .join(t.profile, t.profile.c.trial_id == t.trial.c.id)
        .where(
            among(connection, t.trial.c.identity, identities),
            *(t.profile.c[name] == value for name, value in asdict(conditions).items()),
        )
        .order_by(t.profile.c.id)
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


def _record_launch(connection: Connection, profile_id: int, launch: LaunchRecord) -> int:
    names = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    sizes = dict(zip(names, (*launch.grid, *launch.block), strict=True))
    launch_id = insert_row(connection, t.launch, columns_of(t.launch, launch, profile_id=profile_id, **sizes))
    place = {"launch_id": launch_id}
    advice = [columns_of(t.advice, piece, **place, ordinal=ordinal) for ordinal, piece in enumerate(launch.advice)]
    _insert(connection, t.advice, advice)
    if launch.source:
        insert_row(connection, t.source_counters, place | as_row(launch.source))
    return launch_id


def _insert(connection: Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


def as_row(source: SourceCounters) -> dict[str, Any]:
    """Return the columns of the table `source_counters`."""
    opcodes = [read_opcode(text) for text in source.sass]
    names = list(dict.fromkeys(opcodes))
    return columns_of(
        t.source_counters,
        source,
        instruction_count=len(source.sass),
        sass=base64.b64encode(zlib.compress("\n".join(source.sass).encode(), 9)).decode(),
        opcode_names=names,
        opcodes=[names.index(each) for each in opcodes],
        offsets=[] if source.offsets == _regular(len(source.sass)) else source.offsets,
    )


def from_row(row: Mapping[str, Any]) -> SourceCounters:
    """Return the counters that a row holds.

    Raises:
        ValueError: the row is damaged.
    """
    try:
        sass = zlib.decompress(base64.b64decode(row["sass"], validate=True)).decode().split("\n")
        found = {field.name: row[field.name] for field in fields(SourceCounters)}
        found |= {"sass": sass, "offsets": row["offsets"] or _regular(len(sass)), "excessive": row["excessive"] or {}}
        return msgspec.convert(found, SourceCounters, strict=False)  # JSON's keys are text, also those that are numbers
    except (ValueError, zlib.error, msgspec.ValidationError) as error:
        raise ValueError(f"counters by instruction are damaged: {error}") from error


def _regular(count: int) -> tuple[int, ...]:
    """Return the offsets of instructions that follow one another."""
    return tuple(range(0, count * INSTRUCTION_BYTES, INSTRUCTION_BYTES))
