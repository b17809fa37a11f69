"""Single facts of the trials of sweeps, for callers that do not need the whole results frame."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import State
from cuprof.store import tables as t
from cuprof.store.rows import among


def list_variant_names(connection: Connection, sweep_ids: Collection[int]) -> list[str]:
    """Return the names of the variants that are members of these sweeps."""
    members = sa.select(t.trial.c.variant_id).join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
    chosen = members.where(t.sweep_trial.c.sweep_id.in_(sweep_ids))
    return list(connection.scalars(sa.select(t.variant.c.name).where(t.variant.c.id.in_(chosen)).distinct()))


def list_ends(connection: Connection, sweep_id: int) -> list[tuple[int, State, str]]:
    """Return place, state and message of a sweep's trials that may have ended otherwise than expected."""
    wrong = sa.select(t.trial.c.id).join(t.variant, t.variant.c.id == t.trial.c.variant_id)
    wrong = wrong.where(t.variant.c.expected == "wrong")
    is_odd = (t.run.c.state != State.OK.value) | t.run.c.trial_id.in_(wrong)
    chosen = sa.select(t.run.c.id, t.run.c.state, t.run.c.message).where(t.run.c.sweep_id == sweep_id, is_odd)
    ends = {key: (State(state), message) for key, state, message in connection.execute(chosen)}
    places = sa.select(t.sweep_trial.c.ordinal, t.sweep_trial.c.run_id).where(t.sweep_trial.c.sweep_id == sweep_id)
    rows = connection.execute(places.where(among(connection, t.sweep_trial.c.run_id, ends)))
    return [(place, *ends[key]) for place, key in rows]


def list_tried(connection: Connection, sweep_id: int) -> set[str]:
    """Return the identities of a sweep's trials that it has a run of."""
    tried = sa.select(t.trial.c.identity).join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
    return set(
        connection.scalars(tried.where(t.sweep_trial.c.sweep_id == sweep_id, t.sweep_trial.c.run_id.is_not(None)))
    )


def read_known(connection: Connection, identities: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return identity → label of those trials that are stored, and identity → device's model, empty if unknown."""
    rows = connection.execute(
        sa.select(t.trial.c.identity, t.trial.c.label, sa.func.coalesce(t.device.c.name, ""))
        .outerjoin(t.device, t.device.c.id == t.trial.c.device_id)
        .where(among(connection, t.trial.c.identity, identities))
    ).all()
    return {identity: label for identity, label, _ in rows}, {identity: device for identity, _, device in rows}


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
