"""The tables of sweeps, trials and timings as typed models; db/DICTIONARY.md says what each column means.

The schema itself is made by the migrations in db/migrations; a test asserts that both agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

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

Word = String(64)
"""A hash or a word of the project's."""
Value = TypeVar("Value")


class _Model(type):
    """Let a model stand for its table in a statement."""

    __table__: Table

    def __clause_element__(cls) -> Table:
        return cls.__table__


class Base(metaclass=_Model):
    """A table whose columns are its attributes; carries the metadata of every table.

    SQLAlchemy's own models map rows to objects, of which there are none here, for a tenth of a second at each start.

    Args:
        table: its name.
        parts: constraints and indexes of several columns.
        options: of `sqlalchemy.Table`.
    """

    metadata: ClassVar = MetaData(naming_convention=NAMING)

    def __init_subclass__(cls, *, table: str, parts: Sequence[SchemaItem] = (), **options: Any) -> None:
        columns = {name: each for name, each in vars(cls).items() if isinstance(each, Column)}
        for name, each in columns.items():
            each.name = each.key = name
        cls.__table__ = Table(table, Base.metadata, *columns.values(), *parts, **options)


def column(kind: TypeEngine[Value] | type[TypeEngine[Value]], **options: Any) -> ColumnElement[Value]:
    """Declare a column that always has a value; the options are those of `sqlalchemy.Column`."""
    return Column(kind, nullable=False, **options)


def optional(kind: TypeEngine[Value] | type[TypeEngine[Value]]) -> ColumnElement[Value | None]:
    """Declare a column that may have no value."""
    return Column(kind)


def key() -> ColumnElement[int]:
    """Declare a key that the database numbers."""
    return Column(BigId, primary_key=True)


def reference(
    to: str, *, primary: bool = False, owned: bool = False, index: bool = False, null: bool = False
) -> ColumnElement[Any]:
    """Declare a foreign key; the rows of an owned table go with their owner."""
    target = ForeignKey(to, ondelete="CASCADE" if owned else None)
    return Column(BigId, target, primary_key=primary, index=index, nullable=null)


class Property(Base, table="property"):
    """A fact about the database itself."""

    name = column(Word, primary_key=True)
    value = column(Text)


class Device(Base, table="device"):
    """A device together with the software that drives it."""

    id = key()
    fingerprint = column(Word, unique=True)
    comparable = column(Word, index=True)
    backend = column(Word)
    ordinal = column(Integer)
    name = column(Text)
    uuid = column(Text)
    memory_bytes = column(Whole)
    identity = column(Json(dict))
    details = column(Json(dict))


class Sweep(Base, table="sweep"):
    """The trials of one command, however often it was interrupted and run again."""

    id = key()
    name = column(Text)
    experiment = column(Text)
    family = column(Text)
    baseline = column(Text)
    purpose = column(Word)
    plan_hash = column(String(128), index=True)
    command_line = column(Text)
    configuration = column(Json(dict))
    host = column(Text)
    git = column(Json(dict))
    software = column(Json(dict))
    state = column(Word)
    invocations = column(Integer)
    started_at = column(UtcTime)
    resumed_at = optional(UtcTime)
    finished_at = optional(UtcTime)
    process_host = column(Text)
    process_id = column(Whole)
    process_started = column(Real)


class Station(Base, table="station"):
    """A worker and its devices, which takes part in a sweep; its process says now and then that it is still there."""

    id = key()
    sweep_id = reference("sweep.id", owned=True, index=True)
    name = column(Text)
    process_host = column(Text)
    process_id = column(Whole)
    process_started = column(Real)
    doing = column(Text)
    joined_at = column(UtcTime)
    seen_at = column(UtcTime)
    left_at = optional(UtcTime)


class Calibration(Base, table="calibration"):
    """What was measured of a device in a sweep."""

    sweep_id = reference("sweep.id", primary=True, owned=True)
    device_id = reference("device.id", primary=True)
    backend = column(Word)
    read_bandwidth = optional(Real)
    event_overhead_ns = optional(Real)
    details = column(Json(dict))
    measured_at = column(UtcTime)


class Variant(Base, table="variant", parts=[UniqueConstraint("family", "name", "backend", "kind", "source_hash")]):
    """One implementation in one state of its source."""

    id = key()
    family = column(Text)
    name = column(Text)
    backend = column(Word)
    kind = column(Word)
    source_hash = column(Word)
    source_text = column(Text)
    description = column(Text)
    origin = column(Text)
    expected = column(Word)
    ordinal = column(Integer)


