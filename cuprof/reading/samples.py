"""The counted samples of timings, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.store.connection import checking
from cuprof.store.models import Samples
from cuprof.store.rows import chunks


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
    """Yield (timing, its samples) by rising number of the timing; those without a counted sample are left out."""
    for chunk in chunks(sorted(set(timing_ids))):
        for timing_id, *lists in connection.execute(_LISTS.where(Samples.timing_id.in_(chunk))).all():
            with checking(connection.engine.url):
                arrays = _arrays(*lists)
            if arrays.rounds.size:
                yield timing_id, arrays


# as text, which is read faster here than by the driver
_LISTS = sa.select(
    Samples.timing_id,
    *(sa.cast(column, sa.Text) for column in (Samples.durations_ns, Samples.rounds, Samples.exclusions)),
).order_by(Samples.timing_id)
_durations = msgspec.json.Decoder(list[float | None])
_exclusions = msgspec.json.Decoder(list[str])


def _arrays(durations: str, rounds: str, exclusions: str | None) -> SampleArrays:
    every = np.array(_durations.decode(durations), dtype=np.float64)  # of no value: NaN
    counted = ~np.isnan(every)
    if exclusions:
        counted &= np.array(_exclusions.decode(exclusions)) == ""
    if counted.all():
        return SampleArrays(_rounds(rounds), every)
    return SampleArrays(_rounds(rounds)[counted], every[counted])


@lru_cache(maxsize=4096)
def _rounds(text: str) -> np.ndarray:
    """Return the rounds of a timing, which many timings share."""
    return np.array(msgspec.json.decode(text, type=list[int]), dtype=np.int64)
