"""The stored trials that somebody means by a variant's name and a few coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import SelectionError, UnknownNameError, UsageError
from cuprof.core.point import Point
from cuprof.core.text import list_first
from cuprof.plan.axes import match
from cuprof.results.sweeps import as_record
from cuprof.store import tables as t


@dataclass(frozen=True)
class NamedTrial:
    """A stored trial, with what its code was built from.

    Args:
        sass_hash: of the newest run whose machine code is known.
        sweep_id: of the newest run; 0 before there is one.
        median_ns: the shortest time of any measure; infinite without one.
    """

    id: int
    label: str
    family: str
    variant: str
    backend: str
    kind: str
    problem: Point
    tunables: Point
    source_text: str
    device: str = ""
    device_facts: Mapping[str, Any] = field(default_factory=dict)
    sass_hash: str = ""
    sweep_id: int = 0
    median_ns: float = math.inf


def find_trials(connection: Connection, text: str, settings: Sequence[str] = ()) -> list[NamedTrial]:
    """Return the trials that a word means: those of the newest sweep first, of each sweep the fastest first.

    Args:
        text: a variant's name as typed, with coordinates: "reduction/last_warp:block=128".
        settings: further coordinates, such as problem.n=2**20 or tune.block=128.

    Raises:
        UsageError: a coordinate or setting without a value, or a variant of several families.
        UnknownNameError: no such variant is stored; the message names the nearest.
        SelectionError: it has no trial at these coordinates.
    """
    name, _, given = text.partition(":")
    coordinates = _read_coordinates([*filter(None, given.split(","))], settings)
    family, slash, variant = name.rpartition("/")
    of_name = [t.variant.c.name == variant, *([t.variant.c.family == family] if slash else [])]
    trials = [as_record(row, NamedTrial) for row in connection.execute(_select().where(*of_name))]
    if not trials:
        stored = connection.execute(sa.select(t.variant.c.family, t.variant.c.name).distinct())
        names = [f"{family}/{variant}" if slash else variant for family, variant in stored]
        if name in names:
            raise SelectionError(f"no trial of {name} is stored; run a sweep of it first")
        raise UnknownNameError("variant", name, names)
    families = sorted({trial.family for trial in trials})
    if len(families) > 1:
        raise UsageError(f"{variant!r} is a variant of {list_first(families, 5)}; write {families[0]}/{variant}")
    points = [{**trial.problem, **trial.tunables} for trial in trials]
    fitting = [
        trial
        for trial, point in zip(trials, points, strict=True)
        if all(axis in point and match(value, [point[axis]]) is not None for axis, value in coordinates.items())
    ]
    if not fitting:
        known = {Point({axis: point[axis] for axis in point if axis in coordinates}).label for point in points}
        there = list_first(sorted(known - {""}), 5, "; ") or f"no {' or '.join(coordinates)}"
        raise SelectionError(f"no trial of {text} is stored there: there is {there}")
    return sorted(fitting, key=lambda trial: (-trial.sweep_id, trial.median_ns, trial.id))


def _read_coordinates(given: Sequence[str], settings: Sequence[str]) -> dict[str, str]:
    """Return coordinates of the problem or the tunables, as typed; a setting says which of the two it is of."""
    found = {}
    for word in [*given, *settings]:
        axis, equals, value = word.partition("=")
        name = axis.removeprefix("problem.").removeprefix("tune.")
        if not (equals and name and value) or (word in settings and name == axis):
            raise UsageError(f"{word!r} is no coordinate; write problem.n=2**20, tune.block=128 or VARIANT:block=128")
        found[name] = value
    return found


def _select() -> sa.Select[Any]:
    """Select trials with the facts of their newest runs."""
    runs, device_id = t.run.alias(), sa.func.coalesce(t.run.c.device_id, t.trial.c.device_id)
    of_trial = sa.select(runs.c.id).where(runs.c.trial_id == t.trial.c.id).order_by(runs.c.id.desc()).limit(1)
    newest = of_trial.scalar_subquery()
    hashed = of_trial.with_only_columns(runs.c.build_sass_hash).where(runs.c.build_sass_hash.is_not(None))
    fastest = sa.select(sa.func.min(t.timing.c.median_ns)).where(t.timing.c.run_id == t.run.c.id)
    about: list[Any] = [t.variant.c[name] for name in ("family", "backend", "kind", "source_text")]
    about += [t.variant.c.name.label("variant"), t.problem.c.coordinates.label("problem")]
    about += [t.device.c.name.label("device"), t.device.c.identity.label("device_facts")]
    about += [hashed.label("sass_hash"), t.run.c.sweep_id, fastest.label("median_ns")]
    return (
        sa.select(t.trial.c.id, t.trial.c.label, t.trial.c.tunables, *about)
        .join(t.variant, t.variant.c.id == t.trial.c.variant_id)
        .join(t.problem, t.problem.c.id == t.trial.c.problem_id)
        .outerjoin(t.run, t.run.c.id == newest.correlate(t.trial))
        .outerjoin(t.device, t.device.c.id == device_id)
    )
