"""The tables of sweeps, trials and timings as typed models; db/DICTIONARY.md says what each column means.

The schema itself is made by the migrations in db/migrations; a test asserts that both agree.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from sqlalchemy import ForeignKey, Index, Integer, MetaData, String, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from cuprof.store.columns import BigId, Json, Real, Text, UtcTime, Whole

REVISION = "0007"
"""The newest migration; a database that says so needs no look at the migrations."""

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

Key = Annotated[int, mapped_column(BigId, primary_key=True)]
Hash64 = Annotated[str, mapped_column(String(64))]
Word = Annotated[str, mapped_column(String(64))]


class Base(DeclarativeBase):
    """Carry the metadata of every table."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text(),
        float: Real(),
        int: Whole(),
        dict[str, Any]: Json(dict),
        list[Any]: Json(list),
    }


def reference(column: str, *, primary: bool = False, owned: bool = False, index: bool = False) -> Any:
    """Declare a foreign key; the rows of an owned table go with their owner."""
    return mapped_column(
        BigId, ForeignKey(column, ondelete="CASCADE" if owned else None), primary_key=primary, index=index
    )


class Property(Base):
    """A fact about the database itself."""

    __tablename__ = "property"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str]


class Device(Base):
    """A device together with the software that drives it."""

    __tablename__ = "device"
    id: Mapped[Key]
    fingerprint: Mapped[Hash64] = mapped_column(String(64), unique=True)
    comparable: Mapped[Hash64] = mapped_column(String(64), index=True)
    backend: Mapped[Word]
    ordinal: Mapped[int] = mapped_column(Integer)
    name: Mapped[str]
    uuid: Mapped[str]
    memory_bytes: Mapped[int]
    identity: Mapped[dict[str, Any]]
    details: Mapped[dict[str, Any]]


class Sweep(Base):
    """The trials of one command, however often it was interrupted and run again."""

    __tablename__ = "sweep"
    id: Mapped[Key]
    name: Mapped[str]
    experiment: Mapped[str]
    family: Mapped[str]
    baseline: Mapped[str]
    purpose: Mapped[Word]
    plan_hash: Mapped[str] = mapped_column(String(128), index=True)
    command_line: Mapped[str]
    configuration: Mapped[dict[str, Any]]
    host: Mapped[str]
    git: Mapped[dict[str, Any]]
    software: Mapped[dict[str, Any]]
    state: Mapped[Word]
    invocations: Mapped[int] = mapped_column(Integer)
    started_at: Mapped[float] = mapped_column(UtcTime)
    resumed_at: Mapped[float | None] = mapped_column(UtcTime)
    finished_at: Mapped[float | None] = mapped_column(UtcTime)
    process_host: Mapped[str]
    process_id: Mapped[int]
    process_started: Mapped[float]


class Station(Base):
    """A worker and its devices, which takes part in a sweep; its process says now and then that it is still there."""

    __tablename__ = "station"
    id: Mapped[Key]
    sweep_id: Mapped[int] = reference("sweep.id", owned=True, index=True)
    name: Mapped[str]
    process_host: Mapped[str]
    process_id: Mapped[int]
    process_started: Mapped[float]
    doing: Mapped[str]
    joined_at: Mapped[float] = mapped_column(UtcTime)
    seen_at: Mapped[float] = mapped_column(UtcTime)
    left_at: Mapped[float | None] = mapped_column(UtcTime)


class Calibration(Base):
    """What was measured of a device in a sweep."""

    __tablename__ = "calibration"
    sweep_id: Mapped[int] = reference("sweep.id", primary=True, owned=True)
    device_id: Mapped[int] = reference("device.id", primary=True)
    backend: Mapped[Word]
    read_bandwidth: Mapped[float | None]
    event_overhead_ns: Mapped[float | None]
    details: Mapped[dict[str, Any]]
    measured_at: Mapped[float] = mapped_column(UtcTime)


class Variant(Base):
    """One implementation in one state of its source."""

    __tablename__ = "variant"
    __table_args__ = (UniqueConstraint("family", "name", "backend", "kind", "source_hash"),)
    id: Mapped[Key]
    family: Mapped[str]
    name: Mapped[str]
    backend: Mapped[Word]
    kind: Mapped[Word]
    source_hash: Mapped[Hash64]
    source_text: Mapped[str]
    description: Mapped[str]
    origin: Mapped[str]
    expected: Mapped[Word]
    ordinal: Mapped[int] = mapped_column(Integer)


class Problem(Base):
    """One point on the problem axes of a family."""

    __tablename__ = "problem"
    __table_args__ = (UniqueConstraint("family", "fingerprint"),)
    id: Mapped[Key]
    family: Mapped[str]
    fingerprint: Mapped[Hash64]
    label: Mapped[str]
    coordinates: Mapped[dict[str, Any]]


