"""Read the stored times of a family's variants, from any sweep, and tell whether they still hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.results.sweeps import MEMBERS, as_record, is_outdated
from cuprof.store import tables as t


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """One run of one trial, with one measure's time where it has one.

    Args:
        samples: that count in the time; 0 where there is none.
        high_ns: the upper end of the interval of the time's median, which `confidence` is of.
        started_at: seconds since 1970; 0 where that is not stored.
        circumstances: equal for runs of one variant's text, problem and device; where the method is the same as well,
            their times say directly which of two tunables is better.
    """

    identity: str
    variant: str
    problem: Point
    tunables: Point
    sweep_id: int
    state: State
    is_expected_wrong: bool
    duration_ns: int
    circumstances: tuple[Any, ...]
    device: str = ""
    method: str = ""
    samples: int = 0
    median_ns: float | None = None
    high_ns: float | None = None
    confidence: float = 0.0
    energy_j: float | None = None
    started_at: float = 0.0


def list_earlier(
    connection: Connection, family: str, measure: Measure, variants: Collection[str] = (), *, newest: bool = False
) -> list[EarlierRun]:
    """Return every run of a family, or of some variants, that was more than skipped, in the order of their storing.

    Args:
        newest: of each variant on a device only those of the source that its newest sweep there went by.
    """
    run, timing = t.run.c, t.timing.c
    chosen = [t.variant.c.name.in_(variants)] if variants else []
    facts: list[Any] = [run[name] for name in ("sweep_id", "state", "started_at", "duration_ns")]
    facts += [timing[name] for name in ("method", "median_ns", "high_ns", "confidence", "energy_j")]
    facts += [t.device.c.name.label("device"), timing.sample_count.label("samples")]
    facts += [t.problem.c.coordinates.label("problem"), (t.variant.c.expected == "wrong").label("is_expected_wrong")]
    circumstances = (t.variant.c.name.label("variant"), t.variant.c.source_hash, t.problem.c.id, run.device_id)
    rows = connection.execute(
        sa.select(t.trial.c.identity, t.trial.c.tunables, *facts, *circumstances)
        .join(t.variant, t.variant.c.id == t.trial.c.variant_id)
        .join(t.problem, t.problem.c.id == t.trial.c.problem_id)
        .join(t.run, run.trial_id == t.trial.c.id)
        .outerjoin(t.timing, sa.and_(timing.run_id == run.id, timing.measure == str(measure)))
        .outerjoin(t.device, t.device.c.id == run.device_id)
        .where(t.variant.c.family == family, *chosen, run.state != str(State.SKIPPED))
        .order_by(run.id)
    )
    runs = [as_record(row, EarlierRun, circumstances=tuple(row[-len(circumstances) :])) for row in rows]
    if not newest:
        return runs
    current = _list_current(connection, family)
    return [run for run in runs if (run.variant, run.circumstances[1], run.device) in current]


def _list_current(connection: Connection, family: str) -> set[tuple[str, str, str]]:
    """Return (variant, source's hash, device) of what each variant's newest sweep on each device went by.

    Not of its newest run: where an edit has been taken back, the sweep finds everything stored.
    """
    device = sa.func.coalesce(t.device.c.name, "").label("device")
    rows = connection.execute(
        MEMBERS.with_only_columns(t.variant.c.name, t.variant.c.source_hash, device, t.sweep.c.id, t.sweep.c.started_at)
        .join(t.sweep, t.sweep.c.id == t.sweep_trial.c.sweep_id)
        .outerjoin(t.device, t.device.c.id == t.run.c.device_id)
        .where(t.variant.c.family == family, t.run.c.state != str(State.SKIPPED))
        .distinct()
        .order_by(t.sweep.c.started_at, t.sweep.c.id)
    ).all()
    newest = {(variant, where): sweep_id for variant, _, where, sweep_id, _ in rows}
    return {(variant, text, where) for variant, text, where, sweep_id, _ in rows if newest[variant, where] == sweep_id}


def count_outdated(connection: Connection, family: str) -> int:
    """Return the stored trials of a family whose identities are of an earlier version, until it has newer ones."""
    has_run = t.sweep_trial.c.run_id.is_not(None)
    tried = sa.exists().where(t.sweep_trial.c.sweep_id == t.sweep.c.id, has_run)
    sweeps = sa.select(t.sweep.c.id, t.sweep.c.software).where(t.sweep.c.family == family, tried)
    stored = {sweep_id: is_outdated(software) for sweep_id, software in connection.execute(sweeps)}
    if not all(stored.values()):
        return 0
    trials = sa.select(sa.func.count(t.sweep_trial.c.trial_id.distinct()))
    return connection.scalar(trials.where(t.sweep_trial.c.sweep_id.in_(stored), has_run)) or 0


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
        farthest: the ratio of the later to the earlier time that is farthest from 1; `label` is that trial's.
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
