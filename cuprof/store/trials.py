"""Trials as members of sweeps, and what is already stored of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import FAILED, DeviceFacts, Measure, State, Trial
from cuprof.store import ranking, sweeps
from cuprof.store.counter_models import Profile
from cuprof.store.models import Problem, Run, SweepTrial, Timing, Variant
from cuprof.store.models import Trial as TrialRow
from cuprof.store.rows import among, as_state, chunks, columns_of, fingerprint, plain_rows, upsert

VARIANT_KEY = ("family", "name", "backend", "kind", "source_hash")
DESCRIPTIVE = ("label", "useful_bytes", "flops")
"""What may be told differently of one trial; the latest counts."""
ENLISTING = "enlisting"
"""What who enlists shares on a server: trials that are found there stay until they are members."""


class StoredTrial(NamedTuple):
    """What the database knows of a trial that has been run.

    Args:
        state: of its newest run; a skipped run does not hide an earlier one that was more than that.
        complete: nothing is left to do for it: it failed, or one ok run has every timing that was asked for.
        run_id: that run; else the newest.
        sweep_id: the sweep that made it.
    """

    identity: str
    state: State
    complete: bool
    run_id: int
    message: str = ""
    sweep_id: int = 0


def enlist(
    connection: Connection,
    sweep_id: int,
    trials: Sequence[Trial],
    first: int = 0,
    reused: Mapping[str, StoredTrial] = MappingProxyType({}),
) -> None:
    """Write the rows of the trials and their membership in the sweep; what is there already stays.

    Args:
        first: the place of the first one in the sweep.
        reused: of those whose stored run the sweep goes by, by identity: what `stored` returned.
    """
    sweeps.lock(connection, ENLISTING, shared=True)
    devices = _save_devices(connection, trials)
    variants = _save_variants(connection, trials)
    problems = _save_problems(connection, trials)
    known = _find_described(connection, [trial.identity for trial in trials])
    rows = [
        {
            **{name: getattr(trial, name) for name in ("identity", "tunables", *DESCRIPTIVE)},
            "variant_id": variants[_variant_key(trial)],
            "problem_id": problems[trial.family, trial.problem],
            "device_id": devices.get(id(trial.device)),
            "tunables_label": trial.tunables.label,
        }
        for trial in trials
        if not _is_known(known.get(trial.identity), trial)
    ]
    upsert(connection, TrialRow, rows, key=["identity"], update=DESCRIPTIVE, keep=["device_id"])
    keys = {identity: row[0] for identity, row in known.items()} | find_keys(
        connection, [row["identity"] for row in rows]
    )
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
    key, told = ["sweep_id", "trial_id"], ["ordinal", "device_id", "unavailable_reason", "unavailable_remedy"]
    going_by = [
        {**members.pop(identity), "run_id": run.run_id, "reused": run.sweep_id != sweep_id}
        for identity, run in reused.items()
    ]
    upsert(connection, SweepTrial, going_by, key=key, update=[*told, "run_id", "reused"])
    upsert(connection, SweepTrial, list(members.values()), key=key, update=told)
    if reused:
        ranking.refresh_members(connection, sweep_id, [keys[identity] for identity in reused])


def exchange(connection: Connection, sweep_id: int, identity: str, trial: Trial) -> None:
    """Put a trial in the place of one that the sweep had planned and not run; who has claimed that one has this.

    The former, which is never to be run, is removed, but where another sweep has it.
    """
    of_sweep = SweepTrial.sweep_id == sweep_id
    former = connection.execute(
        sa.select(TrialRow.id, SweepTrial.ordinal, SweepTrial.station_id)
        .join(SweepTrial, SweepTrial.trial_id == TrialRow.id)
        .where(of_sweep, TrialRow.identity == identity)
    ).one_or_none()
    if former is None:
        return  # done already, by a transaction that a server could not confirm or by who took the trial over
    connection.execute(sa.delete(SweepTrial).where(of_sweep, SweepTrial.trial_id == former.id))
    _forget(connection, [former.id])
    enlist(connection, sweep_id, [trial], former.ordinal)
    connection.execute(
        sa.update(SweepTrial)
        .where(of_sweep, SweepTrial.trial_id == find_keys(connection, [trial.identity])[trial.identity])
        .values(station_id=former.station_id)
    )


def withdraw(connection: Connection, sweep_id: int, identities: Sequence[str]) -> None:
    """Take trials out of a sweep in which they were not run; those that no other sweep has are removed."""
    of_sweep = SweepTrial.sweep_id == sweep_id, SweepTrial.run_id.is_(None)
    keys = [
        key
        for key in find_keys(connection, identities).values()
        if connection.execute(sa.delete(SweepTrial).where(*of_sweep, SweepTrial.trial_id == key)).rowcount
    ]
    _forget(connection, keys)


def _forget(connection: Connection, keys: Sequence[int]) -> None:
    """Remove the rows of trials that were never run and that no sweep has."""
    if sweeps.lock(connection, ENLISTING, wait=False):  # else somebody may be about to enlist them
        needed = [sa.exists().where(table.trial_id == TrialRow.id) for table in (SweepTrial, Run, Profile)]
        for key in keys:
            connection.execute(sa.delete(TrialRow).where(TrialRow.id == key, ~sa.or_(*needed)))


def stored(connection: Connection, identities: Sequence[str], methods: Mapping[Measure, str]) -> dict[str, StoredTrial]:
    """Return what is stored of those trials that have been run; others are left out.

    A trial is complete when its newest run failed (it would fail again), or one ok run has a timing of every
    measure by the method wanted. A skipped trial is never complete.
    """
    chosen = among(connection, TrialRow.identity, set(identities))
    wanted = [sa.and_(Timing.measure == str(measure), Timing.method == method) for measure, method in methods.items()]
    timed = (
        sa.select(sa.func.count())
        .where(Timing.run_id == Run.id, sa.or_(sa.false(), *wanted))
        .correlate(Run)
        .scalar_subquery()
    )
    rows = plain_rows(
        connection,
        sa.select(TrialRow.identity, Run.state, timed == len(wanted), Run.id, Run.message, Run.sweep_id)
        .join(Run, Run.trial_id == TrialRow.id)
        .where(chosen)
        .order_by(Run.recorded_at, Run.id),  # of merged databases the keys tell no order
    )
    by_trial: dict[str, list[Any]] = {}
    for identity, state, is_whole, *run in rows:
        by_trial.setdefault(identity, []).append(StoredTrial(identity, as_state(state), bool(is_whole), *run))
    return {identity: _judge(history) for identity, history in by_trial.items()}


def find_keys(connection: Connection, identities: Sequence[str]) -> dict[str, int]:
    """Return the trial rows' keys by identity; identities that are not stored are left out."""
    chosen = among(connection, TrialRow.identity, identities)
    return dict(connection.execute(sa.select(TrialRow.identity, TrialRow.id).where(chosen)).all())


