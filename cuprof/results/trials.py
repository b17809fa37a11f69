"""Single facts of the trials of sweeps, for callers that do not need the whole results frame."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.store import tables as t


def list_variant_names(connection: Connection, sweep_ids: Collection[int]) -> list[str]:
    """Return the names of the variants that are members of these sweeps."""
    members = sa.select(t.trial.c.variant_id).join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
    chosen = members.where(t.sweep_trial.c.sweep_id.in_(sweep_ids))
    return list(connection.scalars(sa.select(t.variant.c.name).where(t.variant.c.id.in_(chosen)).distinct()))


def list_medians(connection: Connection, sweep_id: int) -> dict[str, dict[str, float | None]]:
    """Return the medians in ns of the runs that a sweep goes by: trial's identity → measure → median."""
    rows = connection.execute(
        sa.select(t.trial.c.identity, t.timing.c.measure, t.timing.c.median_ns)
        .join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
        .join(t.timing, t.timing.c.run_id == t.sweep_trial.c.run_id)
        .where(t.sweep_trial.c.sweep_id == sweep_id)
    )
    found: dict[str, dict[str, float | None]] = {}
    for identity, measure, median_ns in rows:
        found.setdefault(identity, {})[measure] = median_ns
    return found


def list_tried(connection: Connection, sweep_id: int) -> set[str]:
    """Return the identities of a sweep's trials that it has a run of."""
    tried = sa.select(t.trial.c.identity).join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
    return set(
        connection.scalars(tried.where(t.sweep_trial.c.sweep_id == sweep_id, t.sweep_trial.c.run_id.is_not(None)))
    )
