"""Read the columns of trials that comparisons need: a quarter of them, in half of the time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.point import Point
from cuprof.core.records import Measure, State, Unavailable
from cuprof.results.trials import TimingRow, TrialRow, iter_members
from cuprof.store import tables as t

FIRST_VERSION = "1.1"
"""The method's of timings that do not tell it: it was stored from the second on."""


class MeasuredTiming(NamedTuple):
    """One measure of a run.

    Args:
        median_ns: None or NaN where it has no value; so `min_ns` and `max_ns`.
        version: of the method.
        batch: executions that a sample is a mean of.
        tick_ns: the step in which it was read, 0 where that is not known.
    """

    id: int
    measure: Measure
    method: str
    sample_count: int
    median_ns: float | None
    min_ns: float | None
    max_ns: float | None
    rotation: str
    version: str
    batch: int
    tick_ns: float


class MeasuredRow(NamedTuple):
    """One trial as a member of one sweep, with what became of it.

    Args:
        device_id: of the run, else the one that it was planned for; None without one.
        run: trial, start and duration of the run that the sweep goes by; empty before there is one.
        run_sweep_id: the sweep that made the run; 0 without one.
        job: of the run; empty where it is not known.
        timings: of the run; of two methods the later one comes last.
    """

    family: str
    variant: str
    backend: str
    problem: Point
    tunables: Point
    identity: str
    is_expected_wrong: bool
    state: State
    message: str
    device_id: int | None
    run: str
    run_sweep_id: int
    job: str
    timings: Sequence[MeasuredTiming]


def iter_measured(
    connection: Connection, sweep_ids: Sequence[int], variants: Collection[str] = ()
) -> Iterator[MeasuredRow]:
    """Yield the trials of some sweeps: sweep by sweep in the order given, each in its own order.

    Args:
        variants: only those of these names, all when empty.
    """
    for _, member, facts, problem, tunables, ran, timed in iter_members(
        connection, sweep_ids, variants, _RUNS, _TIMINGS
    ):
        family, variant, _, _, backend, expected, *_ = facts
        _, _, device_id, _, reason, remedy, identity, _, _, planned_device_id, *_ = member
        run, sweep_id, job, device_id = "", 0, "", device_id or planned_device_id
        if ran is None:
            state = State.PLANNED if reason is None else State.SKIPPED
            message = "" if reason is None else str(Unavailable(reason, remedy or ""))
        else:
            _, sweep_id, ran_on, word, message, started_at, duration_ns, job = ran
            state, device_id, job = State(word), ran_on or device_id, job or ""
            run = _run_text(identity, started_at, duration_ns)
        about = (family, variant, backend, problem, tunables, identity, expected == "wrong", state, message)
        yield MeasuredRow(*about, device_id or None, run, sweep_id, job, [_timing(row) for row in timed])


def measured_of(trial: TrialRow) -> MeasuredRow:
    """Return what `iter_measured` yields of a trial that has been read whole."""
    about = (trial.family, trial.variant, trial.backend, trial.problem, trial.tunables, trial.identity)
    ending = (trial.is_expected_wrong, trial.state, trial.message, trial.device_id)
    run, timings = trial.run, [_timing_of(timing) for timing in trial.timings.values()]
    if run is None:
        return MeasuredRow(*about, *ending, "", 0, "", timings)
    told = _run_text(trial.identity, run.started_at, run.duration_ns)
    return MeasuredRow(*about, *ending, told, run.sweep_id, run.job, timings)


def _run_text(identity: str, started_at: float | None, duration_ns: int) -> str:
    return f"{identity} {started_at} {duration_ns}"


def _timing_of(timing: TimingRow) -> MeasuredTiming:
    summary, told = timing.summary, timing.details.get
    figures = (summary.count, summary.median_ns, summary.min_ns, summary.max_ns)
    details = _plain_details(told("version"), told("batch"), told("tick_ns"))
    return MeasuredTiming(timing.id, timing.measure, timing.method, *figures, timing.rotation, *details)


def _plain_details(version: Any, batch: Any, tick_ns: Any) -> tuple[str, int, float]:
    return str(version or FIRST_VERSION), int(batch or 1), float(tick_ns or 0.0)


class _Details(msgspec.Struct):
    """Those of a timing's details that are needed."""

    version: Any = None
    batch: Any = None
    tick_ns: Any = None


_details = msgspec.json.Decoder(_Details)
_RUNS = sa.select(
    *(
        t.run.c.id,
        t.run.c.sweep_id,
        t.run.c.device_id,
        t.run.c.state,
        t.run.c.message,
        t.run.c.started_at,
        t.run.c.duration_ns,
        t.run.c.job,
    ),
)
_TIMINGS = sa.select(
    *(t.timing.c.id, t.timing.c.run_id, t.timing.c.measure, t.timing.c.method, t.timing.c.sample_count),
    *(
        t.timing.c.median_ns,
        t.timing.c.min_ns,
        t.timing.c.max_ns,
        t.timing.c.rotation,
        sa.cast(t.timing.c.details, sa.Text),
    ),
).order_by(t.timing.c.id)


def _timing(row: Any) -> MeasuredTiming:
    key, _, measure, method, count, median_ns, min_ns, max_ns, rotation, text = row
    details = _details.decode(text)
    plain = _plain_details(details.version, details.batch, details.tick_ns)
    figures = (count, median_ns, min_ns, max_ns)
    return MeasuredTiming(key, Measure(measure), method, *figures, rotation or "", *plain)
