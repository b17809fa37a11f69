"""The database as one data frame: what became of every trial of some sweeps, and each of its times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.results.sweeps import MEMBERS
from cuprof.store import tables as t
from cuprof.store.rows import AT_ONCE

FIRST_VERSION = "1.1"
"""Version of the method of timings that do not name theirs: it has been stored from the second version on."""
Reader = Callable[[Sequence[Any]], np.ndarray]
"""Makes a column of a database's values."""


def read_results(
    connection: Connection, sweep_ids: Sequence[int], variants: Collection[str] = (), *, whole: bool = False
) -> pd.DataFrame:
    """Return one row for each sweep, trial and measure; a trial that was not timed has one row.

    Rows come sweep by sweep in the order given, in each sweep by `ordinal`, of each trial by `timing_id`. Of two
    timings of one measure in one run (two methods) the later one stands. Column by column:

    - `sweep_id`, `ordinal` (place in the sweep), `trial_id`, `identity`
    - `family`, `variant`, `variant_order` (its place in the family), `kind`, `backend`, `expected` ("right", "wrong")
    - `problem`, `tunables`: a `Point`; equal text gives one and the same object
    - `useful_bytes`, `flops`
    - `device_id` (of the run, else of the sweep's plan, else of the trial; 0 without one), `device` (its name),
      `device_key` (equal where timings are comparable)
    - `state` (a word of `State`), `message` (of the run, else why it is unavailable)
    - the run that the sweep goes by: `run_id` (0 before there is one), `run_sweep_id` (the sweep that made it),
      `started_at` (seconds since the epoch), `duration_ns`, `job` (equal for what was measured in one job, empty where
      that is not known), `code` (hash of its machine code and launches; see `cuprof.builds.machine_code.hash_program`)
    - the timing: `timing_id` (0 without one), `measure` (a word of `Measure`), `method` (its hash), `version` (of the
      method), `samples`, `excluded` (counts), `median_ns`, `low_ns`, `high_ns`, `confidence`, `min_ns`, `max_ns`,
      `rotation`, `batch` (executions that a sample is the mean of), `tick_ns` (of the timer, 0 where it is not known),
      `energy_unavailable` (why there is no energy)

    With `whole`, what only pages show stands beside it:

    - `origin` (of the variant)
    - of the run: `log`, `check_error`, `registers`
    - of the timing: `stopped_by`, `q1_ns`, `q3_ns`, `energy_j`, `mean_w`, `idle_w`

    Words are `str` in columns of dtype object, empty where the database has no value. Keys, counts and `duration_ns`
    are int64, 0 without a value. All other numbers are float64, NaN without a value.

    Args:
        variants: only those of these names, all when empty.
        whole: read the second list of columns as well; without it, 100,000 trials take half of the time and memory.

    Raises:
        StoreError: the database holds what cuprof never writes.
    """
    chosen: sa.ColumnElement[bool] = t.sweep_trial.c.sweep_id.in_(sweep_ids)
    if variants:
        chosen &= t.variant.c.name.in_(variants)
    members = MEMBERS.where(chosen).join(t.problem, t.problem.c.id == t.trial.c.problem_id)
    members = members.outerjoin(t.device, t.device.c.id == _DEVICE_ID)
    of_runs = sa.select().where(t.timing.c.run_id.in_(members.with_only_columns(t.run.c.id)))
    of_members, of_timings = _MEMBER_COLUMNS, TIMING_COLUMNS
    if whole:
        of_members, of_timings = of_members | _MORE_MEMBER_COLUMNS, of_timings | _MORE_TIMING_COLUMNS
    found = read_columns(connection, members, of_members)
    timed = read_timings(connection, of_runs, of_timings, [None] * len(of_timings))
    places = {sweep_id: place for place, sweep_id in enumerate(dict.fromkeys(sweep_ids))}
    order = np.lexsort((found["ordinal"], [places[sweep_id] for sweep_id in found["sweep_id"].tolist()]))
    members_of, timings_of = _meet(order, found["run_id"], timed.pop("of_run"), timed["measure"], timed["timing_id"])
    columns = {name: found.pop(name)[members_of] for name in [*found]}
    return make_columns(columns | {name: timed.pop(name)[timings_of] for name in [*timed]})


