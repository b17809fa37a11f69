"""What became of a family's variants in every sweep that ran them."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.point import Point
from cuprof.core.records import FAILED, State
from cuprof.results.intact import intact
from cuprof.store import tables as t


@dataclass(frozen=True, slots=True)
class Standing:
    """One run that a sweep goes by.

    Args:
        is_tried: it was timed, with a sample that counts, or it failed.
    """

    sweep_id: int
    variant: str
    is_expected_wrong: bool
    problem: Point
    is_tried: bool


@intact
def list_standings(connection: Connection, family: str) -> list[Standing]:
    """Return every run of a family's trials that some sweep goes by, sweep by sweep."""
    timed = sa.exists().where(t.timing.c.run_id == t.run.c.id, t.timing.c.sample_count > 0, t.timing.c.max_ns > 0)
    points = connection.execute(sa.select(t.problem.c.id, t.problem.c.coordinates).where(t.problem.c.family == family))
    problems = {key: Point(coordinates) for key, coordinates in points}
    rows = connection.execute(
        sa.select(
            t.sweep_trial.c.sweep_id, t.variant.c.name, t.variant.c.expected, t.trial.c.problem_id, t.run.c.state, timed
        )
        .join(t.trial, t.trial.c.id == t.sweep_trial.c.trial_id)
        .join(t.variant, t.variant.c.id == t.trial.c.variant_id)
        .join(t.run, t.run.c.id == t.sweep_trial.c.run_id)
        .where(t.variant.c.family == family)
        .order_by(t.sweep_trial.c.sweep_id, t.sweep_trial.c.ordinal)
    )
    found = []
    for sweep_id, variant, expected, problem_id, state, is_timed in rows:
        is_tried = State(state) in FAILED or (state == State.OK and is_timed)
        found.append(Standing(sweep_id, variant, expected == "wrong", problems[problem_id], is_tried))
    return found
