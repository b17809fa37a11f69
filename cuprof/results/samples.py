"""The counted samples of timings, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.store.connection import checking
from cuprof.store.models import Samples
from cuprof.store.rows import among, chunks, plain_rows

TOGETHER = 1000
"""Timings whose lists are read at once."""


class SampleArrays(NamedTuple):
    """The samples of one timing that count, in the order in which they were taken.

    Args:
        rounds: number of each sample's round, int64.
        durations_ns: float64, of the same length.
    """

    rounds: np.ndarray
    durations_ns: np.ndarray


def iter_samples(connection: Connection, timing_ids: Iterable[int]) -> Iterator[tuple[int, SampleArrays]]:
    """Yield (timing, its samples) by rising number of the timing; those without a counted sample are left out."""
    for chunk in chunks(sorted(set(timing_ids)), TOGETHER):
        rows = plain_rows(connection, _LISTS.where(among(connection, Samples.timing_id, chunk)))
        with checking(connection.engine.url):
            yield from _arrays([row for row in rows if row[1] != "[]"])


# as text, which is read faster here than by the driver
_LISTS = sa.select(
    Samples.timing_id,
    *(sa.cast(column, sa.Text) for column in (Samples.durations_ns, Samples.rounds, Samples.exclusions)),
).order_by(Samples.timing_id)
_durations = msgspec.json.Decoder(list[float | None])
_exclusions = msgspec.json.Decoder(list[str])


def _arrays(rows: Sequence[Any]) -> Iterator[tuple[int, SampleArrays]]:
    """Yield the samples of timings that have some; a list of all durations is read in less time than many lists."""
    joined = ",".join([durations[1:-1] for _, durations, *_ in rows])
    every = np.array(_durations.decode(f"[{joined}]"), dtype=np.float64)  # of no value: NaN
    is_whole = not np.isnan(every).any()
    ends = np.cumsum([durations.count(",") + 1 for _, durations, *_ in rows], dtype=np.int64).tolist()
    for (timing_id, _, rounds, exclusions), start, end in zip(rows, [0, *ends], ends, strict=False):
        arrays = SampleArrays(_rounds(rounds), every[start:end])
        if arrays.rounds.size != arrays.durations_ns.size:
            raise ValueError(f"timing {timing_id} has {end - start} durations and {arrays.rounds.size} rounds")
        if exclusions or not is_whole:
            counted = ~np.isnan(arrays.durations_ns)
            if exclusions:
                counted &= np.array(_exclusions.decode(exclusions)) == ""
            arrays = SampleArrays(arrays.rounds[counted], arrays.durations_ns[counted])
        if arrays.rounds.size:
            yield timing_id, arrays


@lru_cache(maxsize=4096)
def _rounds(text: str) -> np.ndarray:
    """Return the rounds of a timing, which many timings share."""
    return np.array(msgspec.json.decode(text, type=list[int]), dtype=np.int64)
