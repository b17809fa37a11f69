"""Samples become a list a timing, and views rank by a table of their own, since both are read by the hundred thousand.

Revision: 0006, after 0005
"""

from __future__ import annotations

import math
from itertools import groupby

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
RANKED = (
    *("is_right", "sweep_id", "problem_id", "variant_id", "device_id", "measure", "method"),
    *("median_ns", "ordinal", "timing_id"),
)


def upgrade() -> None:
    op.create_table(
        "samples",
        sa.Column("timing_id", KEY, nullable=False),
        *(sa.Column(name, sa.JSON(), nullable=False) for name in ("durations_ns", "rounds")),
        *(sa.Column(name, sa.JSON(), nullable=True) for name in ("sm_clocks_mhz", "exclusions")),
        sa.ForeignKeyConstraint(["timing_id"], ["timing.id"], name="fk_samples_timing_id_timing", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("timing_id", name="pk_samples"),
    )
    _convert(op.get_bind())
    op.drop_table("sample")
    op.create_table(
        "ranking",
        *(sa.Column(name, KEY, nullable=False) for name in ("sweep_id", "timing_id", "trial_id", "problem_id")),
        *(sa.Column(name, KEY, nullable=False) for name in ("variant_id", "device_id")),
        sa.Column("measure", sa.String(length=64), nullable=False),
        sa.Column("method", sa.String(length=128), nullable=False),
        sa.Column("median_ns", sa.Double(), nullable=True),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("is_right", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["timing_id"], ["timing.id"], name="fk_ranking_timing_id_timing", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sweep_id", "timing_id", name="pk_ranking"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_ranking_trial_id", "ranking", ["trial_id"])
    op.create_index("ix_ranking_right", "ranking", list(RANKED))


def _convert(connection: sa.Connection) -> None:
    columns = "timing_id, duration_ns, round, sm_clock_mhz, excluded"
    every = sa.text(f"SELECT {columns} FROM sample ORDER BY timing_id, ordinal")
    rows = connection.execute(every.execution_options(stream_results=True))
    names = ("durations_ns", "rounds", "sm_clocks_mhz", "exclusions")
    lists = [sa.column(name, sa.JSON(none_as_null=True)) for name in names]
    insert = sa.insert(sa.table("samples", sa.column("timing_id"), *lists))
    block = []
    for timing_id, group in groupby(rows, key=lambda row: row[0]):
        durations, rounds, clocks, exclusions = (list(column) for column in list(zip(*group, strict=True))[1:])
        block.append({
            "timing_id": timing_id,
            "durations_ns": list(map(_plain, durations)),
            "rounds": rounds,
            "sm_clocks_mhz": clocks if any(clock is not None for clock in clocks) else None,
            "exclusions": exclusions if any(exclusions) else None,
        })  # fmt: skip
        if len(block) == 1000:
            connection.execute(insert, block)
            block = []
    if block:
        connection.execute(insert, block)


def _plain(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)
