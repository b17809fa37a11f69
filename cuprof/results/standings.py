"""What became of a family's variants in every sweep that ran them."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.point import Point
from cuprof.core.records import FAILED, State
from cuprof.results.intact import intact
from cuprof.store.models import Problem, Run, SweepTrial, Timing, Trial, Variant


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
    timed = sa.exists().where(Timing.run_id == Run.id, Timing.sample_count > 0, Timing.max_ns > 0)
    points = connection.execute(sa.select(Problem.id, Problem.coordinates).where(Problem.family == family))
    problems = {key: Point(coordinates) for key, coordinates in points}
    rows = connection.execute(
        sa.select(SweepTrial.sweep_id, Variant.name, Variant.expected, Trial.problem_id, Run.state, timed)
        .join(Trial, Trial.id == SweepTrial.trial_id)
        .join(Variant, Variant.id == Trial.variant_id)
        .join(Run, Run.id == SweepTrial.run_id)
        .where(Variant.family == family)
        .order_by(SweepTrial.sweep_id, SweepTrial.ordinal)
    )
    found = []
    for sweep_id, variant, expected, problem_id, state, is_timed in rows:
        is_tried = State(state) in FAILED or (state == State.OK and is_timed)
        found.append(Standing(sweep_id, variant, expected == "wrong", problems[problem_id], is_tried))
    return found