def _find_described(connection: Connection, identities: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return each stored trial's key, its device, and what may be told differently of it."""
    columns = (getattr(TrialRow, name) for name in ("identity", "id", "device_id", *DESCRIPTIVE))
    rows = plain_rows(connection, sa.select(*columns).where(among(connection, TrialRow.identity, identities)))
    return {row[0]: row[1:] for row in rows}


def _is_known(row: tuple[Any, ...] | None, trial: Trial) -> bool:
    """Return whether nothing of a stored trial is to be changed."""
    if row is None or (row[1] is None and trial.device is not None):
        return False
    return row[2:] == (trial.label, trial.useful_bytes, trial.flops)


def _judge(history: Sequence[StoredTrial]) -> StoredTrial:
    """Return what a trial's runs come to, each of which is complete where it has every timing that was asked for."""
    newest = next((run for run in reversed(history) if run.state is not State.SKIPPED), history[-1])
    if newest.state in FAILED or newest.state is State.IMPOSSIBLE:
        return newest._replace(complete=True)
    if newest.state is State.OK:
        return next((run for run in reversed(history) if run.state is State.OK and run.complete), newest)
    return newest._replace(complete=False)


def _save_devices(connection: Connection, trials: Sequence[Trial]) -> dict[int, int]:
    # A hundred thousand trials share a handful of device objects; the object's id saves hashing each one's facts.
    facts: dict[int, DeviceFacts] = {id(trial.device): trial.device for trial in trials if trial.device is not None}
    return {key: sweeps.save_device(connection, device) for key, device in facts.items()}


def _variant_key(trial: Trial) -> tuple[str, ...]:
    return trial.family, trial.variant, trial.backend, trial.kind, trial.source_hash


def _save_variants(connection: Connection, trials: Sequence[Trial]) -> dict[tuple[str, ...], int]:
    latest = {_variant_key(trial): trial for trial in trials}
    rows = {key: columns_of(Variant, trial, name=trial.variant, ordinal=trial.order) for key, trial in latest.items()}
    descriptive, size = ["description", "origin", "expected", "ordinal"], len(VARIANT_KEY)
    columns = (getattr(Variant, name) for name in (*VARIANT_KEY, *descriptive, "id"))
    of_families = sa.select(*columns).where(Variant.family.in_({key[0] for key in rows}))
    found = {tuple(row[:size]): row[size:] for row in connection.execute(of_families)}
    # What is told alike is left alone: written again, it would make others wait for this transaction's end.
    new = [row for key, row in rows.items() if key not in found or found[key][:-1] != tuple(map(row.get, descriptive))]
    if new:
        upsert(connection, Variant, new, key=VARIANT_KEY, update=descriptive)
        found = {tuple(row[:size]): row[size:] for row in connection.execute(of_families)}
    return {key: found[key][-1] for key in rows}


def _save_problems(connection: Connection, trials: Sequence[Trial]) -> dict[tuple[str, Any], int]:
    points = {(trial.family, trial.problem): None for trial in trials}
    rows = {
        (family, fingerprint(problem)): {
            "family": family,
            "fingerprint": fingerprint(problem),
            "label": problem.label,
            "coordinates": problem,
        }
        for family, problem in points
    }
    upsert(connection, Problem, list(rows.values()), key=["family", "fingerprint"])
    keys: dict[tuple[str, str], int] = {}
    for chunk in chunks([row["fingerprint"] for row in rows.values()]):
        found = connection.execute(
            sa.select(Problem.id, Problem.family, Problem.fingerprint).where(Problem.fingerprint.in_(chunk))
        )
        keys.update(((family, mark), key) for key, family, mark in found)
    return {(family, problem): keys[family, fingerprint(problem)] for family, problem in points}
