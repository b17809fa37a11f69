"""Trials of sweeps with the runs that the sweeps go by, and the summaries of their timings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from msgspec import json
from sqlalchemy.engine import Connection

from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, Check, Energy, Measure, State, Summary, Unavailable
from cuprof.results.intact import intact
from cuprof.store import tables as t
from cuprof.store.rows import CHUNK, among


@dataclass(frozen=True, slots=True)
class TimingRow:
    """One measure of one run; its samples are read by `id` (`cuprof.results.samples`).

    Args:
        method, stopped_by, details, rotation, energy: as in `cuprof.core.records.Timing`.
    """

    id: int
    run_id: int
    measure: Measure
    method: str
    stopped_by: str
    summary: Summary
    details: Mapping[str, Any]
    rotation: str
    energy: Energy | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of a trial.

    Args:
        sweep_id: the sweep that made it, which may be an earlier one than that which goes by it.
        started_at: seconds since the epoch, None where it is not known.
        job: equal for what was measured in one job; empty where that is not known.
    """

    id: int
    sweep_id: int
    device_id: int | None
    state: State
    phase: str
    message: str
    log: str
    started_at: float | None
    duration_ns: int
    check: Check | None
    build: BuildFacts | None
    job: str = ""


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial as a member of one sweep.

    Args:
        ordinal: its place in the sweep.
        order: its variant's place in the family.
        device_id: of the run, else the one that it was planned for; None without one.
        run: the run that the sweep goes by; None before there is one.
        timings: of that run; of two methods in one run, the later one.
    """

    id: int
    sweep_id: int
    ordinal: int
    identity: str
    label: str
    family: str
    variant: str
    order: int
    kind: str
    backend: str
    expected: str
    description: str
    origin: str
    problem: Point
    tunables: Point
    useful_bytes: int | None
    flops: int | None
    device_id: int | None
    unavailable: Unavailable | None
    run: RunRow | None
    timings: Mapping[Measure, TimingRow]

    @property
    def state(self) -> State:
        """Return what became of it in this sweep."""
        if self.run is not None:
            return self.run.state
        return State.SKIPPED if self.unavailable else State.PLANNED

    @property
    def message(self) -> str:
        """Return what happened to it, empty where nothing did."""
        return self.run.message if self.run is not None else str(self.unavailable or "")

    @property
    def is_expected_wrong(self) -> bool:
        """Return whether its variant is kept as known wrong."""
        return self.expected == "wrong"


@intact
def list_trials(connection: Connection, sweep_ids: Sequence[int], variants: Collection[str] = ()) -> list[TrialRow]:
    """Return the trials of some sweeps: sweep by sweep in the order given, each in its own order.

    Args:
        variants: only those of these names, all when empty.
    """
    found = []
    for sweep_id, member, facts, problem, tunables, ran, timed in iter_members(
        connection, sweep_ids, variants, _RUNS, _TIMINGS
    ):
        (key, ordinal, device_id, _, reason, remedy, identity, _, _, planned_device, _, label, useful_bytes, flops) = (
            member
        )
        run = None if ran is None else _run(ran)
        device_id = (run and run.device_id) or device_id or planned_device or None
        unavailable = None if reason is None else Unavailable(reason, remedy or "")
        timings = {timing.measure: timing for timing in map(_timing, timed)}
        values: tuple[Any, ...] = (
            *(key, sweep_id, ordinal, identity, label, *facts, problem, tunables),
            *(useful_bytes, flops, device_id, unavailable, run, timings),
        )
        found.append(TrialRow(*values))
    return found


def iter_members(
    connection: Connection,
    sweep_ids: Sequence[int],
    variants: Collection[str],
    runs: Any,
    timings: Any,
) -> Iterator[tuple[int, Any, Sequence[Any], Point, Point, Any, Sequence[Any]]]:
    """Yield the trials of some sweeps as rows: sweep by sweep in the order given, each in its own order.

    Each is the sweep, the row of `_MEMBERS`, that of `_VARIANTS` without its key, problem, tunables, the row of the run
    that the sweep goes by (None before there is one) and those of its timings. Of a hundred thousand runs the time goes
    by how many columns are asked for.

    Args:
        variants: only those of these names, all when empty.
        runs: what is selected of runs, the key first.
        timings: what is selected of timings, the run's key second, of types that the driver has.
    """
    for sweep_id in dict.fromkeys(sweep_ids):
        of_sweep = _MEMBERS.where(
            t.sweep_trial.c.sweep_id == sweep_id, *([t.variant.c.name.in_(variants)] if variants else [])
        )
        for members, facts, problems, ran, timed in _iter_parts(connection, of_sweep, runs, timings):
            for member in members:
                _, _, _, run_id, _, _, _, variant, problem, _, text, *_ = member
                run, timings_of = (None, ()) if run_id is None else (ran[run_id], timed[run_id])
                yield sweep_id, member, facts[variant], problems[problem], _point(text), run, timings_of


def _iter_parts(
    connection: Connection, of_sweep: Any, runs: Any, timings: Any
) -> Iterator[tuple[Sequence[Any], dict[int, Sequence[Any]], dict[int, Point], dict[int, Any], dict[int, list[Any]]]]:
    """Yield some members at a time, with their variants, problems, runs and timings by the keys that they have."""
    facts: dict[int, Sequence[Any]] = {}
    problems: dict[int, Point] = {}
    for members in connection.execute(of_sweep).partitions(CHUNK):
        if new := {member.variant_id for member in members} - facts.keys():
            facts |= {key: row for key, *row in connection.execute(_VARIANTS.where(t.variant.c.id.in_(new)))}
        if new := {member.problem_id for member in members} - problems.keys():
            points = connection.execute(_PROBLEMS.where(among(connection, t.problem.c.id, new)))
            problems |= {key: _point(coordinates) for key, coordinates in points}
        run_ids = [member.run_id for member in members if member.run_id is not None]
        ran = {row[0]: row for row in connection.execute(runs.where(among(connection, t.run.c.id, run_ids))).all()}
        timed: dict[int, list[Any]] = defaultdict(list)
        for row in connection.execute(timings.where(among(connection, t.timing.c.run_id, run_ids))).all():
            timed[row[1]].append(row)
        yield members, facts, problems, ran, timed


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


_VARIANTS = sa.select(
    *(t.variant.c.id, t.variant.c.family, t.variant.c.name, t.variant.c.ordinal, t.variant.c.kind, t.variant.c.backend),
    *(t.variant.c.expected, t.variant.c.description, t.variant.c.origin),
)
_PROBLEMS = sa.select(t.problem.c.id, sa.cast(t.problem.c.coordinates, sa.Text))
_RUNS = sa.select(
    *(
        t.run.c.id,
        t.run.c.sweep_id,
        t.run.c.device_id,
        t.run.c.state,
        t.run.c.phase,
        t.run.c.message,
        t.run.c.log,
        t.run.c.started_at,
        t.run.c.duration_ns,
    ),
    *(
        t.run.c.job,
        t.run.c.check_passed,
        t.run.c.check_error,
        t.run.c.check_error_absolute,
        t.run.c.check_error_relative,
    ),
    *(
        t.run.c.check_message,
        t.run.c.check_seed,
        t.run.c.build_registers,
        t.run.c.build_shared_bytes,
        t.run.c.build_spill_bytes,
    ),
    *(t.run.c.build_cached, t.run.c.build_ns, t.run.c.build_log),
)
_TIMINGS = sa.select(
    *(t.timing.c.id, t.timing.c.run_id, t.timing.c.measure, t.timing.c.method, t.timing.c.stopped_by),
    *(
        t.timing.c.sample_count,
        t.timing.c.excluded_count,
        *(t.timing.c[field.name] for field in fields(Summary)[2:]),
    ),
    *(
        sa.cast(t.timing.c.details, sa.Text),
        t.timing.c.rotation,
        t.timing.c.energy_j,
        t.timing.c.mean_w,
        t.timing.c.idle_w,
    ),
).order_by(t.timing.c.id)
_MEMBERS = (
    sa.select(
        *(t.trial.c.id, t.sweep_trial.c.ordinal, t.sweep_trial.c.device_id, t.sweep_trial.c.run_id),
        *(
            t.sweep_trial.c.unavailable_reason,
            t.sweep_trial.c.unavailable_remedy,
            t.trial.c.identity,
            t.trial.c.variant_id,
        ),
        *(t.trial.c.problem_id, t.trial.c.device_id.label("planned_device_id")),
        *(sa.cast(t.trial.c.tunables, sa.Text).label("tunables_text"), t.trial.c.label),
        *(t.trial.c.useful_bytes, t.trial.c.flops),
    )
    .join(t.trial, t.trial.c.id == t.sweep_trial.c.trial_id)
    .join(t.variant, t.variant.c.id == t.trial.c.variant_id)
    .order_by(t.sweep_trial.c.ordinal)
)


@lru_cache(maxsize=1 << 16)
def _point(text: str) -> Point:
    """Return the same point for the same text: few for many trials, and told to be equal at once."""
    return Point(json.decode(text, type=dict[str, Any]))


def _run(row: Any) -> RunRow:
    (key, sweep_id, device_id, state, phase, message, log, started_at, duration_ns, job, passed, error, absolute,
     relative, text, seed, registers, shared_bytes, spill_bytes, cached, build_ns, build_log) = row  # fmt: skip
    check = build = None
    if passed is not None:
        errors = (_number(error), _number(absolute), _number(relative))
        check = Check(passed, *errors, text or "", int(seed or 0))
    if cached is not None:
        build = BuildFacts(registers, shared_bytes, spill_bytes, cached, build_ns or 0, build_log or "")
    facts = (key, sweep_id, device_id, State(state), phase, message, log, started_at, duration_ns)
    return RunRow(*facts, check, build, job or "")


def _timing(row: Any) -> TimingRow:
    (key, run_id, measure, method, stopped_by, count, excluded, *figures, details, rotation,
     energy_j, mean_w, idle_w) = row  # fmt: skip
    summary = Summary(count, excluded, *(map(_number, figures) if None in figures else figures))
    energy = None if energy_j is None else Energy(energy_j, _number(mean_w), _number(idle_w))
    told = json.decode(details) or {}
    return TimingRow(key, run_id, Measure(measure), method, stopped_by, summary, told, rotation or "", energy)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
