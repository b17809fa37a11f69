"""Counters by machine instruction, with the source line that each instruction comes from.

Revision: 0008, after 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LISTS = ("opcode_names", "opcodes", "offsets", "files", "file_numbers", "lines", "executed", "threads", "stalls")


def upgrade() -> None:
    op.create_table(
        "source_counters",
        sa.Column("launch_id", KEY, nullable=False),
        sa.Column("instruction_count", sa.Integer(), nullable=False),
        sa.Column("sample_count", sa.BigInteger(), nullable=False),
        sa.Column("interval_cycles", sa.BigInteger(), nullable=False),
        sa.Column("dropped_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sass", sa.Text(), nullable=False),
        *(sa.Column(name, sa.JSON(), nullable=False) for name in LISTS),
        sa.ForeignKeyConstraint(
            ["launch_id"], ["launch.id"], name="fk_source_counters_launch_id_launch", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("launch_id", name="pk_source_counters"),
    )
    with op.batch_alter_table("run") as batch:
        batch.add_column(sa.Column("build_sass_hash", sa.String(length=64), nullable=True))
