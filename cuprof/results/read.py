"""The database as one data frame: what became of every trial of some sweeps, and each of its times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.store import tables as t
from cuprof.store.rows import CHUNK

FIRST_VERSION = "1.1"
"""Version of the method of timings that do not name theirs: it has been stored from the second version on."""


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
      `reused` (1 or 0), `started_at` (seconds since the epoch), `duration_ns`, `job` (equal for what was measured in
      one job, empty where that is not known), `code` (hash of its machine code and launches; see
      `cuprof.builds.machine_code.hash_program`)
    - the timing: `timing_id` (0 without one), `measure` (a word of `Measure`), `method` (its hash), `version` (of the
      method), `samples`, `excluded` (counts), `median_ns`, `low_ns`, `high_ns`, `confidence`, `min_ns`, `max_ns`,
      `rotation`, `batch` (executions that a sample is the mean of), `tick_ns` (of the timer, 0 where it is not known),
      `energy_unavailable` (why there is no energy)

    With `whole`, what only pages show stands beside it:

    - `label`, `description`, `origin` (of the variant), `unavailable_reason`, `unavailable_remedy`
    - of the run: `phase`, `log`, `check_passed` (1, 0, NaN without a check), `check_error`, `check_error_absolute`,
      `check_error_relative`, `check_message`, `check_seed` (an `int` of any size), `registers`, `shared_bytes`,
      `spill_bytes`, `build_cached` (1, 0, NaN without a build), `build_ns`, `build_log`
    - of the timing: `stopped_by`, `mean_ns`, `stdev_ns`, `q1_ns`, `q3_ns`, `energy_j`, `mean_w`, `idle_w`

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
    members = _MEMBERS.where(chosen)
    of_runs = sa.select().where(t.timing.c.run_id.in_(members.with_only_columns(t.run.c.id)))
    of_members, of_timings = _MEMBER_COLUMNS, _TIMING_COLUMNS
    if whole:
        of_members, of_timings = of_members | _MORE_MEMBER_COLUMNS, of_timings | _MORE_TIMING_COLUMNS
    found = read_columns(connection, members, of_members)
    timed = read_columns(connection, of_runs, of_timings, [None] * len(of_timings))
    timed |= _tell(timed.pop("details"))
    places = {sweep_id: place for place, sweep_id in enumerate(dict.fromkeys(sweep_ids))}
    order = np.lexsort((found["ordinal"], [places[sweep_id] for sweep_id in found["sweep_id"].tolist()]))
    members_of, timings_of = _meet(order, found["run_id"], timed.pop("of_run"), timed["measure"], timed["timing_id"])
    columns = {name: found.pop(name)[members_of] for name in [*found]}
    return make_columns(columns | {name: timed.pop(name)[timings_of] for name in [*timed]})


def make_columns(columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return a frame that takes over arrays as its columns, with their types.

    Of words pandas would make a type that refuses some text.
    """
    made = {name: pd.Series(values, dtype=values.dtype, copy=False) for name, values in columns.items()}
    return pd.DataFrame(made, copy=False)


def timer_tick(details: str | None) -> float:
    """Return the step in ns in which a timing was read, by the JSON text of its details; 0 where it is not known."""
    return float(_decoder.decode(details or "{}").tick_ns or 0.0)


def read_columns(
    connection: Connection, query: sa.Select[Any], columns: Mapping[str, tuple[str, Any]], *more: Sequence[Any]
) -> dict[str, Any]:
    """Return columns of a query's rows, and of some rows more.

    Args:
        columns: name → kind of the values (see `_READERS`) and what is selected.
    """
    readers = [_READERS[kind]() for kind, _ in columns.values()]
    parts = [[reader(())] for reader in readers]
    asked = query.with_only_columns(*(expression.label(name) for name, (_, expression) in columns.items()))
    with connection.execute(asked.execution_options(yield_per=CHUNK)) as result:  # a server's result is large
        for rows in chain(result.partitions(), [more] if more else []):
            for column, reader, values in zip(parts, readers, zip(*rows, strict=True), strict=True):
                column.append(reader(values))
    return {name: np.concatenate(parts.pop(0)) for name in columns}  # one column's parts at a time are held beside it


