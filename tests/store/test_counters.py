"""Profiles, counters and their views, on both databases."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from store_samples import ARTIFACT, FACTS, make_counter, make_outcome, make_profile, make_timing, make_trial
from stored_records import get_profile

from cuprof.core.errors import StoreError
from cuprof.core.records import Conditions, Profile, State, StoredProfile
from cuprof.results.queries import query
from cuprof.store.store import Store

READ, TIME, GRID = "dram__bytes_read.sum", "gpu__time_duration.sum", "launch__grid_dim_z"
DRAM = "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed"
SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"


@pytest.fixture
def sweep(store: Store) -> int:
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [make_trial(name, block=block) for name in ("interleaved", "warp") for block in (64, 128)])
    return sweep


def test_a_profile_comes_back_as_it_was_recorded(store: Store, sweep: int) -> None:
    rolled = (
        make_counter(READ, 201.0, "byte", instances={"a": 1.0, "b": 2.5}),
        make_counter("device__name", None, text="H200"),
    )
    profile = make_profile(make_trial(), *rolled)
    read = get_profile(store, store.record_profile(sweep, profile))
    in_order = tuple(sorted(rolled, key=lambda value: value.metric))
    assert read == replace(profile, rolled=in_order)


def test_a_failed_profile_and_a_foreign_one_come_back(store: Store, sweep: int) -> None:
    failed = Profile(make_trial().identity, "label", State.TIMED_OUT, Conditions("hot"), "no answer in 60 s", "log")
    assert get_profile(store, store.record_profile(sweep, failed)) == failed
    foreign = make_profile(None, make_counter(TIME, 5.0, "ns"), name="their kernel")
    assert get_profile(store, store.record_profile(None, foreign)) == foreign
    assert query(store.url, "SELECT * FROM counters WHERE trial_id IS NULL")["name"].tolist() == ["their kernel"]


def test_counters_belong_to_stored_trials(store: Store, sweep: int) -> None:
    with pytest.raises(StoreError, match="not in the database"):
        store.record_profile(sweep, make_profile(make_trial("stranger"), make_counter(READ, 1.0)))
    assert query(store.url, "SELECT * FROM artifact").empty


def test_an_artifact_is_one_row_a_content(store: Store, sweep: int) -> None:
    for block in (64, 128):
        store.record_profile(sweep, make_profile(make_trial(block=block), make_counter(READ, 1.0)))
    moved = replace(make_profile(make_trial(), make_counter(READ, 1.0)), artifact=replace(ARTIFACT, path="elsewhere"))
    store.record_profile(sweep, moved)
    assert query(store.url, "SELECT path FROM artifact")["path"].tolist() == ["elsewhere"]


def test_the_newest_value_of_a_trial_counts_and_cache_modes_stay_apart(store: Store, sweep: int) -> None:
    trial = make_trial()
    store.record_profile(sweep, make_profile(trial, make_counter(READ, 1.0, "byte"), make_counter(TIME, 9.0, "ns")))
    store.record_profile(sweep, make_profile(trial, make_counter(READ, 2.0, "byte")))
    store.record_profile(sweep, make_profile(trial, make_counter(READ, 0.25, "byte"), cache_mode="hot"))
    frame = query(store.url, "SELECT * FROM counters ORDER BY cache_mode, metric")
    assert list(zip(frame["cache_mode"], frame["metric"], frame["value"], strict=True)) == [
        ("cold", READ, 2.0),
        ("cold", TIME, 9.0),
        ("hot", READ, 0.25),
    ]
    assert set(frame["launches"]) == {2}
    assert set(frame["artifact"]) == {ARTIFACT.path}


def test_a_changed_rule_leaves_earlier_values_with_theirs(store: Store, sweep: int) -> None:
    first = store.record_profile(sweep, make_profile(make_trial(), make_counter(DRAM, 50.0, "%")))
    by_time = make_counter(DRAM, 55.0, "%", rollup=f"mean:{TIME}")
    second = store.record_profile(sweep, make_profile(make_trial(block=128), by_time))
    assert get_profile(store, first).rolled[0].rollup == "sum"
    assert get_profile(store, second).rolled[0].rollup == f"mean:{TIME}"


def test_a_nan_counter_is_no_number(store: Store, sweep: int) -> None:
    profile = store.record_profile(sweep, make_profile(make_trial(), make_counter(DRAM, math.nan, "%")))
    assert get_profile(store, profile).rolled[0].value is None
    assert query(store.url, "counters")["value"].isna().all()


def test_counters_wide_has_the_four_study_metrics_as_columns(store: Store, sweep: int) -> None:
    values = {GRID: 1.0, DRAM: 61.5, "launch__shared_mem_per_block_dynamic": 256.0, SECTOR: 32.0, READ: 7.0}
    store.record_profile(
        sweep, make_profile(make_trial(), *(make_counter(name, value) for name, value in values.items()))
    )
    frame = query(store.url, "counters_wide")
    assert len(frame) == 1
    assert {name: frame[name][0] for name in values} == values
    assert frame[TIME].isna().all()


def test_launch_counters_are_those_of_each_launch(store: Store, sweep: int) -> None:
    store.record_profile(sweep, make_profile(make_trial(), make_counter(READ, 201.0, "byte")))
    frame = query(store.url, f"SELECT * FROM launch_counters WHERE metric = '{READ}' ORDER BY ordinal")
    assert frame["value"].tolist() == [100.0, 101.0]
    assert frame["grid_x"].tolist() == [2**18, 2**17]


def test_before_after_takes_the_fastest_profiled_tunables(store: Store, sweep: int) -> None:
    for name, block, median, read in (
        ("interleaved", 64, 80.0, 100.0),
        ("interleaved", 128, 60.0, 90.0),
        ("warp", 64, 20.0, 45.0),
        ("warp", 128, 30.0, 1.0),
    ):
        trial = make_trial(name, block=block)
        store.record(sweep, make_outcome(trial, make_timing(median)))
        store.record_profile(sweep, make_profile(trial, make_counter(READ, read, "byte"), make_counter(GRID, 0.0)))
    frame = query(store.url, "SELECT * FROM counters_before_after").set_index("metric")
    assert len(frame) == 2
    row = frame.loc[READ]
    assert (row["baseline_tunables"], row["tunables"], row["variant"]) == ("block=128", "block=64", "warp")
    assert (row["before"], row["after"], row["change"]) == (90.0, 45.0, -45.0)
    assert (row["ratio"], row["change_percent"]) == (0.5, -50.0)
    assert math.isnan(frame.loc[GRID]["ratio"])


def test_before_after_works_without_timings_and_leaves_wrong_trials_out(store: Store, sweep: int) -> None:
    for name in ("interleaved", "warp"):
        store.record_profile(sweep, make_profile(make_trial(name), make_counter(READ, 4.0, "byte")))
    assert query(store.url, "counters_before_after")["ratio"].tolist() == [1.0]
    store.record(sweep, make_outcome(make_trial("warp"), state=State.WRONG_RESULT))
    assert query(store.url, "counters_before_after").empty


COLD = Conditions("cold", "none", "kernel")


def test_profiled_says_what_need_not_be_collected_again(store: Store, sweep: int) -> None:
    done, partly, crashed, untouched = (
        make_trial(name, block=b) for name in ("interleaved", "warp") for b in (64, 128)
    )
    identities = [trial.identity for trial in (done, partly, crashed, untouched)]
    store.record_profile(sweep, make_profile(done, make_counter(READ, 1.0)))
    store.record_profile(sweep, make_profile(done, make_counter(TIME, 1.0), missing={TIME: "no such", "x": "y"}))
    store.record_profile(sweep, make_profile(partly, make_counter(READ, 1.0)))
    died = Profile(crashed.identity, "label", State.CRASHED, COLD, "died", metrics=(READ, TIME))
    store.record_profile(sweep, died)
    found = store.profiled(identities, COLD, [READ, TIME])
    assert found == {
        done.identity: StoredProfile(State.OK, missing={TIME: "no such"}),
        crashed.identity: StoredProfile(State.CRASHED, "died"),
    }
    assert {*store.profiled(identities, COLD, [READ])} == {done.identity, partly.identity, crashed.identity}
    assert {*store.profiled(identities, COLD, [READ, "another"])} == set()  # a failure says nothing of other metrics
    store.record_profile(sweep, make_profile(crashed, make_counter(READ, 1.0)))
    assert store.profiled(identities, COLD, [READ])[crashed.identity].state is State.OK
    for other in (Conditions("hot", "none", "kernel"), Conditions("cold", "base", "kernel"), Conditions("cold")):
        assert store.profiled(identities, other, [READ]) == {}


def test_counters_of_other_clocks_stand_in_rows_of_their_own_and_are_not_compared(store: Store, sweep: int) -> None:
    base, new = make_trial("interleaved"), make_trial("warp")
    store.record_profile(sweep, make_profile(base, make_counter(READ, 4.0), clock_control="base"))
    store.record_profile(sweep, make_profile(new, make_counter(READ, 2.0)))
    assert query(store.url, "counters_before_after").empty
    store.record_profile(sweep, make_profile(base, make_counter(READ, 8.0)))
    assert query(store.url, "counters_before_after")["ratio"].tolist() == [0.25]
    rows = query(store.url, "SELECT clock_control, value FROM counters WHERE variant = 'interleaved' ORDER BY value")
    assert rows.values.tolist() == [["base", 4.0], ["none", 8.0]]
    assert len(query(store.url, "counters_wide")) == 3


def test_advice_is_sorted_by_what_it_promises(store: Store, sweep: int) -> None:
    store.record_profile(sweep, make_profile(make_trial(), make_counter(READ, 1.0)))
    frame = query(store.url, "advice")
    assert frame[["rule", "severity", "speedup_percent"]].values.tolist() == [["SOLBottleneck", "optimization", 12.5]]


def test_a_trial_is_one_row_of_counters_wide_under_its_own_label(store: Store, sweep: int) -> None:
    trial = make_trial()
    store.record_profile(sweep, make_profile(trial, make_counter(READ, 1.0), name="an older label"))
    store.record_profile(sweep, make_profile(trial, make_counter(TIME, 2.0)))
    frame = query(store.url, "counters_wide")
    assert frame[["name", READ, TIME]].values.tolist() == [[trial.label, 1.0, 2.0]]


def test_foreign_launches_of_two_reports_under_one_name_stay_apart(store: Store) -> None:
    first = make_profile(None, make_counter(READ, 1.0), name="theirs")
    second = replace(
        make_profile(None, make_counter(READ, 2.0), name="theirs"),
        artifact=replace(ARTIFACT, sha256="c" * 64, path="b"),
    )
    for profile in (first, second, second):
        store.record_profile(None, profile)
    assert sorted(query(store.url, "counters_wide")[READ]) == [1.0, 2.0]
