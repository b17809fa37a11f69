"""The counted samples of timings, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.store.connection import checking
from cuprof.store.models import Sample
from cuprof.store.rows import chunks

AT_ONCE = 50_000
"""Rows that are held as Python objects at a time."""


@dataclass(frozen=True, slots=True)
class SampleArrays:
    """The samples of one timing that count, in the order in which they were taken.

    Args:
        rounds: number of each sample's round, int64.
        durations_ns: float64, of the same length.
    """

    rounds: np.ndarray
    durations_ns: np.ndarray


def iter_samples(connection: Connection, timing_ids: Iterable[int]) -> Iterator[tuple[int, SampleArrays]]:
    """Yield (timing, its samples) by rising number of the timing; those without a counted sample are left out.

    Many are read in one pass over the table, which lies ordered by timing, and few of them are held at a time.
    """
    for chunk in chunks(sorted(set(timing_ids))):
        result = connection.execute(_COUNTED.where(Sample.timing_id.in_(chunk)))
        waiting = np.empty((0, 3))
        for rows in result.partitions(AT_ONCE):
            with checking(connection.engine.url):
                table = np.concatenate([waiting, _table(rows)])
            whole = int(np.searchsorted(table[:, 0], table[-1, 0]))  # the last timing may go on in the next rows
            yield from _split(table[:whole])
            waiting = table[whole:]
        yield from _split(waiting)


_COUNTED = (
    sa.select(Sample.timing_id, Sample.round, sa.type_coerce(Sample.duration_ns, sa.Double))  # as fast as the driver
    .where(Sample.excluded == "", Sample.duration_ns.is_not(None))
    .order_by(Sample.timing_id, Sample.ordinal)
)


def _table(rows: Any) -> np.ndarray:
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.float64, count=3 * len(rows))  # keys stay exact up to 2^53
    if not np.isfinite(flat).all():
        raise ValueError("a duration is no finite number")
    return flat.reshape(-1, 3)


def _split(table: np.ndarray) -> Iterator[tuple[int, SampleArrays]]:
    keys, starts = np.unique(table[:, 0], return_index=True)
    for key, start, end in zip(keys, starts, [*starts[1:], len(table)], strict=False):  # of no rows: no keys
        yield int(key), SampleArrays(table[start:end, 1].astype(np.int64), table[start:end, 2].copy())
