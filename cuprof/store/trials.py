"""Trials as members of sweeps, and what is already stored of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.errors import StoreError
from cuprof.records import FAILED, DeviceFacts, Measure, State, Trial
from cuprof.store import ranking
from cuprof.store.models import Problem, Run, SweepTrial, Timing, Variant
from cuprof.store.models import Trial as TrialRow
from cuprof.store.rows import chunks, columns_of, fingerprint, upsert
from cuprof.store.sweeps import save_device

VARIANT_KEY = ("family", "name", "backend", "kind", "source_hash")


@dataclass(frozen=True)
class StoredTrial:
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


def enlist(connection: Connection, sweep_id: int, trials: Sequence[Trial], first: int = 0) -> None:
    """Write the rows of the trials and their membership in the sweep; what is there already stays.

    Args:
        first: the place of the first one in the sweep.
    """
    devices = _save_devices(connection, trials)
    variants = _save_variants(connection, trials)
    problems = _save_problems(connection, trials)
    rows = [
        {
            **{name: getattr(trial, name) for name in ("identity", "tunables", "label", "useful_bytes", "flops")},
            "variant_id": variants[_variant_key(trial)],
            "problem_id": problems[trial.family, trial.problem],
            "device_id": devices.get(id(trial.device)),
            "tunables_label": trial.tunables.label,
        }
        for trial in trials
    ]
    upsert(connection, TrialRow, rows, key=["identity"], update=["label", "useful_bytes", "flops"], keep=["device_id"])
    keys = find_keys(connection, [trial.identity for trial in trials])
    members = [
        {
            "sweep_id": sweep_id,
            "trial_id": keys[trial.identity],
            "ordinal": ordinal,
            "device_id": devices.get(id(trial.device)),
            "unavailable_reason": trial.unavailable.reason if trial.unavailable else None,
            "unavailable_remedy": trial.unavailable.remedy if trial.unavailable else None,
        }
        for ordinal, trial in enumerate(trials, first)
    ]
    upsert(
        connection,
        SweepTrial,
        members,
        key=["sweep_id", "trial_id"],
        update=["ordinal", "device_id", "unavailable_reason", "unavailable_remedy"],
    )


def exchange(connection: Connection, sweep_id: int, identity: str, trial: Trial) -> None:
    """Put a trial in the place of one that the sweep had planned and not run; who has claimed that one has this."""
    enlist(connection, sweep_id, [trial])
    keys = find_keys(connection, [identity, trial.identity])
    of_sweep = SweepTrial.sweep_id == sweep_id
    old = (of_sweep, SweepTrial.trial_id == keys[identity])
    kept = connection.execute(sa.select(SweepTrial.ordinal, SweepTrial.station_id).where(*old)).one()
    connection.execute(sa.delete(SweepTrial).where(*old))
    connection.execute(
        sa.update(SweepTrial)
        .where(of_sweep, SweepTrial.trial_id == keys[trial.identity])
        .values(ordinal=kept.ordinal, station_id=kept.station_id)
    )


def reuse(connection: Connection, sweep_id: int, reused: Sequence[StoredTrial]) -> None:
    """Let the sweep go by runs that are stored already: those that `stored` returned.

    Raises:
        StoreError: a trial was not enlisted for this sweep.
    """
    keys = find_keys(connection, [entry.identity for entry in reused])
    members: set[int] = set()
    for chunk in chunks(list(keys.values())):
        members |= set(
            connection.execute(
                sa.select(SweepTrial.trial_id).where(SweepTrial.sweep_id == sweep_id, SweepTrial.trial_id.in_(chunk))
            ).scalars()
        )
    for entry in reused:
        if keys.get(entry.identity) not in members:
            raise StoreError(f"trial {entry.identity} is not among those enlisted for sweep {sweep_id}")
    made_here = sa.select(Run.sweep_id == sweep_id).where(Run.id == sa.bindparam("run")).scalar_subquery()
    statement = (
        sa.update(SweepTrial)
        .where(SweepTrial.sweep_id == sweep_id, SweepTrial.trial_id == sa.bindparam("trial"))
        .values(run_id=sa.bindparam("run"), reused=~made_here)
    )
    if reused:
        connection.execute(statement, [{"trial": keys[entry.identity], "run": entry.run_id} for entry in reused])
        ranking.refresh_sweep(connection, sweep_id)


def stored(connection: Connection, identities: Sequence[str], methods: Mapping[Measure, str]) -> dict[str, StoredTrial]:
    """Return what is stored of those trials that have been run; others are left out.

    A trial is complete when its newest run failed (it would fail again), or one ok run has a timing of every
    measure by the method wanted. A skipped trial is never complete.
    """
    wanted = {(str(measure), method) for measure, method in methods.items()}
    found: dict[str, StoredTrial] = {}
    for chunk in chunks(list(dict.fromkeys(identities))):
        runs = connection.execute(
            sa.select(TrialRow.identity, Run.id, Run.state, Run.message, Run.sweep_id)
            .join(Run, Run.trial_id == TrialRow.id)
            .where(TrialRow.identity.in_(chunk))
            .order_by(Run.recorded_at, Run.id)  # of merged databases the keys tell no order
        ).all()
        timed: dict[int, set[tuple[str, str]]] = {}
        for run_id, measure, method in connection.execute(
            sa.select(Timing.run_id, Timing.measure, Timing.method)
            .join(Run, Run.id == Timing.run_id)
            .join(TrialRow, TrialRow.id == Run.trial_id)
            .where(TrialRow.identity.in_(chunk), Run.state == State.OK.value)
        ):
            timed.setdefault(run_id, set()).add((measure, method))
        by_trial: dict[str, list[Any]] = {}
        for run in runs:
            by_trial.setdefault(run.identity, []).append(run)
        for identity, history in by_trial.items():
            found[identity] = _judge(identity, history, timed, wanted)
    return found


def find_keys(connection: Connection, identities: Sequence[str]) -> dict[str, int]:
    """Return the trial rows' keys by identity; identities that are not stored are left out."""
    keys: dict[str, int] = {}
    for chunk in chunks(list(dict.fromkeys(identities))):
        statement = sa.select(TrialRow.identity, TrialRow.id).where(TrialRow.identity.in_(chunk))
        keys.update((identity, key) for identity, key in connection.execute(statement))
    return keys


