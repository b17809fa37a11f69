from __future__ import annotations

from dataclasses import replace

from store_samples import FACTS, make_counter, make_profile, make_trial

from cuprof.results.counters import LaunchAdvice, LaunchCounter, TrialCounter, list_profile_durations, list_rows
from cuprof.results.read import read_results
from cuprof.store import Store


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
        rolled = list_rows(connection, sweep, TrialCounter)
        launched = list_rows(connection, sweep, LaunchCounter)
        advice = list_rows(connection, sweep, LaunchAdvice)
        durations = list_profile_durations(connection, sweep)
    assert [(row.profile_id, row.trial_id, row.value, row.unit) for row in rolled] == [
        (first, trial_id, 4e6, "byte"),
        (second, trial_id, 4e6, "byte"),
    ]
    assert (rolled[0].cache_mode, rolled[0].clock_control) == ("cold", "none")
    reads = [row for row in launched if row.metric == "dram__bytes_read.sum"]
    assert [(row.profile_id, row.ordinal, row.value) for row in reads] == [
        (key, ordinal, 100.0 + ordinal) for key in (first, second) for ordinal in (0, 1)
    ]
    assert [(row.profile_id, row.rule, row.speedup) for row in advice] == [
        (key, "SOLBottleneck", 12.5) for key in (first, second)
    ]
    assert [(row.profile_id, row.duration_ns) for row in durations] == [(first, 2 * 17_900.5), (second, None)]
