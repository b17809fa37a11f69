"""Whether a sweep's times agree with those of earlier sweeps, as trials that both have measured show."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import State
from cuprof.store import tables as t

HOST = {"cpu": 0.14, "program": 0.14}
"""How much a time of the host may differ from sweep to sweep, as a share: two standard deviations of the difference of
two times that vary by 5 % each (docs/comparing.md, "assumed")."""
DEVICE, DEVICE_NS = 0.01, 210.0
"""The same for a device's: a share, and nanoseconds, as for kernels that vary by 75 ns each."""


@dataclass(frozen=True)
class Agreement:
    """What trials that two sweeps have measured show of the two.

    Args:
        sweep_id: the earlier sweep.
        controls: how many trials both have measured by the same method.
        farthest: the ratio of the later to the earlier time that is farthest from 1.
        label: of that trial.
        agrees: every ratio is within what the two intervals and the usual variation from sweep to sweep allow.
    """

    sweep_id: int
    controls: int
    farthest: float
    label: str
    agrees: bool

    def __str__(self) -> str:
        farthest = f"{100 * abs(self.farthest - 1):.1f} % ({self.label})"
        return f"by at most {farthest}" if self.agrees else f"by {farthest}"


def compare_sessions(connection: Connection, sweep_id: int) -> list[Agreement]:
    """Return one agreement for each earlier sweep that this one takes trials over from, where both share trials."""
    now, then, before = t.run.alias("now"), t.run.alias("then"), t.run.alias("before")
    new, old = t.timing.alias("new"), t.timing.alias("old")
    lenders = (
        sa.select(before.c.sweep_id)
        .join(t.sweep_trial, t.sweep_trial.c.run_id == before.c.id)
        .where(t.sweep_trial.c.sweep_id == sweep_id, before.c.sweep_id != sweep_id)
        .distinct()
    )
    same = sa.and_(old.c.run_id == then.c.id, old.c.measure == new.c.measure, old.c.method == new.c.method)
    rows = connection.execute(
        sa.select(
            then.c.sweep_id, t.trial.c.label, t.variant.c.backend, new.c.median_ns, new.c.high_ns - new.c.low_ns,
            old.c.median_ns, old.c.high_ns - old.c.low_ns,
        )
        .select_from(now)
        .join(then, sa.and_(then.c.trial_id == now.c.trial_id, then.c.sweep_id.in_(lenders)))
        .join(new, new.c.run_id == now.c.id)
        .join(old, same)
        .join(t.trial, t.trial.c.id == now.c.trial_id)
        .join(t.variant, t.variant.c.id == t.trial.c.variant_id)
        .where(now.c.sweep_id == sweep_id, now.c.state == str(State.OK), then.c.state == str(State.OK))
        .where(new.c.median_ns > 0, old.c.median_ns > 0)
        .order_by(then.c.id)
    )  # fmt: skip
    by_sweep: dict[int, list[tuple[float, float, str]]] = defaultdict(list)
    for earlier, label, backend, *times in rows:
        by_sweep[earlier].append((*_compare(backend, *(float(each or 0.0) for each in times)), label))
    return [
        Agreement(earlier, len(controls), ratio, label, excess <= 0)
        for earlier, controls in by_sweep.items()
        for excess, ratio, label in [max(controls)]
    ]


def _compare(backend: str, new_ns: float, new_width_ns: float, old_ns: float, old_width_ns: float) -> tuple[float, ...]:
    """Return how far the difference of two times exceeds the limit, and their ratio."""
    usual = HOST.get(backend)
    allowed = usual * old_ns if usual else max(DEVICE * old_ns, DEVICE_NS)
    return abs(new_ns - old_ns) - math.hypot(allowed, new_width_ns / 2, old_width_ns / 2), new_ns / old_ns
