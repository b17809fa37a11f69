"""No command line, configuration or report's command that was stored before tells a password.

Revision: 0004, after 0003

Until now only what stood between the colon and the "@" of a well-formed URL was taken out.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cuprof.core.text import hide_in_command, hide_in_data

revision = "0004"
down_revision = "0003"

COLUMNS = {
    ("sweep", "command_line", sa.Text()): hide_in_command,
    ("sweep", "configuration", sa.JSON()): hide_in_data,
    ("artifact", "command", sa.JSON()): hide_in_data,
}
"""Table, column and type of what may hold one → how it is taken out."""


def upgrade() -> None:
    connection = op.get_bind()
    for (name, column, kind), hide in COLUMNS.items():
        table = sa.table(name, sa.column("id"), sa.column(column, kind))
        for key, value in connection.execute(sa.select(table.c.id, table.c[column])).all():
            if (hidden := hide(value) if value else value) != value:
                connection.execute(sa.update(table).where(table.c.id == key).values({column: hidden}))
