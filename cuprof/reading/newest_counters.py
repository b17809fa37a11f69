"""The newest value of each counter of some trials, taken under the same conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.records import Conditions
from cuprof.store import counter_models as tables
from cuprof.store.models import Trial
from cuprof.store.rows import chunks


class NewestCounter(NamedTuple):
    """One metric of one trial, rolled up over its launches; `value` is None for text or no number."""

    identity: str
    metric: str
    unit: str
    value: float | None
    text: str


def list_newest_counters(
    connection: Connection, identities: Sequence[str], conditions: Conditions
) -> list[NewestCounter]:
    """Return one value a trial and metric, that of the newest profile; in no order that means anything."""
    profile, metric, rolled = tables.Profile, tables.Metric, tables.TrialCounter
    found: dict[tuple[str, str], NewestCounter] = {}
    for chunk in chunks(list(dict.fromkeys(identities))):
        rows = connection.execute(
            sa.select(Trial.identity, metric.name, metric.unit, rolled.value, rolled.text)
            .join(profile, profile.trial_id == Trial.id)
            .join(rolled, rolled.profile_id == profile.id)
            .join(metric, metric.id == rolled.metric_id)
            .where(
                Trial.identity.in_(chunk),
                rolled.cache_mode == conditions.cache_mode,
                profile.clock_control == conditions.clock_control,
                profile.replay == conditions.replay,
            )
            .order_by(profile.id)
        )
        for identity, name, unit, value, text in rows:
            found[identity, name] = NewestCounter(identity, name, unit or "", value, text or "")
    return list(found.values())
