"""Timings know their rotation and energy, profiles the clock control and replay mode that they were made under.

Revision: 0002, after 0001

Timings taken before have no rotation: their rounds are no longer taken for those of others. Their energy moves from
`details`, where it was until now. What profiles were made under is read from the command that their report keeps.
"""

from __future__ import annotations

from itertools import pairwise

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

ENERGY = ("energy_j", "mean_w", "idle_w")
CONDITIONS = {"clock_control": "--clock-control", "replay": "--replay-mode"}


def upgrade() -> None:
    with op.batch_alter_table("timing") as batch:
        batch.add_column(sa.Column("rotation", sa.String(length=64), nullable=False, server_default=""))
        for name in ENERGY:
            batch.add_column(sa.Column(name, sa.Double(), nullable=True))
    with op.batch_alter_table("timing") as batch:
        batch.alter_column("rotation", server_default=None, existing_type=sa.String(length=64), existing_nullable=False)
    with op.batch_alter_table("profile") as batch:
        for name in CONDITIONS:
            batch.add_column(sa.Column(name, sa.String(length=64), nullable=False, server_default=""))
    with op.batch_alter_table("profile") as batch:
        for name in CONDITIONS:
            batch.alter_column(name, server_default=None, existing_type=sa.String(length=64), existing_nullable=False)
    _move_energy()
    _read_conditions()


def _move_energy() -> None:
    numbers = [sa.column(name, sa.Double()) for name in ENERGY]
    timing = sa.table("timing", sa.column("id"), sa.column("details", sa.JSON()), *numbers)
    connection = op.get_bind()
    for key, details in connection.execute(sa.select(timing.c.id, timing.c.details)).all():
        found = {name: details.pop(name, None) for name in ENERGY} if details else {}
        if any(value is not None for value in found.values()):
            connection.execute(sa.update(timing).where(timing.c.id == key).values(details=details, **found))


def _read_conditions() -> None:
    columns = [sa.column(name, sa.String()) for name in CONDITIONS]
    profile = sa.table("profile", sa.column("id"), sa.column("artifact_id"), *columns)
    artifact = sa.table("artifact", sa.column("id"), sa.column("command", sa.JSON()))
    made_by = sa.select(profile.c.id, artifact.c.command).join(artifact, artifact.c.id == profile.c.artifact_id)
    connection = op.get_bind()
    for key, command in connection.execute(made_by).all():
        following = dict(pairwise(command))
        found = {name: following[option] for name, option in CONDITIONS.items() if option in following}
        if found:
            connection.execute(sa.update(profile).where(profile.c.id == key).values(**found))
