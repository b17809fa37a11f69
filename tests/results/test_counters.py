from __future__ import annotations

from dataclasses import replace

import pytest
from store_samples import FACTS, make_counter, make_profile, make_trial

from cuprof.results.counters import read_advice, read_counters, read_profile_durations
from cuprof.results.read import read_results
from cuprof.store.store import Store


def test_counters_of_a_sweeps_trials_come_whichever_sweep_collected_them(store: Store) -> None:
    trial, other = make_trial(), make_trial("last_warp")
    sweep, elsewhere = store.begin_sweep(FACTS), store.begin_sweep(replace(FACTS, plan_hash="other"))
    store.enlist(sweep, [trial])
    store.enlist(elsewhere, [trial, other])
    profile = make_profile(trial, make_counter("dram__bytes_read.sum", 4e6, "byte"))
    first = store.record_profile(elsewhere, profile)
    unknown = replace(profile, launches=(replace(profile.launches[0], duration_ns=None), *profile.launches[1:]))
    second = store.record_profile(None, unknown)
    store.record_profile(elsewhere, make_profile(other, make_counter("dram__bytes_read.sum", 1.0)))
    store.record_profile(None, make_profile(None, make_counter("dram__bytes_read.sum", 1.0), name="foreign"))
    with store.snapshot() as connection:
        (trial_id,) = read_results(connection, [sweep])["trial_id"]
        rolled = read_counters(connection, sweep)
        launched = read_counters(connection, sweep, by_launch=True)
        advice = read_advice(connection, sweep)
        durations = read_profile_durations(connection, sweep)
    assert [*rolled[["profile_id", "trial_id", "value", "unit"]].itertuples(index=False, name=None)] == [
        (first, trial_id, 4e6, "byte"),
        (second, trial_id, 4e6, "byte"),
    ]
    assert ({*rolled["cache_mode"]}, {*rolled["clock_control"]}) == ({"cold"}, {"none"})
    reads = launched[launched["metric"] == "dram__bytes_read.sum"]
    assert [*reads[["profile_id", "ordinal", "value"]].itertuples(index=False, name=None)] == [
        (key, ordinal, 100.0 + ordinal) for key in (first, second) for ordinal in (0, 1)
    ]
    assert [*zip(advice["profile_id"], advice["rule"], strict=True)] == [
        (key, "SOLBottleneck") for key in (first, second)
    ]
    assert durations["profile_id"].tolist() == [first, second]
    assert durations["duration_ns"].tolist() == pytest.approx([2 * 17_900.5, float("nan")], nan_ok=True)
