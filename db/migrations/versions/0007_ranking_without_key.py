"""What views rank by refers to no timing any more: a server took a third of the time that its rows take for looking.

The rows are computed from the timings in the transaction that changes those, and anew after every upgrade.

Revision: 0007, after 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
RANKED = (
    *("is_right", "sweep_id", "problem_id", "variant_id", "device_id", "measure", "method"),
    *("median_ns", "ordinal", "timing_id"),
)


def upgrade() -> None:
    op.drop_table("ranking")
    op.create_table(
        "ranking",
        *(sa.Column(name, KEY, nullable=False) for name in ("sweep_id", "timing_id", "trial_id", "problem_id")),
        *(sa.Column(name, KEY, nullable=False) for name in ("variant_id", "device_id")),
        sa.Column("measure", sa.String(length=64), nullable=False),
        sa.Column("method", sa.String(length=128), nullable=False),
        sa.Column("median_ns", sa.Double(), nullable=True),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("is_right", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("sweep_id", "timing_id", name="pk_ranking"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_ranking_trial_id", "ranking", ["trial_id"])
    op.create_index("ix_ranking_right", "ranking", list(RANKED))