class Trial(Base):
    """One variant at one problem with one choice of tunables on one kind of device."""

    __tablename__ = "trial"
    id: Mapped[Key]
    identity: Mapped[str] = mapped_column(String(64), unique=True)
    variant_id: Mapped[int] = reference("variant.id", index=True)
    problem_id: Mapped[int] = reference("problem.id", index=True)
    device_id: Mapped[int | None] = reference("device.id")
    tunables: Mapped[dict[str, Any]]
    tunables_label: Mapped[str]
    label: Mapped[str]
    useful_bytes: Mapped[int | None]
    flops: Mapped[int | None]
    state: Mapped[Word] = mapped_column(String(64), server_default=text("'planned'"))
    message: Mapped[str] = mapped_column(Text, server_default=text("''"))


class Run(Base):
    """One execution of a trial: what it came to."""

    __tablename__ = "run"
    id: Mapped[Key]
    trial_id: Mapped[int] = reference("trial.id", index=True)
    sweep_id: Mapped[int] = reference("sweep.id", index=True)
    device_id: Mapped[int | None] = reference("device.id")
    state: Mapped[Word]
    phase: Mapped[Word]
    message: Mapped[str]
    log: Mapped[str]
    started_at: Mapped[float | None] = mapped_column(UtcTime)
    duration_ns: Mapped[int]
    recorded_at: Mapped[float] = mapped_column(UtcTime)
    check_passed: Mapped[bool | None]
    check_error: Mapped[float | None]
    check_error_absolute: Mapped[float | None]
    check_error_relative: Mapped[float | None]
    check_message: Mapped[str | None]
    check_seed: Mapped[str | None]
    build_registers: Mapped[int | None] = mapped_column(Integer)
    build_shared_bytes: Mapped[int | None]
    build_spill_bytes: Mapped[int | None]
    build_cached: Mapped[bool | None]
    build_ns: Mapped[int | None]
    build_log: Mapped[str | None]
    job: Mapped[Word | None]


class SweepTrial(Base):
    """One trial as a member of one sweep, and the run that the sweep goes by."""

    __tablename__ = "sweep_trial"
    sweep_id: Mapped[int] = reference("sweep.id", primary=True, owned=True)
    trial_id: Mapped[int] = reference("trial.id", primary=True, index=True)
    ordinal: Mapped[int] = mapped_column(Integer)
    device_id: Mapped[int | None] = reference("device.id")
    run_id: Mapped[int | None] = reference("run.id", index=True)
    reused: Mapped[bool] = mapped_column(server_default=text("false"))
    unavailable_reason: Mapped[str | None]
    unavailable_remedy: Mapped[str | None]
    station_id: Mapped[int | None] = mapped_column(BigId)


class Timing(Base):
    """One measure of one run: the summary of its samples."""

    __tablename__ = "timing"
    __table_args__ = (UniqueConstraint("run_id", "measure", "method"),)
    id: Mapped[Key]
    run_id: Mapped[int] = reference("run.id", owned=True)
    measure: Mapped[Word]
    method: Mapped[str] = mapped_column(String(128))
    stopped_by: Mapped[Word]
    sample_count: Mapped[int] = mapped_column(Integer)
    excluded_count: Mapped[int] = mapped_column(Integer)
    median_ns: Mapped[float | None]
    low_ns: Mapped[float | None]
    high_ns: Mapped[float | None]
    confidence: Mapped[float | None]
    mean_ns: Mapped[float | None]
    stdev_ns: Mapped[float | None]
    min_ns: Mapped[float | None]
    max_ns: Mapped[float | None]
    q1_ns: Mapped[float | None]
    q3_ns: Mapped[float | None]
    details: Mapped[dict[str, Any]]
    rotation: Mapped[Word]
    energy_j: Mapped[float | None]
    mean_w: Mapped[float | None]
    idle_w: Mapped[float | None]


class Samples(Base):
    """The timed executions of a timing in their order, a list a fact; the view `sample` has a row for each of them."""

    __tablename__ = "samples"
    timing_id: Mapped[int] = reference("timing.id", primary=True, owned=True)
    durations_ns: Mapped[list[Any]]
    rounds: Mapped[list[Any]]
    sm_clocks_mhz: Mapped[list[Any] | None] = mapped_column(Json(list))
    exclusions: Mapped[list[Any] | None] = mapped_column(Json(list))


class Ranking(Base):
    """What views rank by; `cuprof.store.ranking` computes it, so that no key need be looked up again."""

    __tablename__ = "ranking"
    __table_args__ = (
        Index(
            "ix_ranking_right",
            *("is_right", "sweep_id", "problem_id", "variant_id", "device_id", "measure", "method"),
            *("median_ns", "ordinal", "timing_id"),
        ),
        {"sqlite_with_rowid": False},
    )
    sweep_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    timing_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = mapped_column(BigId, index=True)
    problem_id: Mapped[int] = mapped_column(BigId)
    variant_id: Mapped[int] = mapped_column(BigId)
    device_id: Mapped[int] = mapped_column(BigId)
    measure: Mapped[Word]
    method: Mapped[str] = mapped_column(String(128))
    median_ns: Mapped[float | None]
    ordinal: Mapped[int] = mapped_column(Integer)
    is_right: Mapped[bool]
