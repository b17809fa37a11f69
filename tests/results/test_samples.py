from __future__ import annotations

from itertools import pairwise

import numpy as np
from store_samples import FACTS, make_outcome, make_timing, make_trial

from cuprof.core.records import Measure, Timing
from cuprof.results.samples import iter_samples
from cuprof.results.trials import list_trials
from cuprof.store import Store


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
        keys = {
            timing.id: taken[row.variant, measure]
            for row in list_trials(connection, [sweep])
            for measure, timing in row.timings.items()
        }
        found = list(iter_samples(connection, [*keys, 10**12]))
    assert all(earlier < later for (earlier, _), (later, _) in pairwise(found))
    assert {key for key, _ in found} == set(keys)
    for key, arrays in found:
        counted = [sample for sample in keys[key].samples if not sample.excluded]
        assert arrays.rounds.tolist() == [sample.round for sample in counted]
        assert arrays.durations_ns.tolist() == [sample.duration_ns for sample in counted]
        assert (arrays.rounds.dtype, arrays.durations_ns.dtype) == (np.int64, np.float64)


def test_no_samples_are_none(store: Store) -> None:
    with store.snapshot() as connection:
        assert list(iter_samples(connection, [])) == list(iter_samples(connection, [1, 2])) == []
