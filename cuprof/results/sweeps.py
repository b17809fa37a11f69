"""Sweeps: all of them, one by its number, the newest of an experiment; their trials and devices."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import SelectionError, UnknownNameError
from cuprof.core.records import FAILED, Calibration, DeviceFacts, State
from cuprof.plan.identity import IDENTITY_VERSION
from cuprof.store import tables as t
from cuprof.store.rows import among

Record = TypeVar("Record")

FINISHED = "finished"
IDENTITIES = "identities"
"""The key in a sweep's software for the version of its trials' identities; 1 if absent."""


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One sweep, without its configuration (`read_configurations`).

    Args:
        purpose: "timing", "profiling", or another word of the command that made it.
        state: "running", "interrupted" or "finished".
        started_at, finished_at: seconds since the epoch; None where it has not ended.
    """

    id: int
    name: str
    experiment: str
    family: str
    baseline: str
    purpose: str
    state: str
    command_line: str
    host: str
    git: Mapping[str, Any]
    software: Mapping[str, Any]
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def is_finished(self) -> bool:
        """Return whether every trial of it has had its turn."""
        return self.state == FINISHED

    @property
    def selection(self) -> str:
        """Return the word of a command line that selects what the sweep swept: a study, a script or a family."""
        script = re.search(r"\S+\.(py|json)\b", self.command_line)
        return script[0].removeprefix("family=") if script and not self.experiment else _setting(self)


MEMBERS: Any = (
    sa.select()
    .select_from(t.sweep_trial)
    .join(t.trial, t.trial.c.id == t.sweep_trial.c.trial_id)
    .join(t.variant, t.variant.c.id == t.trial.c.variant_id)
    .outerjoin(t.run, t.run.c.id == t.sweep_trial.c.run_id)
)
"""Selects the trials of sweeps, each with the run that the sweep goes by."""


def as_record(row: Any, kind: type[Record], **more: Any) -> Record:
    """Return a row as a record whose fields are named as its columns.

    Other columns are left out, types are checked, and where there is no value a field keeps its default.

    Raises:
        ValueError: a value is of another type than its field.
    """
    names = map(str, row._fields)  # SQLAlchemy's names are no plain str
    known = {name: value for name, value in zip(names, row, strict=True) if value is not None}
    return msgspec.convert(known | more, kind, dec_hook=lambda of, value: of(value))


def list_tried_sweeps(connection: Connection) -> list[SweepRow]:
    """Return the sweeps that timed something or saw it fail, the oldest first; those for a profiler are left out."""
    members = sa.select(t.sweep_trial.c.sweep_id).where(t.sweep_trial.c.sweep_id == t.sweep.c.id)
    timed = members.join(t.timing, t.timing.c.run_id == t.sweep_trial.c.run_id).exists()
    failed = members.join(t.run, t.run.c.id == t.sweep_trial.c.run_id).where(t.run.c.state.in_([*FAILED])).exists()
    return _list_sweeps(connection, t.sweep.c.purpose != "profiling", timed | failed)


def get_sweep(
    connection: Connection, experiment: str, sweep_id: int | None = None, *, is_file: bool = False
) -> SweepRow:
    """Return the newest timing sweep of an experiment, or the sweep of that number.

    Args:
        experiment: name of the experiment; for sweeps without one, the family's or the sweep's name.
        sweep_id: a sweep of that name, or of any where the name is empty.
        is_file: the name is a file's, so a sweep without an experiment comes before an experiment of that name.

    Raises:
        UnknownNameError: no sweep of that name is stored.
        SelectionError: no sweep of that number is stored, it is another experiment's, or it only collected counters.
    """
    if sweep_id is not None:
        return _get_numbered(connection, experiment, sweep_id)
    names = [t.sweep.c[column] == experiment for column in ("experiment", "family", "name")]
    if is_file:
        names.insert(0, (t.sweep.c.family == experiment) & (t.sweep.c.experiment == ""))
    for is_named in names:
        if experiment and (found := _list_sweeps(connection, is_named, t.sweep.c.purpose == "timing")):
            return found[-1]
    stored = _list_sweeps(connection, t.sweep.c.purpose == "timing")
    newest = f"the newest sweep is of {_setting(stored[-1])}; write that" if stored else ""
    known = {sweep.experiment or sweep.family for sweep in stored}
    what_to_do = newest or "run cuprof sweep experiment=NAME first"
    raise UnknownNameError("stored experiment", experiment, known, f"({what_to_do})")


