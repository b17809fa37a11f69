"""How stored trials are called."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.store.models import Trial
from cuprof.store.rows import chunks


def read_labels(connection: Connection, identities: Sequence[str]) -> dict[str, str]:
    """Return identity → label of those of the trials that are stored."""
    found: dict[str, str] = {}
    for chunk in chunks(list(dict.fromkeys(identities))):
        rows = connection.execute(sa.select(Trial.identity, Trial.label).where(Trial.identity.in_(chunk)))
        found |= {row.identity: row.label for row in rows}
    return found
