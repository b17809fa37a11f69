"""Timings know their rotation, and their energy in columns of its own.

Revision: 0002, after 0001

Timings taken before have no rotation: their rounds are no longer taken for those of others. Their energy moves from
`details`, where it was until now.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

ENERGY = ("energy_j", "mean_w", "idle_w")


def upgrade() -> None:
    with op.batch_alter_table("timing") as batch:
        batch.add_column(sa.Column("rotation", sa.String(length=64), nullable=False, server_default=""))
        for name in ENERGY:
            batch.add_column(sa.Column(name, sa.Double(), nullable=True))
    with op.batch_alter_table("timing") as batch:
        batch.alter_column("rotation", server_default=None, existing_type=sa.String(length=64), existing_nullable=False)
    _move_energy()


def _move_energy() -> None:
    numbers = [sa.column(name, sa.Double()) for name in ENERGY]
    timing = sa.table("timing", sa.column("id"), sa.column("details", sa.JSON()), *numbers)
    connection = op.get_bind()
    for key, details in connection.execute(sa.select(timing.c.id, timing.c.details)).all():
        found = {name: details.pop(name, None) for name in ENERGY} if details else {}
        if any(value is not None for value in found.values()):
            connection.execute(sa.update(timing).where(timing.c.id == key).values(details=details, **found))