def find_finished_before(connection: Connection, sweep: SweepRow) -> int | None:
    """Return the newest earlier timing sweep of the same experiment that was finished, None without one."""
    same = {"experiment": sweep.experiment, "family": sweep.family, "purpose": "timing", "state": FINISHED}
    chosen = (t.sweep.c[name] == value for name, value in same.items())
    found = _list_sweeps(connection, *chosen, t.sweep.c.started_at < sweep.started_at)
    return found[-1].id if found else None


def is_newest(connection: Connection, sweep: SweepRow) -> bool:
    """Return whether no other timing sweep of the same name has begun later; one of the same plan shows the same."""
    same = [t.sweep.c[name] == getattr(sweep, name) for name in ("experiment", "family", "name", "purpose")]
    plan = sa.select(t.sweep.c.plan_hash).where(t.sweep.c.id == sweep.id).correlate(None).scalar_subquery()
    later = sa.exists().where(*same, t.sweep.c.started_at > sweep.started_at, t.sweep.c.plan_hash != plan)
    return not connection.scalar(sa.select(later))


def read_configurations(connection: Connection, sweep_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return sweep → its composed configuration, as plain data."""
    query = sa.select(t.sweep.c.id, t.sweep.c.configuration).where(t.sweep.c.id.in_(sweep_ids))
    return {key: configuration or {} for key, configuration in connection.execute(query)}


def is_search(configuration: Mapping[str, Any]) -> bool:
    """Return whether a sweep of this configuration chose among its trials."""
    return bool((configuration.get("search") or {}).get("name"))


def is_outdated(software: Mapping[str, str] | None) -> bool:
    """Return whether a sweep that recorded this software gave its trials identities of an earlier version."""
    return (software or {}).get(IDENTITIES, "1") != str(IDENTITY_VERSION)


def count_looked_again(connection: Connection, sweep_id: int) -> int:
    """Return how many trials a search has looked at more than once."""
    runs = sa.select(t.run.c.trial_id).where(t.run.c.sweep_id == sweep_id)
    again = runs.group_by(t.run.c.trial_id).having(sa.func.count() > 1)
    return connection.scalar(sa.select(sa.func.count()).select_from(again.subquery())) or 0


def _get_numbered(connection: Connection, experiment: str, sweep_id: int) -> SweepRow:
    numbered = _list_sweeps(connection, t.sweep.c.id == sweep_id)
    if not numbered:
        newest = connection.scalar(sa.select(sa.func.max(t.sweep.c.id)))
        raise SelectionError(
            f"there is no sweep {sweep_id}; " + (f"the newest is {newest}" if newest else "none is stored")
        )
    (found,) = numbered
    if not experiment:
        return found
    # a family's name finds a sweep of its own only where it is no experiment's name, as without a number
    is_experiment = connection.scalar(sa.select(sa.exists().where(t.sweep.c.experiment == experiment)))
    names = {found.experiment, *(() if found.experiment and is_experiment else (found.family, found.name))}
    if experiment not in names:
        what = _setting(found)
        raise SelectionError(
            f"sweep {sweep_id} is of {what}, not of {experiment}; write {what} report.sweep={sweep_id}"
        )
    if found.purpose == "profiling":
        raise SelectionError(
            f"sweep {sweep_id} collected counters, which the pages of timing sweeps show; "
            f"python -m cuprof query sweeps lists those of {experiment}"
        )
    return found


def _setting(sweep: SweepRow) -> str:
    """Return what a command line says to mean a sweep's study, or its family where it has none."""
    return f"experiment={sweep.experiment}" if sweep.experiment else f"family={sweep.family}"


def _list_sweeps(connection: Connection, *conditions: sa.ColumnElement[bool]) -> list[SweepRow]:
    query = sa.select(*(t.sweep.c[name] for name in SweepRow.__slots__)).where(*conditions)
    return [as_record(row, SweepRow) for row in connection.execute(query.order_by(t.sweep.c.started_at, t.sweep.c.id))]


def list_variant_names(connection: Connection, sweep_ids: Collection[int]) -> list[str]:
    """Return the names of the variants that are members of these sweeps."""
    members = sa.select(t.trial.c.variant_id).join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id)
    chosen = members.where(t.sweep_trial.c.sweep_id.in_(sweep_ids))
    return list(connection.scalars(sa.select(t.variant.c.name).where(t.variant.c.id.in_(chosen)).distinct()))


