"""What taking in reports asks of the database: which device a trial is of, and what has been taken in already."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.store.counter_models import Artifact, Profile
from cuprof.store.models import Device, Trial
from cuprof.store.rows import chunks


def trial_devices(connection: Connection, identities: Sequence[str]) -> dict[str, str]:
    """Return the device of each stored trial that has one; see `Store.trial_devices`."""
    found: dict[str, str] = {}
    for chunk in chunks(list(dict.fromkeys(identities))):
        rows = connection.execute(
            sa.select(Trial.identity, Device.name)
            .join(Device, Device.id == Trial.device_id)
            .where(Trial.identity.in_(chunk))
        )
        found |= {row.identity: row.name for row in rows}
    return found


def taken_in(connection: Connection, sha256: str) -> set[tuple[str, str]]:
    """Return whose counters of a report are stored, and in which cache mode; see `Store.taken_in`."""
    rows = connection.execute(
        sa.select(Trial.identity, Profile.name, Profile.cache_mode)
        .select_from(Profile)
        .join(Artifact, Artifact.id == Profile.artifact_id)
        .outerjoin(Trial, Trial.id == Profile.trial_id)
        .where(Artifact.sha256 == sha256)
    )
    return {(identity or name, cache_mode) for identity, name, cache_mode in rows}
