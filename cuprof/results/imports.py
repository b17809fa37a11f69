"""What taking in reports asks of the database: which trials it knows, and what has been taken in already."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.store import tables as t
from cuprof.store.rows import chunks


def read_known(connection: Connection, identities: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return identity → label of those trials that are stored, and identity → device's model, empty if unknown."""
    labels: dict[str, str] = {}
    devices: dict[str, str] = {}
    for chunk in chunks(list(dict.fromkeys(identities))):
        rows = connection.execute(
            sa.select(t.trial.c.identity, t.trial.c.label, t.device.c.name)
            .outerjoin(t.device, t.device.c.id == t.trial.c.device_id)
            .where(t.trial.c.identity.in_(chunk))
        )
        for identity, label, device in rows:
            labels[identity], devices[identity] = label, device or ""
    return labels, devices


def list_taken_in(connection: Connection, sha256: str) -> set[tuple[str, str]]:
    """Return whose counters are stored from the report with this hash, and in which cache mode.

    The owner is the trial's identity, or the profile's name where it belongs to no trial.
    """
    rows = connection.execute(
        sa.select(t.trial.c.identity, t.profile.c.name, t.profile.c.cache_mode)
        .select_from(t.profile)
        .join(t.artifact, t.artifact.c.id == t.profile.c.artifact_id)
        .outerjoin(t.trial, t.trial.c.id == t.profile.c.trial_id)
        .where(t.artifact.c.sha256 == sha256)
    )
    return {(identity or name, cache_mode) for identity, name, cache_mode in rows}