def list_ends(connection: Connection, sweep_id: int) -> list[tuple[int, State, str]]:
    """Return place, state and message of a sweep's trials that may have ended otherwise than expected."""
    is_odd = (t.run.c.state != State.OK.value) | (t.variant.c.expected == "wrong")
    ends = MEMBERS.with_only_columns(t.sweep_trial.c.ordinal, t.run.c.state, t.run.c.message).where(is_odd)
    rows = connection.execute(ends.where(t.sweep_trial.c.sweep_id == sweep_id, t.run.c.sweep_id == sweep_id))
    return [(place, State(state), message) for place, state, message in rows]


def list_tried(connection: Connection, sweep_id: int) -> set[str]:
    """Return the identities of a sweep's trials that it has a run of."""
    members = MEMBERS.with_only_columns(t.trial.c.identity).where(t.sweep_trial.c.sweep_id == sweep_id)
    return set(connection.scalars(members.where(t.sweep_trial.c.run_id.is_not(None))))


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


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One physical device with the software that drove it.

    Args:
        comparable: equal for devices whose timings are comparable, 64 hexadecimal digits.
    """

    id: int
    comparable: str
    facts: DeviceFacts


def list_devices(connection: Connection, sweep_ids: Collection[int] | None = None) -> list[DeviceRow]:
    """Return the devices of some sweeps by number: those planned for, run on or calibrated.

    Args:
        sweep_ids: None takes every stored device: they are few, and none of a sweep's trials has to be looked at.
    """
    query = sa.select(*t.device.c).order_by(t.device.c.id)
    if sweep_ids is not None:
        member = t.sweep_trial.c
        planned = sa.select(member.device_id)
        trials = sa.select(t.trial.c.device_id).join(t.sweep_trial, member.trial_id == t.trial.c.id)
        runs = sa.select(t.run.c.device_id).join(t.sweep_trial, member.run_id == t.run.c.id)
        of_sweeps = [each.where(member.sweep_id.in_(sweep_ids)) for each in (planned, trials, runs)]
        calibrated = sa.select(t.calibration.c.device_id).where(t.calibration.c.sweep_id.in_(sweep_ids))
        query = query.where(sa.or_(*(t.device.c.id.in_(each) for each in (*of_sweeps, calibrated))))
    rows = connection.execute(query)
    return [DeviceRow(row.id, row.comparable, as_record(row, DeviceFacts, index=row.ordinal)) for row in rows]


def find_calibration(connection: Connection, comparable: str, sweep_id: int) -> Calibration | None:
    """Return what the sweep measured of a kind of device, or what was measured last where the sweep measured nothing.

    One with a bandwidth comes before one without. None where there is no calibration.
    """
    calibration = t.calibration.c
    query = sa.select(*calibration).join(t.device, t.device.c.id == calibration.device_id)
    query = query.where(t.device.c.comparable == comparable).order_by(calibration.read_bandwidth.is_(None))
    own_first = (calibration.sweep_id == sweep_id).desc(), calibration.sweep_id.desc()
    row = connection.execute(query.order_by(*own_first).limit(1)).first()
    return None if row is None else as_record(row, Calibration)
