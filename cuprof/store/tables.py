"""The tables of the database; db/DICTIONARY.md says what each table and each of its columns means.

The migrations in db/migrations make the same schema; a test asserts that both agree. Import the module as `t`: a column
is then `t.run.c.state`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from cuprof.store.types import BigId, Json, Real, Text, UtcTime

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
METADATA = sa.MetaData(naming_convention=NAMING)

Word = sa.String(64)
"""A hash, or a word from a fixed list."""


def required(kind: Any, *names: str) -> list[sa.Column[Any]]:
    """Return columns of one type that always have a value."""
    return [sa.Column(name, kind, nullable=False) for name in names]


def optional(kind: Any, *names: str) -> list[sa.Column[Any]]:
    """Return columns of one type that may be NULL."""
    return [sa.Column(name, kind) for name in names]


def reference(
    name: str, to: str, *, primary: bool = False, owned: bool = False, index: bool = False, null: bool = False
) -> sa.Column[int]:
    """Return a foreign key; rows of an owned table are deleted with their owner."""
    target = sa.ForeignKey(to, ondelete="CASCADE" if owned else None)
    return sa.Column(name, BigId, target, primary_key=primary, index=index, nullable=null)


def _table(name: str, *parts: Any, **options: Any) -> sa.Table:
    return sa.Table(name, METADATA, *parts, **options)


def _numbered(name: str, *parts: Any) -> sa.Table:
    """Return a table whose rows the database numbers."""
    return _table(name, sa.Column("id", BigId, primary_key=True), *parts)


property_ = _table(
    "property",
    sa.Column("name", Word, primary_key=True, nullable=False),
    *required(Text, "value"),
)

device = _numbered(
    "device",
    sa.Column("fingerprint", Word, unique=True, nullable=False),
    sa.Column("comparable", Word, index=True, nullable=False),
    *required(Word, "backend"),
    *required(sa.Integer, "ordinal"),
    *required(Text, "name", "uuid"),
    *required(sa.BigInteger, "memory_bytes"),
    *required(Json(dict), "identity", "details"),
)

sweep = _numbered(
    "sweep",
    *required(Text, "name", "experiment", "family", "baseline"),
    *required(Word, "purpose"),
    sa.Column("plan_hash", sa.String(128), index=True, nullable=False),
    *required(Text, "command_line"),
    *required(Json(dict), "configuration"),
    *required(Text, "host"),
    *required(Json(dict), "git", "software"),
    *required(Word, "state"),
    *required(sa.Integer, "invocations"),
    *required(UtcTime, "started_at"),
    *optional(UtcTime, "resumed_at", "finished_at"),
    *required(Text, "process_host"),
    *required(sa.BigInteger, "process_id"),
    *required(Real, "process_started"),
)

station = _numbered(
    "station",
    reference("sweep_id", "sweep.id", owned=True, index=True),
    *required(Text, "name", "process_host"),
    *required(sa.BigInteger, "process_id"),
    *required(Real, "process_started"),
    *required(Text, "doing"),
    *required(UtcTime, "joined_at", "seen_at"),
    *optional(UtcTime, "left_at"),
)

calibration = _table(
    "calibration",
    reference("sweep_id", "sweep.id", primary=True, owned=True),
    reference("device_id", "device.id", primary=True),
    *required(Word, "backend"),
    *optional(Real, "read_bandwidth", "event_overhead_ns"),
    *required(Json(dict), "details"),
    *required(UtcTime, "measured_at"),
)

variant = _numbered(
    "variant",
    *required(Text, "family", "name"),
    *required(Word, "backend", "kind", "source_hash"),
    *required(Text, "source_text", "description", "origin"),
    *required(Word, "expected"),
    *required(sa.Integer, "ordinal"),
    sa.UniqueConstraint("family", "name", "backend", "kind", "source_hash"),
)

problem = _numbered(
    "problem",
    *required(Text, "family"),
    *required(Word, "fingerprint"),
    *required(Text, "label"),
    *required(Json(dict), "coordinates"),
    sa.UniqueConstraint("family", "fingerprint"),
)

trial = _numbered(
    "trial",
    sa.Column("identity", Word, unique=True, nullable=False),
    reference("variant_id", "variant.id", index=True),
    reference("problem_id", "problem.id", index=True),
    reference("device_id", "device.id", null=True),
    *required(Json(dict), "tunables"),
    *required(Text, "tunables_label", "label"),
    *optional(sa.BigInteger, "useful_bytes", "flops"),
    sa.Column("state", Word, server_default=sa.text("'planned'"), nullable=False),
    sa.Column("message", Text, server_default=sa.text("''"), nullable=False),
)

run = _numbered(
    "run",
    reference("trial_id", "trial.id", index=True),
    reference("sweep_id", "sweep.id", index=True),
    reference("device_id", "device.id", null=True),
    *required(Word, "state", "phase"),
    *required(Text, "message", "log"),
    *optional(UtcTime, "started_at"),
    *required(sa.BigInteger, "duration_ns"),
    *required(UtcTime, "recorded_at"),
    *optional(sa.Boolean, "check_passed"),
    *optional(Real, "check_error", "check_error_absolute", "check_error_relative"),
    *optional(Text, "check_message", "check_seed"),
    *optional(sa.Integer, "build_registers"),
    *optional(sa.BigInteger, "build_shared_bytes", "build_spill_bytes"),
    *optional(sa.Boolean, "build_cached"),
    *optional(sa.BigInteger, "build_ns"),
    *optional(Text, "build_log"),
    *optional(Word, "job", "build_sass_hash"),
)

sweep_trial = _table(
    "sweep_trial",
    reference("sweep_id", "sweep.id", primary=True, owned=True),
    reference("trial_id", "trial.id", primary=True, index=True),
    *required(sa.Integer, "ordinal"),
    reference("device_id", "device.id", null=True),
    reference("run_id", "run.id", index=True, null=True),
    sa.Column("reused", sa.Boolean, server_default=sa.text("false"), nullable=False),
    *optional(Text, "unavailable_reason", "unavailable_remedy"),
    *optional(BigId, "station_id"),
)

timing = _numbered(
    "timing",
    reference("run_id", "run.id", owned=True),
    *required(Word, "measure"),
    *required(sa.String(128), "method"),
    *required(Word, "stopped_by"),
    *required(sa.Integer, "sample_count", "excluded_count"),
    *optional(Real, "median_ns", "low_ns", "high_ns", "confidence", "mean_ns", "stdev_ns"),
    *optional(Real, "min_ns", "max_ns", "q1_ns", "q3_ns"),
    *required(Json(dict), "details"),
    *required(Word, "rotation"),
    *optional(Real, "energy_j", "mean_w", "idle_w"),
    sa.UniqueConstraint("run_id", "measure", "method"),
)

samples = _table(
    "samples",
    reference("timing_id", "timing.id", primary=True, owned=True),
    *required(Json(list), "durations_ns", "rounds"),
    *optional(Json(list), "sm_clocks_mhz", "exclusions"),
)

ranking = _table(
    "ranking",
    sa.Column("sweep_id", BigId, primary_key=True, nullable=False),
    sa.Column("timing_id", BigId, primary_key=True, nullable=False),
    sa.Column("trial_id", BigId, index=True, nullable=False),
    *required(BigId, "problem_id", "variant_id", "device_id"),
    *required(Word, "measure"),
    *required(sa.String(128), "method"),
    *optional(Real, "median_ns"),
    *required(sa.Integer, "ordinal"),
    *required(sa.Boolean, "is_right"),
    sa.Index(
        "ix_ranking_right",
        *("is_right", "sweep_id", "problem_id", "variant_id", "device_id", "measure", "method"),
        *("median_ns", "ordinal", "timing_id"),
    ),
    sqlite_with_rowid=False,
)

artifact = _numbered(
    "artifact",
    sa.Column("sha256", Word, unique=True, nullable=False),
    *required(Text, "path"),
    *required(Word, "kind"),
    *required(sa.BigInteger, "size_bytes"),
    *required(Word, "tool_version"),
    *required(Json(list), "command"),
)

profile = _numbered(
    "profile",
    reference("trial_id", "trial.id", index=True, null=True),
    reference("sweep_id", "sweep.id", index=True, null=True),
    reference("artifact_id", "artifact.id", null=True),
    *required(Text, "name"),
    *required(Word, "state"),
    *required(Text, "message", "log"),
    *required(Word, "metric_set"),
    *required(Json(list), "metrics"),
    *required(Json(dict), "missing"),
    *required(Word, "cache_mode"),
    *optional(UtcTime, "started_at"),
    *required(sa.BigInteger, "duration_ns"),
    *required(UtcTime, "recorded_at"),
    *required(Word, "clock_control", "replay"),
)

launch = _numbered(
    "launch",
    reference("profile_id", "profile.id", owned=True),
    *required(sa.Integer, "ordinal"),
    *required(Text, "kernel"),
    *required(sa.BigInteger, "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *optional(sa.BigInteger, "registers", "shared_static_bytes", "shared_dynamic_bytes"),
    *optional(Real, "duration_ns"),
    *required(Json(dict), "details"),
    sa.UniqueConstraint("profile_id", "ordinal"),
)

metric = _numbered(
    "metric",
    *required(sa.String(256), "name"),
    *required(Word, "unit"),
    *required(sa.String(256), "rollup"),
    *required(Text, "meaning"),
    sa.UniqueConstraint("name", "unit", "rollup"),
)

counter = _table(
    "counter",
    reference("launch_id", "launch.id", primary=True, owned=True),
    reference("metric_id", "metric.id", primary=True, index=True),
    *required(Word, "cache_mode"),
    *optional(Real, "value"),
    *optional(Text, "text"),
    *optional(Json(dict), "instances"),
    sqlite_with_rowid=False,
)

trial_counter = _table(
    "trial_counter",
    reference("profile_id", "profile.id", primary=True, owned=True),
    reference("metric_id", "metric.id", primary=True, index=True),
    reference("trial_id", "trial.id", index=True, null=True),
    *required(Word, "cache_mode"),
    *optional(Real, "value"),
    *optional(Text, "text"),
    *optional(Json(dict), "instances"),
    sqlite_with_rowid=False,
)

source_counters = _table(
    "source_counters",
    reference("launch_id", "launch.id", primary=True, owned=True),
    *required(sa.Integer, "instruction_count"),
    *required(sa.BigInteger, "sample_count", "interval_cycles", "dropped_bytes"),
    *required(Text, "sass"),
    *required(
        Json(list), "opcode_names", "opcodes", "offsets", "files", "file_numbers", "lines", "executed", "threads"
    ),
    *required(Json(dict), "stalls"),
    *optional(Json(dict), "excessive"),
)

advice = _numbered(
    "advice",
    reference("launch_id", "launch.id", owned=True),
    *required(sa.Integer, "ordinal"),
    *required(Text, "rule"),
    *required(Word, "severity"),
    *required(Text, "title", "text", "section"),
    *optional(Real, "speedup"),
    sa.UniqueConstraint("launch_id", "ordinal"),
)
