from __future__ import annotations

import numpy as np
import pytest
import sqlalchemy as sa
from store_samples import FACTS, make_outcome, make_timing, make_trial

from cuprof.core.errors import StoreError
from cuprof.core.records import Measure, Timing
from cuprof.results.read import read_results
from cuprof.results.samples import read_samples
from cuprof.store.store import Store


def test_samples_that_count_come_by_timing(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    taken: dict[tuple[str, Measure], Timing] = {}
    for variant, count in (("interleaved", 12), ("last_warp", 5)):
        trial = make_trial(variant)
        store.enlist(sweep, [trial])
        timings = [make_timing(20, samples=count), make_timing(7, Measure.TOTAL, samples=count)]
        taken |= {(variant, timing.measure): timing for timing in timings}
        store.record(sweep, make_outcome(trial, *timings))
    with store.snapshot() as connection:
        frame = read_results(connection, [sweep])
        samples = read_samples(connection, frame)
    starts = samples.ends - samples.counts
    for row, start, end in zip(frame.itertuples(), starts, samples.ends, strict=True):
        counted = [each for each in taken[row.variant, Measure(row.measure)].samples if not each.excluded]
        assert samples.rounds[start:end].tolist() == [sample.round for sample in counted]
        assert samples.values[start:end].tolist() == [sample.duration_ns for sample in counted]
    assert (samples.rounds.dtype, samples.values.dtype) == (np.int64, np.float64)


def test_no_samples_are_none(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    with store.snapshot() as connection:
        assert len(read_samples(connection, read_results(connection, [sweep]))) == 0


def test_samples_of_rows_come_in_the_rows_order(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    for variant, count in (("interleaved", 12), ("last_warp", 6)):
        store.enlist(sweep, [trial := make_trial(variant)])
        store.record(sweep, make_outcome(trial, make_timing(20, samples=count)))
    with store.snapshot() as connection:
        frame = read_results(connection, [sweep]).iloc[[1, 0, 1]]
        samples = read_samples(connection, frame)
    assert samples.counts.tolist() == [5, 11, 5]  # one of each is excluded
    assert samples.rounds.tolist()[:5] == [0, 1, 2, 4, 5]
    assert samples.rotation.tolist() == frame["rotation"].tolist()
    assert samples.values[0] == 20_000


def test_samples_without_a_logarithm_do_not_count(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial := make_trial()])
    store.record(sweep, make_outcome(trial, make_timing(0, samples=4)))
    with store.snapshot() as connection:
        samples = read_samples(connection, read_results(connection, [sweep]))
    assert samples.values.tolist() == [1.0, 2.0]


def test_samples_that_are_gone_are_told_in_one_line(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial := make_trial()])
    store.record(sweep, make_outcome(trial, make_timing(20)))
    with store.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM samples"))
    with pytest.raises(StoreError, match="damaged or was changed by hand"), store.snapshot() as connection:
        read_samples(connection, read_results(connection, [sweep]))
