"""The samples of stored timings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import Measure, State
from cuprof.results.read import TIMING_COLUMNS, make_columns, read_timings
from cuprof.statistics.samples import Samples
from cuprof.store import tables as t
from cuprof.store.rows import among

if TYPE_CHECKING:
    import pandas as pd

TOGETHER = 1000
"""Timings whose lists are read at once."""
POOL = 100
"""Pairs of series in a pool; from twenty on, more change next to nothing."""


def read_samples(connection: Connection, rows: pd.DataFrame) -> Samples:
    """Return the samples of some rows of the results frame, one series a row and in their order.

    A sample counts when it is not excluded and above 0: another one has no logarithm.

    Args:
        rows: timed rows of `read_results`; of their columns `timing_id`, `tick_ns` and `rotation` are read.

    Raises:
        StoreError: a timing has no sample that counts, or its lists are damaged.
    """
    wanted, places = np.unique(rows["timing_id"].to_numpy(np.int64), return_inverse=True)
    parts = [wanted[start : start + TOGETHER].tolist() for start in range(0, wanted.size, TOGETHER)]
    read = Samples.joined([_read_lists(connection, part) for part in parts])
    facts = {"tick_ns": rows["tick_ns"].to_numpy(np.float64), "rotation": rows["rotation"].to_numpy(object)}
    return replace(read.take(places), **facts)


def read_pool(connection: Connection, sweep_id: int, measure: str, device_id: int) -> Samples:
    """Return some series of what one sweep measured of a device, which say together how its samples are correlated.

    They are chosen by the sweep alone, evenly over its course: pairs of series that were timed one after the other.

    Args:
        sweep_id: the sweep that made the runs.
        device_id: 0 for runs without a device.
    """
    run, timing = t.run.c, t.timing.c
    of_sweep = (run.sweep_id == sweep_id, run.state == State.OK.value, timing.measure == measure)
    on_device = sa.func.coalesce(run.device_id, 0) == device_id
    query = sa.select(timing.id).join(t.run, run.id == timing.run_id).where(*of_sweep, on_device)
    ids = connection.scalars(query.where(timing.sample_count > 0, timing.max_ns > 0).order_by(timing.id)).all()
    pairs = len(ids) // 2
    first = 2 * (np.arange(min(POOL, pairs)) * pairs // max(1, min(POOL, pairs)))
    chosen = [ids[place] for place in np.column_stack((first, first + 1)).ravel().tolist()] or ids
    query = sa.select().where(among(connection, timing.id, chosen)).order_by(timing.id)
    return read_samples(connection, make_columns(read_timings(connection, query, TIMING_COLUMNS)))


def read_references(connection: Connection, sweep_ids: Sequence[int]) -> dict[tuple[int, str, str], tuple[str, int]]:
    """Return (sweep, job, measure) → identity and timing of a trial that several jobs of the sweep were right about.

    By such a reference the jobs' times are compared. Of several in a job, as a search's jobs have, the first counts.
    """
    run, timing = t.run.c, t.timing.c
    right = sa.and_(run.sweep_id.in_(sweep_ids), run.job.is_not(None), run.state == State.OK.value)
    of_trial = (run.sweep_id, run.trial_id)
    shared = sa.select(*of_trial).where(right).group_by(*of_trial).having(sa.func.count(run.job.distinct()) > 1)
    several = shared.subquery()
    rows = connection.execute(
        sa.select(run.sweep_id, run.job, t.trial.c.identity, timing.measure, timing.id)
        .join(several, sa.and_(several.c.sweep_id == run.sweep_id, several.c.trial_id == run.trial_id))
        .join(t.trial, t.trial.c.id == run.trial_id)
        .join(t.timing, timing.run_id == run.id)
        .where(right, timing.median_ns.is_not(None))
        .order_by(run.trial_id, timing.id)  # a job's first is the same trial in every job that has it
    )
    found: dict[tuple[int, str, str], tuple[str, int]] = {}
    first: dict[tuple[int, str], str] = {}
    for sweep_id, job, identity, measure, timing_id in rows:
        if first.setdefault((sweep_id, job), identity) == identity:
            found[sweep_id, job, Measure(measure).value] = identity, timing_id
    return found


# As text, which is decoded faster here than by the driver.
_LISTS = sa.select(
    t.samples.c.timing_id,
    *(sa.cast(column, sa.Text) for column in (t.samples.c.durations_ns, t.samples.c.rounds, t.samples.c.exclusions)),
).order_by(t.samples.c.timing_id)
_durations = msgspec.json.Decoder(list[float | None])
_rounds = msgspec.json.Decoder(list[int])
_exclusions = msgspec.json.Decoder(list[str])


def _read_lists(connection: Connection, timing_ids: Sequence[int]) -> Samples:
    """Return the samples of timings, given by rising number."""
    rows = connection.execute(_LISTS.where(among(connection, t.samples.c.timing_id, timing_ids))).all()
    if [timing_id for timing_id, durations, *_ in rows if durations != "[]"] != timing_ids:
        raise ValueError("a timing has no samples")
    _, durations, rounds, exclusions = zip(*rows, strict=True)
    values, counts = _join(durations, _durations, np.float64)  # one without a value is NaN
    numbers, others = _join(rounds, _rounds, np.int64)
    if (counts != others).any():
        raise ValueError("a timing has more or fewer durations than rounds")
    counted, starts = values > 0, np.cumsum(counts) - counts
    for place, text in enumerate(exclusions):
        if text:
            counted[starts[place] : starts[place] + counts[place]] &= np.array(_exclusions.decode(text)) == ""
    kept = np.add.reduceat(counted, starts, dtype=np.int64)
    if not kept.all():
        raise ValueError("a timing has no sample that counts")
    of_all = np.zeros(kept.size), np.zeros(kept.size), np.full(kept.size, "", dtype=object)
    return Samples(values[counted], numbers[counted], np.cumsum(kept), *of_all)


def _join(texts: Sequence[str], decoder: msgspec.json.Decoder[Any], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of many lists, and how many each has. One list of all is decoded faster than many lists."""
    joined = ",".join([text[1:-1] for text in texts])
    counts = np.array([text.count(",") + 1 for text in texts], dtype=np.int64)
    return np.array(decoder.decode(f"[{joined}]"), dtype=dtype), counts
