"""Trials as members of sweeps, and their stored state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import FAILED, DeviceFacts, Measure, State, StoredTrial, Trial
from cuprof.store import ranking, sweeps
from cuprof.store import tables as t
from cuprof.store.rows import among, columns_of, save, upsert
from cuprof.store.types import fingerprint

VARIANT_KEY = ("family", "name", "backend", "kind", "source_hash")
_variant_key = attrgetter("family", "variant", "backend", "kind", "source_hash")
DESCRIPTIVE = ("label", "useful_bytes", "flops")
"""Facts that may differ between two descriptions of one trial; the latest counts."""
ENLISTING = "enlisting"
"""The lock that processes share on a server while they enlist, so that no trial that they found is removed."""


def enlist(
    connection: Connection, sweep_id: int, trials: Sequence[Trial], first: int, reused: Mapping[str, StoredTrial]
) -> None:
    """Write the rows of the trials and their membership in the sweep; existing rows stay.

    Args:
        first: the place of the first one in the sweep.
        reused: identity → the stored run that the sweep goes by, as `stored` returned it.
    """
    sweeps.lock(connection, ENLISTING, shared=True)
    # A hundred thousand trials share a handful of device objects; the object's id saves hashing each one's facts.
    facts: dict[int, DeviceFacts] = {id(trial.device): trial.device for trial in trials if trial.device is not None}
    devices = {key: sweeps.save_device(connection, device) for key, device in facts.items()}
    keys = _save_trials(connection, trials, devices)
    members = {
        trial.identity: {
            "sweep_id": sweep_id,
            "trial_id": keys[trial.identity],
            "ordinal": ordinal,
            "device_id": devices.get(id(trial.device)),
            "unavailable_reason": trial.unavailable.reason if trial.unavailable else None,
            "unavailable_remedy": trial.unavailable.remedy if trial.unavailable else None,
        }
        for ordinal, trial in enumerate(trials, first)
    }
    going_by = [
        {**members.pop(identity), "run_id": run.run_id, "reused": run.sweep_id != sweep_id}
        for identity, run in reused.items()
    ]
    key, update = ["sweep_id", "trial_id"], ["ordinal", "device_id", "unavailable_reason", "unavailable_remedy"]
    upsert(connection, t.sweep_trial, going_by, key=key, update=[*update, "run_id", "reused"])
    upsert(connection, t.sweep_trial, list(members.values()), key=key, update=update)
    if reused:
        ranking.refresh_members(connection, sweep_id, [keys[identity] for identity in reused])


def exchange(connection: Connection, sweep_id: int, identity: str, trial: Trial) -> None:
    """Replace a planned trial that was not run by another one, which keeps its place and the claim on it.

    The replaced trial is removed, unless another sweep has it.
    """
    of_sweep = t.sweep_trial.c.sweep_id == sweep_id
    former = connection.execute(
        sa.select(t.trial.c.id, t.sweep_trial.c.ordinal, t.sweep_trial.c.station_id)
        .join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
        .where(of_sweep, t.trial.c.identity == identity)
    ).one_or_none()
    if former is None:
        return  # done already: by a transaction that the server could not confirm, or by a station that took it over
    connection.execute(sa.delete(t.sweep_trial).where(of_sweep, t.sweep_trial.c.trial_id == former.id))
    _forget(connection, former.id)
    enlist(connection, sweep_id, [trial], former.ordinal, {})
    connection.execute(
        sa.update(t.sweep_trial)
        .where(of_sweep, t.sweep_trial.c.trial_id == find_keys(connection, [trial.identity])[trial.identity])
        .values(station_id=former.station_id)
    )


def _forget(connection: Connection, key: int) -> None:
    """Remove a trial that was never run and that no sweep has."""
    if sweeps.lock(connection, ENLISTING, wait=False):  # otherwise somebody may be about to enlist it
        needed = [sa.exists().where(table.c.trial_id == t.trial.c.id) for table in (t.sweep_trial, t.run, t.profile)]
        connection.execute(sa.delete(t.trial).where(t.trial.c.id == key, ~sa.or_(*needed)))


def stored(connection: Connection, identities: Sequence[str], methods: Mapping[Measure, str]) -> dict[str, StoredTrial]:
    """Return the stored state of the trials that have been run; others are left out.

    A trial is complete when its newest run failed (it would fail again), or one ok run has a timing of every
    measure by the wanted method. A skipped trial is never complete.
    """
    timing = t.timing.c
    wanted = [sa.and_(timing.measure == str(measure), timing.method == method) for measure, method in methods.items()]

    def of_timings(value: sa.ColumnElement[Any]) -> sa.ScalarSelect[Any]:
        asked = sa.select(value).where(timing.run_id == t.run.c.id, sa.or_(sa.false(), *wanted))
        return asked.correlate(t.run).scalar_subquery()

    run = t.run.c
    half_width = (timing.high_ns - timing.low_ns) / (2 * timing.median_ns)
    figures = (of_timings(sa.func.min(timing.median_ns)), of_timings(sa.func.coalesce(sa.func.max(half_width), 0.0)))
    is_whole = of_timings(sa.func.count()) == len(wanted)
    rows = connection.execute(
        sa.select(t.trial.c.identity, run.state, is_whole, run.id, run.message, run.sweep_id, *figures)
        .join(t.run, run.trial_id == t.trial.c.id)
        .where(among(connection, t.trial.c.identity, dict.fromkeys(identities)))
        .order_by(run.recorded_at, run.id)  # in merged databases the keys are in no order of time
    )
    by_trial: dict[str, list[StoredTrial]] = {}
    for identity, state, *rest in rows:
        by_trial.setdefault(identity, []).append(StoredTrial(identity, State(state), *rest))
    return {identity: _judge(history) for identity, history in by_trial.items()}


def find_keys(connection: Connection, identities: Sequence[str]) -> dict[str, int]:
    """Return the trial rows' keys by identity; identities that are not stored are left out."""
    chosen = among(connection, t.trial.c.identity, identities)
    rows = connection.execute(sa.select(t.trial.c.identity, t.trial.c.id).where(chosen))
    return dict(rows.all())


