"""By machine instruction, the wavefronts and sectors that its accesses take beyond what they need.

Revision: 0009, after 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    with op.batch_alter_table("source_counters") as batch:
        batch.add_column(sa.Column("excessive", sa.JSON(), nullable=True))
