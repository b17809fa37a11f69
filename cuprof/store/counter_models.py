"""The tables of hardware counters as typed models; db/DICTIONARY.md says what each column means."""

from __future__ import annotations

from sqlalchemy import Integer, String, UniqueConstraint

from cuprof.store.columns import Json, Real, Text, UtcTime, Whole
from cuprof.store.models import Base, Word, column, key, optional, reference


class Artifact(Base, table="artifact"):
    """A kept profiler report."""

    id = key()
    sha256 = column(Word, unique=True)
    path = column(Text)
    kind = column(Word)
    size_bytes = column(Whole)
    tool_version = column(Word)
    command = column(Json(list))


class Profile(Base, table="profile"):
    """One pass of the profiler over one trial, or one named group of foreign launches."""

    id = key()
    trial_id = reference("trial.id", index=True, null=True)
    sweep_id = reference("sweep.id", index=True, null=True)
    artifact_id = reference("artifact.id", null=True)
    name = column(Text)
    state = column(Word)
    message = column(Text)
    log = column(Text)
    metric_set = column(Word)
    metrics = column(Json(list))
    missing = column(Json(dict))
    cache_mode = column(Word)
    started_at = optional(UtcTime)
    duration_ns = column(Whole)
    recorded_at = column(UtcTime)
    clock_control = column(Word)
    replay = column(Word)


class Launch(Base, table="launch", parts=[UniqueConstraint("profile_id", "ordinal")]):
    """One kernel launch that the profiler saw."""

    id = key()
    profile_id = reference("profile.id", owned=True)
    ordinal = column(Integer)
    kernel = column(Text)
    grid_x = column(Whole)
    grid_y = column(Whole)
    grid_z = column(Whole)
    block_x = column(Whole)
    block_y = column(Whole)
    block_z = column(Whole)
    registers = optional(Whole)
    shared_static_bytes = optional(Whole)
    shared_dynamic_bytes = optional(Whole)
    duration_ns = optional(Real)
    details = column(Json(dict))


class Metric(Base, table="metric", parts=[UniqueConstraint("name", "unit", "rollup")]):
    """A counter's name, unit and rule; a rule or unit that changes makes a new row, so old values keep theirs."""

    id = key()
    name = column(String(256))
    unit = column(Word)
    rollup = column(String(256))
    meaning = column(Text)


class Counter(Base, table="counter", sqlite_with_rowid=False):
    """One metric of one launch."""

    launch_id = reference("launch.id", primary=True, owned=True)
    metric_id = reference("metric.id", primary=True, index=True)
    cache_mode = column(Word)
    value = optional(Real)
    text = optional(Text)
    instances = optional(Json(dict))


class TrialCounter(Base, table="trial_counter", sqlite_with_rowid=False):
    """One metric rolled up over the launches of one profile, by the rule kept with the metric."""

    profile_id = reference("profile.id", primary=True, owned=True)
    metric_id = reference("metric.id", primary=True, index=True)
    trial_id = reference("trial.id", index=True, null=True)
    cache_mode = column(Word)
    value = optional(Real)
    text = optional(Text)
    instances = optional(Json(dict))


class Advice(Base, table="advice", parts=[UniqueConstraint("launch_id", "ordinal")]):
    """A piece of Nsight's advice about one launch."""

    id = key()
    launch_id = reference("launch.id", owned=True)
    ordinal = column(Integer)
    rule = column(Text)
    severity = column(Word)
    title = column(Text)
    text = column(Text)
    section = column(Text)
    speedup = optional(Real)


__all__ = ["Advice", "Artifact", "Counter", "Launch", "Metric", "Profile", "TrialCounter"]
