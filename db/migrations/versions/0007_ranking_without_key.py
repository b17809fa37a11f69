"""What views rank by refers to no timing any more: a server took a third of the time that its rows take for looking.

The rows are computed from the timings in the transaction that changes those, and anew after every upgrade.

Revision: 0007, after 0006
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    with op.batch_alter_table("ranking", table_kwargs={"sqlite_with_rowid": False}) as table:
        table.drop_constraint("fk_ranking_timing_id_timing", type_="foreignkey")