def _judge(
    identity: str, history: Sequence[Any], timed: Mapping[int, set[tuple[str, str]]], wanted: set[tuple[str, str]]
) -> StoredTrial:
    newest = next((run for run in reversed(history) if run.state != State.SKIPPED), history[-1])
    state = State(newest.state)
    if state in FAILED or state is State.IMPOSSIBLE:
        return StoredTrial(identity, state, True, newest.id, newest.message, newest.sweep_id)
    if state is State.OK:
        for run in reversed(history):
            if run.state == State.OK and wanted <= timed.get(run.id, set()):
                return StoredTrial(identity, state, True, run.id, run.message, run.sweep_id)
    return StoredTrial(identity, state, False, newest.id, newest.message, newest.sweep_id)


def _save_devices(connection: Connection, trials: Sequence[Trial]) -> dict[int, int]:
    # A hundred thousand trials share a handful of device objects; the object's id saves hashing each one's facts.
    facts: dict[int, DeviceFacts] = {id(trial.device): trial.device for trial in trials if trial.device is not None}
    return {key: save_device(connection, device) for key, device in facts.items()}


def _variant_key(trial: Trial) -> tuple[str, ...]:
    return trial.family, trial.variant, trial.backend, trial.kind, trial.source_hash


def _save_variants(connection: Connection, trials: Sequence[Trial]) -> dict[tuple[str, ...], int]:
    rows = {
        _variant_key(trial): columns_of(Variant, trial, name=trial.variant, ordinal=trial.order) for trial in trials
    }
    descriptive = ["description", "origin", "expected", "ordinal"]
    upsert(connection, Variant, list(rows.values()), key=VARIANT_KEY, update=descriptive)
    columns = [getattr(Variant, name) for name in VARIANT_KEY]
    families = {key[0] for key in rows}
    found = connection.execute(sa.select(Variant.id, *columns).where(Variant.family.in_(families)))
    return {tuple(row[1:]): row[0] for row in found if tuple(row[1:]) in rows}


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