class Problem(Base, table="problem", parts=[UniqueConstraint("family", "fingerprint")]):
    """One point on the problem axes of a family."""

    id = key()
    family = column(Text)
    fingerprint = column(Word)
    label = column(Text)
    coordinates = column(Json(dict))


class Trial(Base, table="trial"):
    """One variant at one problem with one choice of tunables on one kind of device."""

    id = key()
    identity = column(Word, unique=True)
    variant_id = reference("variant.id", index=True)
    problem_id = reference("problem.id", index=True)
    device_id = reference("device.id", null=True)
    tunables = column(Json(dict))
    tunables_label = column(Text)
    label = column(Text)
    useful_bytes = optional(Whole)
    flops = optional(Whole)
    state = column(Word, server_default=text("'planned'"))
    message = column(Text, server_default=text("''"))


class Run(Base, table="run"):
    """One execution of a trial: what it came to."""

    id = key()
    trial_id = reference("trial.id", index=True)
    sweep_id = reference("sweep.id", index=True)
    device_id = reference("device.id", null=True)
    state = column(Word)
    phase = column(Word)
    message = column(Text)
    log = column(Text)
    started_at = optional(UtcTime)
    duration_ns = column(Whole)
    recorded_at = column(UtcTime)
    check_passed = optional(Boolean)
    check_error = optional(Real)
    check_error_absolute = optional(Real)
    check_error_relative = optional(Real)
    check_message = optional(Text)
    check_seed = optional(Text)
    build_registers = optional(Integer)
    build_shared_bytes = optional(Whole)
    build_spill_bytes = optional(Whole)
    build_cached = optional(Boolean)
    build_ns = optional(Whole)
    build_log = optional(Text)
    job = optional(Word)


class SweepTrial(Base, table="sweep_trial"):
    """One trial as a member of one sweep, and the run that the sweep goes by."""

    sweep_id = reference("sweep.id", primary=True, owned=True)
    trial_id = reference("trial.id", primary=True, index=True)
    ordinal = column(Integer)
    device_id = reference("device.id", null=True)
    run_id = reference("run.id", index=True, null=True)
    reused = column(Boolean, server_default=text("false"))
    unavailable_reason = optional(Text)
    unavailable_remedy = optional(Text)
    station_id = optional(BigId)


class Timing(Base, table="timing", parts=[UniqueConstraint("run_id", "measure", "method")]):
    """One measure of one run: the summary of its samples."""

    id = key()
    run_id = reference("run.id", owned=True)
    measure = column(Word)
    method = column(String(128))
    stopped_by = column(Word)
    sample_count = column(Integer)
    excluded_count = column(Integer)
    median_ns = optional(Real)
    low_ns = optional(Real)
    high_ns = optional(Real)
    confidence = optional(Real)
    mean_ns = optional(Real)
    stdev_ns = optional(Real)
    min_ns = optional(Real)
    max_ns = optional(Real)
    q1_ns = optional(Real)
    q3_ns = optional(Real)
    details = column(Json(dict))
    rotation = column(Word)
    energy_j = optional(Real)
    mean_w = optional(Real)
    idle_w = optional(Real)


class Samples(Base, table="samples"):
    """The timed executions of a timing in their order, a list a fact; the view `sample` has a row for each of them."""

    timing_id = reference("timing.id", primary=True, owned=True)
    durations_ns = column(Json(list))
    rounds = column(Json(list))
    sm_clocks_mhz = optional(Json(list))
    exclusions = optional(Json(list))


class Ranking(
    Base,
    table="ranking",
    parts=[
        Index(
            "ix_ranking_right",
            *("is_right", "sweep_id", "problem_id", "variant_id", "device_id", "measure", "method"),
            *("median_ns", "ordinal", "timing_id"),
        )
    ],
    sqlite_with_rowid=False,
):
    """What views rank by; `cuprof.store.ranking` computes it, so that no key need be looked up again."""

    sweep_id = column(BigId, primary_key=True)
    timing_id = column(BigId, primary_key=True)
    trial_id = column(BigId, index=True)
    problem_id = column(BigId)
    variant_id = column(BigId)
    device_id = column(BigId)
    measure = column(Word)
    method = column(String(128))
    median_ns = optional(Real)
    ordinal = column(Integer)
    is_right = column(Boolean)