def _judge(history: Sequence[StoredTrial]) -> StoredTrial:
    """Return what a trial's runs show together; each run is complete where it has every timing that was asked for."""
    newest = next((run for run in reversed(history) if run.state is not State.SKIPPED), history[-1])
    if newest.state in FAILED or newest.state is State.IMPOSSIBLE:
        return newest._replace(complete=True)
    if newest.state is State.OK:
        return next((run for run in reversed(history) if run.state is State.OK and run.complete), newest)
    return newest._replace(complete=False)


def _save_trials(connection: Connection, trials: Sequence[Trial], devices: Mapping[int, int]) -> dict[str, int]:
    """Write the trials with their variants and problems; return their keys by identity."""
    latest = {_variant_key(trial): trial for trial in trials}
    described = [columns_of(t.variant, trial, name=trial.variant, ordinal=trial.order) for trial in latest.values()]
    changing = ["description", "origin", "expected", "ordinal"]
    variants = save(connection, t.variant, described, key=VARIANT_KEY, update=changing)
    problems = _save_problems(connection, trials)
    rows = [
        {
            "variant_id": variants[_variant_key(trial)],
            "problem_id": problems[trial.family, trial.problem],
            "device_id": devices.get(id(trial.device)),
            "tunables_label": trial.tunables.label,
            **{name: getattr(trial, name) for name in ("identity", "tunables", *DESCRIPTIVE)},
        }
        for trial in trials
    ]
    return save(connection, t.trial, rows, key=["identity"], update=DESCRIPTIVE)


def _save_problems(connection: Connection, trials: Sequence[Trial]) -> dict[tuple[str, Any], int]:
    places = dict.fromkeys((trial.family, trial.problem) for trial in trials)
    marks = {(family, problem): fingerprint(problem) for family, problem in places}
    rows = [
        {"family": family, "fingerprint": mark, "label": problem.label, "coordinates": problem}
        for (family, problem), mark in marks.items()
    ]
    keys = save(connection, t.problem, rows, key=["family", "fingerprint"])
    return {(family, problem): keys[family, mark] for (family, problem), mark in marks.items()}
