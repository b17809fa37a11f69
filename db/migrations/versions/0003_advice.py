"""A profiler's advice is no finding: a finding is what people concluded of a study.

Revision: 0003, after 0002

The table `finding` becomes `advice`; its rows and their keys stay as they are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
CONSTRAINTS = {
    "pk_finding": "pk_advice",
    "fk_finding_launch_id_launch": "fk_advice_launch_id_launch",
    "uq_finding_launch_id_ordinal": "uq_advice_launch_id_ordinal",
}


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.rename_table("finding", "advice")
        op.execute("ALTER SEQUENCE finding_id_seq RENAME TO advice_id_seq")
        for old, new in CONSTRAINTS.items():
            op.execute(f"ALTER TABLE advice RENAME CONSTRAINT {old} TO {new}")
        return
    # SQLite renames a table but not its constraints.
    op.create_table(
        "advice",
        sa.Column("id", KEY, nullable=False),
        sa.Column("launch_id", KEY, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("severity", sa.String(length=64), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("section", sa.Text(), nullable=False),
        sa.Column("speedup", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["launch_id"], ["launch.id"], name="fk_advice_launch_id_launch", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_advice"),
        sa.UniqueConstraint("launch_id", "ordinal", name="uq_advice_launch_id_ordinal"),
    )
    columns = "id, launch_id, ordinal, rule, severity, title, text, section, speedup"
    op.execute(f"INSERT INTO advice ({columns}) SELECT {columns} FROM finding")
    op.drop_table("finding")