def _meet(
    members: np.ndarray, run_ids: np.ndarray, of_run: np.ndarray, measures: np.ndarray, timing_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the member and of the timing that stand in each row; -1 where a member has no timing.

    Args:
        members: the members' places in their order.
        run_ids: of the members, by place.
        of_run, measures, timing_ids: of the timings, by place.
    """
    timings = pd.DataFrame({"run": of_run, "measure": measures, "id": timing_ids, "at": np.arange(of_run.size)})
    last = timings.sort_values("id").drop_duplicates(["run", "measure"], keep="last")
    met = pd.DataFrame({"member": members, "run": run_ids[members]}).merge(last[["run", "at"]], on="run", how="left")
    return met["member"].to_numpy(), met["at"].fillna(-1).to_numpy(np.int64)


class _Details(msgspec.Struct):
    """The fields read from a timing's details."""

    version: Any = None
    batch: Any = None
    tick_ns: Any = None
    energy_unavailable: Any = None


class _Words:
    """Read a column of words. Equal ones become one object, so that the column takes 8 bytes a row."""

    def __init__(self, make: Callable[[str], Any] = str) -> None:
        self._make, self._known = make, dict[Any, Any]()

    def __call__(self, values: Sequence[str | None]) -> np.ndarray:
        for value in set(values) - self._known.keys():
            self._known[value] = self._make(value or "")
        # A list would have NumPy ask each point, which is a mapping, whether it is an array.
        return np.fromiter(map(self._known.__getitem__, values), dtype=object, count=len(values))


@lru_cache(maxsize=2**16)
def _point(text: str) -> Point:
    """Return one and the same point for equal text, also to another read: comparing it with itself takes no time."""
    return Point(msgspec.json.decode(text, type=dict[str, Any]))


def _whole(values: Sequence[int | None]) -> np.ndarray:
    return np.array([value or 0 for value in values], dtype=np.int64)


def _numbers(values: Sequence[Any]) -> np.ndarray:
    return np.array(values, dtype=np.float64)  # None becomes NaN


def _details(values: Sequence[str | None]) -> np.ndarray:
    read = (_decoder.decode(text) if text else None for text in values)
    return np.fromiter(read, dtype=object, count=len(values))


def _tell(details: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns that the details of timings tell; where there is no timing, they are None."""
    return {
        "version": _Words()(["" if each is None else str(each.version or FIRST_VERSION) for each in details]),
        "batch": _whole([(each and each.batch) or 1 for each in details]),
        "tick_ns": np.array([(each and each.tick_ns) or 0.0 for each in details], dtype=np.float64),
        "energy_unavailable": _Words()([each and each.energy_unavailable for each in details]),
    }


_decoder = msgspec.json.Decoder(_Details)
_READERS: dict[str, Callable[[], Callable[[Sequence[Any]], np.ndarray]]] = {
    "word": _Words,
    "state": lambda: _Words(lambda word: State(word).value),
    "measure": lambda: _Words(lambda word: word and Measure(word).value),
    "point": lambda: _Words(_point),
    "seed": lambda: _Words(lambda text: int(text or 0)),
    "whole": lambda: _whole,
    "number": lambda: _numbers,
    "details": lambda: _details,
}
"""Kind of a column → what makes a reader of its values for one read."""


def named(kind: str, table: Any, *names: str) -> dict[str, tuple[str, Any]]:
    """Return columns that have their table's names."""
    return {name: (kind, table.c[name]) for name in names}


_DEVICE_ID = sa.func.coalesce(t.run.c.device_id, t.sweep_trial.c.device_id, t.trial.c.device_id)
_MEMBERS = (
    sa.select()
    .select_from(t.sweep_trial)
    .join(t.trial, t.trial.c.id == t.sweep_trial.c.trial_id)
    .join(t.variant, t.variant.c.id == t.trial.c.variant_id)
    .join(t.problem, t.problem.c.id == t.trial.c.problem_id)
    .outerjoin(t.run, t.run.c.id == t.sweep_trial.c.run_id)
    .outerjoin(t.device, t.device.c.id == _DEVICE_ID)
)
"""The members of sweeps, each with the run that the sweep goes by."""
_UNAVAILABLE = t.sweep_trial.c.unavailable_reason
_STATE = sa.func.coalesce(
    t.run.c.state, sa.case((_UNAVAILABLE.is_(None), State.PLANNED.value), else_=State.SKIPPED.value)
)
_REMEDY = sa.case((t.sweep_trial.c.unavailable_remedy != "", "; " + t.sweep_trial.c.unavailable_remedy), else_="")
_MEMBER_COLUMNS: dict[str, tuple[str, Any]] = {
    **named("whole", t.sweep_trial, "sweep_id", "ordinal"),
    "trial_id": ("whole", t.trial.c.id),
    "identity": ("word", t.trial.c.identity),
    "family": ("word", t.variant.c.family),
    "variant": ("word", t.variant.c.name),
    "variant_order": ("whole", t.variant.c.ordinal),
    **named("word", t.variant, "kind", "backend", "expected"),
    "problem": ("point", sa.cast(t.problem.c.coordinates, sa.Text)),
    "tunables": ("point", sa.cast(t.trial.c.tunables, sa.Text)),
    **named("number", t.trial, "useful_bytes", "flops"),
    "device_id": ("whole", t.device.c.id),
    "device": ("word", t.device.c.name),
    "device_key": ("word", t.device.c.comparable),
    "state": ("state", _STATE),
    "message": ("word", sa.func.coalesce(t.run.c.message, _UNAVAILABLE + _REMEDY)),
    "run_id": ("whole", t.run.c.id),
    "run_sweep_id": ("whole", t.run.c.sweep_id),
    "reused": ("whole", t.sweep_trial.c.reused),
    "started_at": ("number", t.run.c.started_at),
    "duration_ns": ("whole", t.run.c.duration_ns),
    "job": ("word", t.run.c.job),
    "code": ("word", t.run.c.build_sass_hash),
}
_TIMING_COLUMNS: dict[str, tuple[str, Any]] = {
    "of_run": ("whole", t.timing.c.run_id),
    "timing_id": ("whole", t.timing.c.id),
    "measure": ("measure", t.timing.c.measure),
    "method": ("word", t.timing.c.method),
    "samples": ("whole", t.timing.c.sample_count),
    "excluded": ("whole", t.timing.c.excluded_count),
    **named("number", t.timing, "median_ns", "low_ns", "high_ns", "confidence", "min_ns", "max_ns"),
    "rotation": ("word", t.timing.c.rotation),
    "details": ("details", sa.cast(t.timing.c.details, sa.Text)),
}
_MORE_MEMBER_COLUMNS: dict[str, tuple[str, Any]] = {
    "label": ("word", t.trial.c.label),
    **named("word", t.variant, "description", "origin"),
    **named("word", t.sweep_trial, "unavailable_reason", "unavailable_remedy"),
    **named("word", t.run, "phase", "log", "check_message"),
    "check_seed": ("seed", t.run.c.check_seed),
    **named("number", t.run, "check_passed", "check_error", "check_error_absolute", "check_error_relative"),
    "registers": ("number", t.run.c.build_registers),
    "shared_bytes": ("number", t.run.c.build_shared_bytes),
    "spill_bytes": ("number", t.run.c.build_spill_bytes),
    **named("number", t.run, "build_cached", "build_ns"),
    "build_log": ("word", t.run.c.build_log),
}
_MORE_TIMING_COLUMNS: dict[str, tuple[str, Any]] = {
    "stopped_by": ("word", t.timing.c.stopped_by),
    **named("number", t.timing, "mean_ns", "stdev_ns", "q1_ns", "q3_ns", "energy_j", "mean_w", "idle_w"),
}