def make_columns(columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return a frame that takes over arrays as its columns, with their types.

    Of words pandas would make a type that refuses some text. One index for all halves the time of a small frame.
    """
    index = pd.RangeIndex(len(next(iter(columns.values()), ())))
    made = {name: pd.Series(values, index=index, dtype=values.dtype, copy=False) for name, values in columns.items()}
    return pd.DataFrame(made, index=index, copy=False)


def read_timings(
    connection: Connection, query: sa.Select[Any], columns: Mapping[str, tuple[Reader, Any]], *more: Sequence[Any]
) -> dict[str, Any]:
    """Return columns of timings as `read_columns` does, with what their details tell in place of the details."""
    timed = read_columns(connection, query, columns, *more)
    details = timed.pop("details")
    return timed | {
        "version": to_words(["" if each is None else str(each.version or FIRST_VERSION) for each in details]),
        "batch": to_integers([(each and each.batch) or 1 for each in details]),
        "tick_ns": to_floats([(each and each.tick_ns) or 0.0 for each in details]),
        "energy_unavailable": to_words([each and each.energy_unavailable for each in details]),
    }


def read_columns(
    connection: Connection, query: sa.Select[Any], columns: Mapping[str, tuple[Reader, Any]], *more: Sequence[Any]
) -> dict[str, Any]:
    """Return columns of a query's rows, and of some rows more.

    Args:
        columns: name → what makes a column of the values, and what is selected.
    """
    readers = [reader for reader, _ in columns.values()]
    parts = [[reader(())] for reader in readers]
    asked = query.with_only_columns(*(expression.label(name) for name, (_, expression) in columns.items()))
    with connection.execute(asked.execution_options(yield_per=AT_ONCE)) as result:  # a server's result is large
        for rows in chain(result.partitions(), [more] if more else []):
            for column, reader, values in zip(parts, readers, zip(*rows, strict=True), strict=True):
                column.append(reader(values))
    return {name: np.concatenate(parts.pop(0)) for name in columns}  # one column's parts at a time are held beside it


def _meet(
    members: np.ndarray, run_ids: np.ndarray, of_run: np.ndarray, measures: np.ndarray, timing_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the member and of the timing that stand in each row; -1 where a member has no timing.

    Args:
        members: the members' places in their order; all else is by place, of members or of timings.
    """
    timings = pd.DataFrame({"run": of_run, "measure": measures, "id": timing_ids, "at": np.arange(of_run.size)})
    last = timings.sort_values("id").drop_duplicates(["run", "measure"], keep="last")
    met = pd.DataFrame({"member": members, "run": run_ids[members]}).merge(last[["run", "at"]], on="run", how="left")
    return met["member"].to_numpy(), met["at"].fillna(-1).to_numpy(np.int64)


class _Details(msgspec.Struct):
    version: Any = None
    batch: Any = None
    tick_ns: Any = None
    energy_unavailable: Any = None


def to_words(values: Sequence[str | None], make: Callable[[str], Any] = str) -> np.ndarray:
    """Return a column of words, or of what is made of each. Equal ones become one object: it takes 8 bytes a row."""
    known = {value: make(value or "") for value in set(values)}
    # A list would have NumPy ask each point, which is a mapping, whether it is an array.
    return np.fromiter(map(known.__getitem__, values), dtype=object, count=len(values))


@lru_cache(maxsize=2**16)
def _point(text: str) -> Point:
    """Return one and the same point for equal text, also to another read: comparing it with itself takes no time."""
    return Point(msgspec.json.decode(text, type=dict[str, Any]))


def to_integers(values: Sequence[int | None]) -> np.ndarray:
    """Return a column of whole numbers, 0 where there is none."""
    return np.array([value or 0 for value in values], dtype=np.int64)


def to_floats(values: Sequence[Any]) -> np.ndarray:
    """Return a column of numbers, NaN where there is none."""
    return np.array(values, dtype=np.float64)


def _to_details(values: Sequence[str | None]) -> np.ndarray:
    read = (_decoder.decode(text) if text else None for text in values)
    return np.fromiter(read, dtype=object, count=len(values))


_decoder = msgspec.json.Decoder(_Details)
_to_points = partial(to_words, make=_point)
_to_states = partial(to_words, make=lambda word: State(word).value)
_to_measures = partial(to_words, make=lambda word: word and Measure(word).value)


def named(reader: Reader, table: Any, *names: str) -> dict[str, tuple[Reader, Any]]:
    """Return columns that have their table's names."""
    return {name: (reader, table.c[name]) for name in names}


_DEVICE_ID = sa.func.coalesce(t.run.c.device_id, t.sweep_trial.c.device_id, t.trial.c.device_id)
_UNAVAILABLE = t.sweep_trial.c.unavailable_reason
_STATE = sa.func.coalesce(
    t.run.c.state, sa.case((_UNAVAILABLE.is_(None), State.PLANNED.value), else_=State.SKIPPED.value)
)
_REMEDY = sa.case((t.sweep_trial.c.unavailable_remedy != "", "; " + t.sweep_trial.c.unavailable_remedy), else_="")
_MEMBER_COLUMNS: dict[str, tuple[Reader, Any]] = {
    **named(to_integers, t.sweep_trial, "sweep_id", "ordinal"),
    "trial_id": (to_integers, t.trial.c.id),
    "identity": (to_words, t.trial.c.identity),
    "family": (to_words, t.variant.c.family),
    "variant": (to_words, t.variant.c.name),
    "variant_order": (to_integers, t.variant.c.ordinal),
    **named(to_words, t.variant, "kind", "backend", "expected"),
    "problem": (_to_points, sa.cast(t.problem.c.coordinates, sa.Text)),
    "tunables": (_to_points, sa.cast(t.trial.c.tunables, sa.Text)),
    **named(to_floats, t.trial, "useful_bytes", "flops"),
    "device_id": (to_integers, t.device.c.id),
    "device": (to_words, t.device.c.name),
    "device_key": (to_words, t.device.c.comparable),
    "state": (_to_states, _STATE),
    "message": (to_words, sa.func.coalesce(t.run.c.message, _UNAVAILABLE + _REMEDY)),
    "run_id": (to_integers, t.run.c.id),
    "run_sweep_id": (to_integers, t.run.c.sweep_id),
    "started_at": (to_floats, t.run.c.started_at),
    "duration_ns": (to_integers, t.run.c.duration_ns),
    "job": (to_words, t.run.c.job),
    "code": (to_words, t.run.c.build_sass_hash),
}
TIMING_COLUMNS: dict[str, tuple[Reader, Any]] = {
    "of_run": (to_integers, t.timing.c.run_id),
    "timing_id": (to_integers, t.timing.c.id),
    "measure": (_to_measures, t.timing.c.measure),
    "method": (to_words, t.timing.c.method),
    "samples": (to_integers, t.timing.c.sample_count),
    "excluded": (to_integers, t.timing.c.excluded_count),
    **named(to_floats, t.timing, "median_ns", "low_ns", "high_ns", "confidence", "min_ns", "max_ns"),
    "rotation": (to_words, t.timing.c.rotation),
    "details": (_to_details, sa.cast(t.timing.c.details, sa.Text)),
}
_MORE_MEMBER_COLUMNS: dict[str, tuple[Reader, Any]] = {
    "origin": (to_words, t.variant.c.origin),
    "log": (to_words, t.run.c.log),
    "check_error": (to_floats, t.run.c.check_error),
    "registers": (to_floats, t.run.c.build_registers),
}
_MORE_TIMING_COLUMNS: dict[str, tuple[Reader, Any]] = {
    "stopped_by": (to_words, t.timing.c.stopped_by),
    **named(to_floats, t.timing, "q1_ns", "q3_ns", "energy_j", "mean_w", "idle_w"),
}
