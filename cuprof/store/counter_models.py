"""The tables of hardware counters as typed models; db/DICTIONARY.md says what each column means."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from cuprof.store.columns import UtcTime
from cuprof.store.models import Base, Hash64, Key, Word, reference


class Artifact(Base):
    """A kept profiler report."""

    __tablename__ = "artifact"
    id: Mapped[Key]
    sha256: Mapped[Hash64] = mapped_column(String(64), unique=True)
    path: Mapped[str]
    kind: Mapped[Word]
    size_bytes: Mapped[int]
    tool_version: Mapped[Word]
    command: Mapped[list[Any]]


class Profile(Base):
    """One pass of the profiler over one trial, or one named group of foreign launches."""

    __tablename__ = "profile"
    id: Mapped[Key]
    trial_id: Mapped[int | None] = reference("trial.id", index=True)
    sweep_id: Mapped[int | None] = reference("sweep.id", index=True)
    artifact_id: Mapped[int | None] = reference("artifact.id")
    name: Mapped[str]
    state: Mapped[Word]
    message: Mapped[str]
    log: Mapped[str]
    metric_set: Mapped[Word]
    metrics: Mapped[list[Any]]
    missing: Mapped[dict[str, Any]]
    cache_mode: Mapped[Word]
    started_at: Mapped[float | None] = mapped_column(UtcTime)
    duration_ns: Mapped[int]
    recorded_at: Mapped[float] = mapped_column(UtcTime)
    clock_control: Mapped[Word]
    replay: Mapped[Word]


class Launch(Base):
    """One kernel launch that the profiler saw."""

    __tablename__ = "launch"
    __table_args__ = (UniqueConstraint("profile_id", "ordinal"),)
    id: Mapped[Key]
    profile_id: Mapped[int] = reference("profile.id", owned=True)
    ordinal: Mapped[int] = mapped_column(Integer)
    kernel: Mapped[str]
    grid_x: Mapped[int]
    grid_y: Mapped[int]
    grid_z: Mapped[int]
    block_x: Mapped[int]
    block_y: Mapped[int]
    block_z: Mapped[int]
    registers: Mapped[int | None]
    shared_static_bytes: Mapped[int | None]
    shared_dynamic_bytes: Mapped[int | None]
    duration_ns: Mapped[float | None]
    details: Mapped[dict[str, Any]]


class Metric(Base):
    """A counter's name, unit and rule; a rule or unit that changes makes a new row, so old values keep theirs."""

    __tablename__ = "metric"
    __table_args__ = (UniqueConstraint("name", "unit", "rollup"),)
    id: Mapped[Key]
    name: Mapped[str] = mapped_column(String(256))
    unit: Mapped[Word]
    rollup: Mapped[str] = mapped_column(String(256))
    meaning: Mapped[str]


class Counter(Base):
    """One metric of one launch."""

    __tablename__ = "counter"
    __table_args__ = ({"sqlite_with_rowid": False},)
    launch_id: Mapped[int] = reference("launch.id", primary=True, owned=True)
    metric_id: Mapped[int] = reference("metric.id", primary=True, index=True)
    cache_mode: Mapped[Word]
    value: Mapped[float | None]
    text: Mapped[str | None]
    instances: Mapped[dict[str, Any] | None]


class TrialCounter(Base):
    """One metric rolled up over the launches of one profile, by the rule kept with the metric."""

    __tablename__ = "trial_counter"
    __table_args__ = ({"sqlite_with_rowid": False},)
    profile_id: Mapped[int] = reference("profile.id", primary=True, owned=True)
    metric_id: Mapped[int] = reference("metric.id", primary=True, index=True)
    trial_id: Mapped[int | None] = reference("trial.id", index=True)
    cache_mode: Mapped[Word]
    value: Mapped[float | None]
    text: Mapped[str | None]
    instances: Mapped[dict[str, Any] | None]


class Advice(Base):
    """A piece of Nsight's advice about one launch."""

    __tablename__ = "advice"
    __table_args__ = (UniqueConstraint("launch_id", "ordinal"),)
    id: Mapped[Key]
    launch_id: Mapped[int] = reference("launch.id", owned=True)
    ordinal: Mapped[int] = mapped_column(Integer)
    rule: Mapped[str]
    severity: Mapped[Word]
    title: Mapped[str]
    text: Mapped[str]
    section: Mapped[str]
    speedup: Mapped[float | None]


__all__ = ["Advice", "Artifact", "Counter", "Launch", "Metric", "Profile", "TrialCounter"]
