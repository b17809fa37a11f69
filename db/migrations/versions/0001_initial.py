"""Make every table: sweeps, trials, timings, and hardware counters.

Revision: 0001, the first
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "artifact",
        sa.Column("id", KEY, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("tool_version", sa.String(length=64), nullable=False),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_artifact"),
        sa.UniqueConstraint("sha256", name="uq_artifact_sha256"),
    )
    op.create_table(
        "device",
        sa.Column("id", KEY, nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("comparable", sa.String(length=64), nullable=False),
        sa.Column("backend", sa.String(length=64), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("identity", sa.JSON(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_device"),
        sa.UniqueConstraint("fingerprint", name="uq_device_fingerprint"),
    )
    op.create_index("ix_device_comparable", "device", ["comparable"])

    op.create_table(
        "metric",
        sa.Column("id", KEY, nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("unit", sa.String(length=64), nullable=False),
        sa.Column("rollup", sa.String(length=256), nullable=False),
        sa.Column("meaning", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_metric"),
        sa.UniqueConstraint("name", "unit", "rollup", name="uq_metric_name_unit_rollup"),
    )
    op.create_table(
        "problem",
        sa.Column("id", KEY, nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("coordinates", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_problem"),
        sa.UniqueConstraint("family", "fingerprint", name="uq_problem_family_fingerprint"),
    )
    op.create_table(
        "property",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_property"),
    )
    op.create_table(
        "sweep",
        sa.Column("id", KEY, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("baseline", sa.Text(), nullable=False),
        sa.Column("purpose", sa.String(length=64), nullable=False),
        sa.Column("plan_hash", sa.String(length=128), nullable=False),
        sa.Column("command_line", sa.Text(), nullable=False),
        sa.Column("configuration", sa.JSON(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("git", sa.JSON(), nullable=False),
        sa.Column("software", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("invocations", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("resumed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("process_host", sa.Text(), nullable=False),
        sa.Column("process_id", sa.BigInteger(), nullable=False),
        sa.Column("process_started", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sweep"),
    )
    op.create_index("ix_sweep_plan_hash", "sweep", ["plan_hash"])

    op.create_table(
        "variant",
        sa.Column("id", KEY, nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("backend", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("source_hash", sa.String(length=64), nullable=False),
        sa.Column("source_text", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("expected", sa.String(length=64), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_variant"),
        sa.UniqueConstraint(
            "family", "name", "backend", "kind", "source_hash", name="uq_variant_family_name_backend_kind_source_hash"
        ),
    )
    op.create_table(
        "calibration",
        sa.Column("sweep_id", KEY, nullable=False),
        sa.Column("device_id", KEY, nullable=False),
        sa.Column("backend", sa.String(length=64), nullable=False),
        sa.Column("read_bandwidth", sa.Double(), nullable=True),
        sa.Column("event_overhead_ns", sa.Double(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_calibration_device_id_device"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], name="fk_calibration_sweep_id_sweep", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sweep_id", "device_id", name="pk_calibration"),
    )
    op.create_table(
        "trial",
        sa.Column("id", KEY, nullable=False),
        sa.Column("identity", sa.String(length=64), nullable=False),
        sa.Column("variant_id", KEY, nullable=False),
        sa.Column("problem_id", KEY, nullable=False),
        sa.Column("device_id", KEY, nullable=True),
        sa.Column("tunables", sa.JSON(), nullable=False),
        sa.Column("tunables_label", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("useful_bytes", sa.BigInteger(), nullable=True),
        sa.Column("flops", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(length=64), server_default=sa.text("'planned'"), nullable=False),
        sa.Column("message", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_trial_device_id_device"),
        sa.ForeignKeyConstraint(["problem_id"], ["problem.id"], name="fk_trial_problem_id_problem"),
        sa.ForeignKeyConstraint(["variant_id"], ["variant.id"], name="fk_trial_variant_id_variant"),
        sa.PrimaryKeyConstraint("id", name="pk_trial"),
        sa.UniqueConstraint("identity", name="uq_trial_identity"),
    )
    op.create_index("ix_trial_problem_id", "trial", ["problem_id"])
    op.create_index("ix_trial_variant_id", "trial", ["variant_id"])

    op.create_table(
        "profile",
        sa.Column("id", KEY, nullable=False),
        sa.Column("trial_id", KEY, nullable=True),
        sa.Column("sweep_id", KEY, nullable=True),
        sa.Column("artifact_id", KEY, nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("metric_set", sa.String(length=64), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("missing", sa.JSON(), nullable=False),
        sa.Column("cache_mode", sa.String(length=64), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("duration_ns", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["artifact_id"], ["artifact.id"], name="fk_profile_artifact_id_artifact"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], name="fk_profile_sweep_id_sweep"),
        sa.ForeignKeyConstraint(["trial_id"], ["trial.id"], name="fk_profile_trial_id_trial"),
        sa.PrimaryKeyConstraint("id", name="pk_profile"),
    )
    op.create_index("ix_profile_sweep_id", "profile", ["sweep_id"])
    op.create_index("ix_profile_trial_id", "profile", ["trial_id"])

    op.create_table(
        "run",
        sa.Column("id", KEY, nullable=False),
        sa.Column("trial_id", KEY, nullable=False),
        sa.Column("sweep_id", KEY, nullable=False),
        sa.Column("device_id", KEY, nullable=True),
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("phase", sa.String(length=64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("duration_ns", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("check_passed", sa.Boolean(), nullable=True),
        sa.Column("check_error", sa.Double(), nullable=True),
        sa.Column("check_error_absolute", sa.Double(), nullable=True),
        sa.Column("check_error_relative", sa.Double(), nullable=True),
        sa.Column("check_message", sa.Text(), nullable=True),
        sa.Column("check_seed", sa.Text(), nullable=True),
        sa.Column("build_registers", sa.Integer(), nullable=True),
        sa.Column("build_shared_bytes", sa.BigInteger(), nullable=True),
        sa.Column("build_spill_bytes", sa.BigInteger(), nullable=True),
        sa.Column("build_cached", sa.Boolean(), nullable=True),
        sa.Column("build_ns", sa.BigInteger(), nullable=True),
        sa.Column("build_log", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_run_device_id_device"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], name="fk_run_sweep_id_sweep"),
        sa.ForeignKeyConstraint(["trial_id"], ["trial.id"], name="fk_run_trial_id_trial"),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
    )
    op.create_index("ix_run_sweep_id", "run", ["sweep_id"])
    op.create_index("ix_run_trial_id", "run", ["trial_id"])

    op.create_table(
        "launch",
        sa.Column("id", KEY, nullable=False),
        sa.Column("profile_id", KEY, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=False),
        sa.Column("grid_x", sa.BigInteger(), nullable=False),
        sa.Column("grid_y", sa.BigInteger(), nullable=False),
        sa.Column("grid_z", sa.BigInteger(), nullable=False),
        sa.Column("block_x", sa.BigInteger(), nullable=False),
        sa.Column("block_y", sa.BigInteger(), nullable=False),
        sa.Column("block_z", sa.BigInteger(), nullable=False),
        sa.Column("registers", sa.BigInteger(), nullable=True),
        sa.Column("shared_static_bytes", sa.BigInteger(), nullable=True),
        sa.Column("shared_dynamic_bytes", sa.BigInteger(), nullable=True),
        sa.Column("duration_ns", sa.Double(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name="fk_launch_profile_id_profile", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_launch"),
        sa.UniqueConstraint("profile_id", "ordinal", name="uq_launch_profile_id_ordinal"),
    )
    op.create_table(
        "sweep_trial",
        sa.Column("sweep_id", KEY, nullable=False),
        sa.Column("trial_id", KEY, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("device_id", KEY, nullable=True),
        sa.Column("run_id", KEY, nullable=True),
        sa.Column("reused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("unavailable_reason", sa.Text(), nullable=True),
        sa.Column("unavailable_remedy", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_sweep_trial_device_id_device"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_sweep_trial_run_id_run"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], name="fk_sweep_trial_sweep_id_sweep", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["trial_id"], ["trial.id"], name="fk_sweep_trial_trial_id_trial"),
        sa.PrimaryKeyConstraint("sweep_id", "trial_id", name="pk_sweep_trial"),
    )
    op.create_index("ix_sweep_trial_run_id", "sweep_trial", ["run_id"])
    op.create_index("ix_sweep_trial_trial_id", "sweep_trial", ["trial_id"])

    op.create_table(
        "timing",
        sa.Column("id", KEY, nullable=False),
        sa.Column("run_id", KEY, nullable=False),
        sa.Column("measure", sa.String(length=64), nullable=False),
        sa.Column("method", sa.String(length=128), nullable=False),
        sa.Column("stopped_by", sa.String(length=64), nullable=False),
        sa.Column("sample_count", sa.Integer(), nullable=False),
        sa.Column("excluded_count", sa.Integer(), nullable=False),
        sa.Column("median_ns", sa.Double(), nullable=True),
        sa.Column("low_ns", sa.Double(), nullable=True),
        sa.Column("high_ns", sa.Double(), nullable=True),
        sa.Column("confidence", sa.Double(), nullable=True),
        sa.Column("mean_ns", sa.Double(), nullable=True),
        sa.Column("stdev_ns", sa.Double(), nullable=True),
        sa.Column("min_ns", sa.Double(), nullable=True),
        sa.Column("max_ns", sa.Double(), nullable=True),
        sa.Column("q1_ns", sa.Double(), nullable=True),
        sa.Column("q3_ns", sa.Double(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_timing_run_id_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_timing"),
        sa.UniqueConstraint("run_id", "measure", "method", name="uq_timing_run_id_measure_method"),
    )
    op.create_table(
        "trial_counter",
        sa.Column("profile_id", KEY, nullable=False),
        sa.Column("metric_id", KEY, nullable=False),
        sa.Column("trial_id", KEY, nullable=True),
        sa.Column("cache_mode", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("instances", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["metric_id"], ["metric.id"], name="fk_trial_counter_metric_id_metric"),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name="fk_trial_counter_profile_id_profile", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["trial_id"], ["trial.id"], name="fk_trial_counter_trial_id_trial"),
        sa.PrimaryKeyConstraint("profile_id", "metric_id", name="pk_trial_counter"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_trial_counter_metric_id", "trial_counter", ["metric_id"])
    op.create_index("ix_trial_counter_trial_id", "trial_counter", ["trial_id"])

    op.create_table(
        "counter",
        sa.Column("launch_id", KEY, nullable=False),
        sa.Column("metric_id", KEY, nullable=False),
        sa.Column("cache_mode", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("instances", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["launch_id"], ["launch.id"], name="fk_counter_launch_id_launch", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["metric_id"], ["metric.id"], name="fk_counter_metric_id_metric"),
        sa.PrimaryKeyConstraint("launch_id", "metric_id", name="pk_counter"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_counter_metric_id", "counter", ["metric_id"])

    op.create_table(
        "finding",
        sa.Column("id", KEY, nullable=False),
        sa.Column("launch_id", KEY, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("severity", sa.String(length=64), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("section", sa.Text(), nullable=False),
        sa.Column("speedup", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["launch_id"], ["launch.id"], name="fk_finding_launch_id_launch", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_finding"),
        sa.UniqueConstraint("launch_id", "ordinal", name="uq_finding_launch_id_ordinal"),
    )
    op.create_table(
        "sample",
        sa.Column("timing_id", KEY, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("duration_ns", sa.Double(), nullable=True),
        sa.Column("sm_clock_mhz", sa.Double(), nullable=True),
        sa.Column("excluded", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["timing_id"], ["timing.id"], name="fk_sample_timing_id_timing", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("timing_id", "ordinal", name="pk_sample"),
        sqlite_with_rowid=False,
    )
