"""Several processes, on several hosts, share one sweep: who works on it, and who has claimed which trial.

Revision: 0005, after 0004

Runs that were made before do not tell which job they were measured in.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "station",
        sa.Column("id", KEY, nullable=False),
        sa.Column("sweep_id", KEY, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("process_host", sa.Text(), nullable=False),
        sa.Column("process_id", sa.BigInteger(), nullable=False),
        sa.Column("process_started", sa.Double(), nullable=False),
        sa.Column("doing", sa.Text(), nullable=False),
        sa.Column("joined_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("left_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], name="fk_station_sweep_id_sweep", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_station"),
    )
    op.create_index("ix_station_sweep_id", "station", ["sweep_id"])
    with op.batch_alter_table("sweep_trial") as batch:
        batch.add_column(sa.Column("station_id", KEY, nullable=True))
    with op.batch_alter_table("run") as batch:
        batch.add_column(sa.Column("job", sa.String(length=64), nullable=True))
