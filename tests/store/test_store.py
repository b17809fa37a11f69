"""What every store must do, whichever database is behind it."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa
from store_samples import (
    CALIBRATION,
    CPU,
    FACTS,
    GPU,
    METHOD,
    UNAVAILABLE,
    make_outcome,
    make_timing,
    make_trial,
)
from stored_records import get_outcome, list_trials

from cuprof.core.errors import StoreError
from cuprof.core.point import Point
from cuprof.core.records import Check, Measure, Outcome, State, StoredTrial
from cuprof.results.queries import query
from cuprof.store import sweeps
from cuprof.store import tables as t
from cuprof.store.rows import upsert
from cuprof.store.store import Store
from cuprof.store.trials import ENLISTING

COLD = {Measure.COLD: METHOD}


def count(store: Store, table: str) -> int:
    return int(query(store.url, f"SELECT COUNT(*) AS n FROM {table}")["n"][0])


def test_an_outcome_comes_back_as_it_was_recorded(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    outcome = make_outcome(trial, make_timing(21.5, samples=50), make_timing(7, Measure.TOTAL))
    run = store.record(sweep, outcome)
    assert get_outcome(store, run) == outcome


def test_an_outcome_without_check_build_or_timings_comes_back(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    outcome = Outcome(trial.identity, State.CRASHED, "worker died: SIGSEGV", "core dumped", "check")
    assert get_outcome(store, store.record(sweep, outcome)) == outcome


def test_nan_and_infinity_have_one_meaning_everywhere(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    timing = replace(make_timing(5), details={"worst": math.inf, "none": math.nan, "list": [-math.inf]})
    timing = replace(timing, summary=replace(timing.summary, median_ns=math.nan, max_ns=math.inf))
    check = Check(False, math.nan, math.inf, -math.inf, "NaN at [3]")
    read = get_outcome(store, store.record(sweep, replace(make_outcome(trial, timing), check=check)))
    assert read.check is not None
    assert math.isnan(read.check.error)
    assert (read.check.error_absolute, read.check.error_relative) == (math.inf, -math.inf)
    assert math.isnan(read.timings[0].summary.median_ns)
    assert read.timings[0].summary.max_ns == math.inf
    assert read.timings[0].details == {"worst": "Infinity", "none": "NaN", "list": ["-Infinity"]}
    frame = query(store.url, "SELECT check_error FROM run WHERE check_error IS NULL")
    assert len(frame) == 1


def test_hostile_text_is_stored(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    message = "a\x00b \udcff 'quoted\" ; DROP TABLE run; -- ☃ \n %s :name"
    outcome = replace(make_outcome(trial, state=State.CRASHED), message=message, log=message)
    read = get_outcome(store, store.record(sweep, outcome))
    assert read.message == "a\\x00b \\udcff 'quoted\" ; DROP TABLE run; -- ☃ \n %s :name"
    assert query(store.url, "trials")["message"][0] == read.message


def test_trials_come_back_as_they_were_enlisted(store: Store) -> None:
    trials = [make_trial(), make_trial("last_warp", 2**24, 128, order=4), UNAVAILABLE, make_trial("numpy", device=CPU)]
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, trials)
    assert list_trials(store, sweep) == trials


def test_tunables_of_every_kind_come_back(store: Store) -> None:
    trial = replace(make_trial(), tunables=Point(block=64, factor=1.5, mode="fast", unrolled=True))
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    (read,) = list_trials(store, sweep)
    assert list(read.tunables.items()) == [("block", 64), ("factor", 1.5), ("mode", "fast"), ("unrolled", True)]
    assert isinstance(read.tunables.unrolled, bool)


def test_enlisting_again_adds_nothing_and_keeps_what_was_recorded(store: Store) -> None:
    trials = [make_trial(n=n, block=block) for n in (2**20, 2**24) for block in (64, 128)]
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, trials)
    run = store.record(sweep, make_outcome(trials[0], make_timing(20)))
    store.enlist(sweep, trials)
    store.enlist(sweep, trials)
    assert {table: count(store, table) for table in ("trial", "sweep_trial", "problem", "variant", "device")} == {
        "trial": 4,
        "sweep_trial": 4,
        "problem": 2,
        "variant": 1,
        "device": 1,
    }
    frame = query(store.url, "SELECT identity, state, run_id FROM sweep_trials ORDER BY ordinal")
    assert frame["state"].tolist() == ["ok", "planned", "planned", "planned"]
    assert frame["run_id"][0] == run


def test_editing_a_description_updates_it_and_editing_a_source_makes_a_variant(store: Store) -> None:
    trial = make_trial()
    store.enlist(store.begin_sweep(FACTS), [trial])
    store.enlist(store.begin_sweep(FACTS), [replace(trial, expected="wrong", description="A race.")])
    edited = replace(trial, identity="e" * 32, source_text="// other", source_hash="1" * 64)
    store.enlist(store.begin_sweep(FACTS), [edited])
    frame = query(store.url, "SELECT source_text, description, expected FROM variant ORDER BY id")
    assert frame["description"].tolist() == ["A race.", trial.description]
    assert frame["expected"].tolist() == ["wrong", "right"]
    assert frame["source_text"][1] == "// other"


def test_two_cards_of_one_model_are_two_devices_with_comparable_timings(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    for device in (
        GPU,
        replace(GPU, details={"sm_count": 1}),
        replace(GPU, uuid="GPU-other"),
        replace(GPU, identity={**GPU.identity, "driver": "590.1"}),
    ):
        store.save_calibration(sweep, device, CALIBRATION)
    rows = query(store.url, "SELECT comparable, details FROM device ORDER BY id")
    first, other_card, other_driver = rows["comparable"]
    assert first == other_card != other_driver
    assert rows["details"][0] == '{"sm_count": 1}'


def test_calibration_is_kept_once_a_sweep_and_device(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    store.save_calibration(sweep, GPU, CALIBRATION)
    store.save_calibration(sweep, GPU, replace(CALIBRATION, read_bandwidth=4.2e12))
    frame = query(store.url, "devices")
    assert frame["read_bandwidth"].tolist() == [4.2e12]
    assert frame["event_overhead_ns"].tolist() == [2400.5]


def test_stored_says_what_needs_no_more_work(store: Store) -> None:
    ok, failed, skipped, partial, planned = (make_trial(n=n) for n in (1, 2, 3, 4, 5))
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [ok, failed, skipped, partial, planned])
    run = store.record(sweep, make_outcome(ok, make_timing(1), make_timing(1, Measure.HOT, "h")))
    store.record(sweep, make_outcome(failed, state=State.WRONG_RESULT, message="sum[0] = 3"))
    store.record(sweep, Outcome(skipped.identity, State.SKIPPED, "no GPU"))
    store.record(sweep, make_outcome(partial, make_timing(1, method="older")))
    trials = [ok, failed, skipped, partial, planned]
    found = store.stored([trial.identity for trial in trials], {Measure.COLD: METHOD, Measure.HOT: "h"})
    ((median_ns, low_ns, high_ns),) = query(store.url, "SELECT median_ns, low_ns, high_ns FROM timing LIMIT 1").values
    half_width = pytest.approx((high_ns - low_ns) / 2 / median_ns)
    assert found[ok.identity] == StoredTrial(ok.identity, State.OK, True, run, "", sweep, median_ns, half_width)
    assert (found[failed.identity].state, found[failed.identity].complete) == (State.WRONG_RESULT, True)
    assert found[failed.identity].message == "sum[0] = 3"
    assert (found[skipped.identity].state, found[skipped.identity].complete) == (State.SKIPPED, False)
    assert (found[partial.identity].state, found[partial.identity].complete) == (State.OK, False)
    assert planned.identity not in found


def test_the_newest_run_decides_and_an_older_complete_one_is_found(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    first = store.record(sweep, make_outcome(trial, make_timing(1)))
    store.record(sweep, make_outcome(trial, make_timing(1, method="other")))
    assert store.stored([trial.identity], COLD)[trial.identity].run_id == first
    store.record(sweep, make_outcome(trial, state=State.TIMED_OUT))
    assert store.stored([trial.identity], COLD)[trial.identity].state is State.TIMED_OUT
    store.record(sweep, Outcome(trial.identity, State.SKIPPED, "no GPU today"))
    assert store.stored([trial.identity], COLD)[trial.identity].state is State.TIMED_OUT
    assert query(store.url, "trials")["state"].tolist() == ["timed_out"]


def test_a_sweep_goes_by_the_run_that_was_skipped_before_for_the_same_reason(store: Store) -> None:
    trial, runs = make_trial(), []
    for why in ("no OpenCV", "no OpenCV", "an old OpenCV", "an old OpenCV", "no OpenCV"):
        sweep = store.begin_sweep(FACTS)
        store.enlist(sweep, [trial])
        runs.append(store.record(sweep, Outcome(trial.identity, State.SKIPPED, why)))
        store.finish_sweep(sweep, "finished")
    members = query(store.url, "SELECT run_id, reused FROM sweep_trial ORDER BY sweep_id")
    assert members["run_id"].tolist() == runs == [runs[0], runs[0], runs[2], runs[2], runs[0]]
    assert [bool(each) for each in members["reused"]] == [False, True, False, True, True]
    assert len(set(runs)) == len(query(store.url, "SELECT id FROM run")) == 2


def test_a_sweep_can_go_by_an_earlier_run(store: Store) -> None:
    trials = [make_trial(), make_trial("last_warp")]
    first = store.begin_sweep(FACTS)
    store.enlist(first, trials)
    for trial in trials:
        store.record(first, make_outcome(trial, make_timing(1)))
    store.finish_sweep(first, "finished")
    second = store.begin_sweep(FACTS)
    found = store.stored([trial.identity for trial in trials], COLD)
    store.enlist(second, [make_trial("new"), *trials], reused=found)
    store.enlist(second, [make_trial("new"), *trials])  # what it goes by stays
    store.enlist(first, trials, reused=found)
    frame = query(store.url, "SELECT sweep_id, run_id, reused FROM sweep_trials ORDER BY sweep_id, ordinal")
    assert frame["run_id"].fillna(0).tolist() == [1, 2, 0, 1, 2]
    assert frame["reused"].tolist() == [0, 0, 0, 1, 1]
    assert count(store, "run") == 2
    assert sorted(query(store.url, "sweep_timings")["sweep_id"]) == [first, first, second, second]


def test_parts_that_are_written_one_after_another_come_to_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [make_trial(variant, n=n) for n in range(1, 11) for variant in ("interleaved", "last_warp")]
    whole, parted, again = (store.begin_sweep(replace(FACTS, plan_hash=name)) for name in ("a", "b", "b"))
    store.enlist(whole, trials)
    for median, trial in enumerate(trials[:-3], 1):
        store.record(whole, make_outcome(trial, make_timing(median)))
    found = store.stored([trial.identity for trial in trials], COLD)
    monkeypatch.setattr("cuprof.store.store.PART", 4)
    for sweep in (parted, again):
        store.enlist(sweep, trials, reused=found)
    assert parted == again
    members = "SELECT ordinal, trial_id, run_id, device_id FROM sweep_trial WHERE sweep_id = {} ORDER BY ordinal"
    one, other = (query(store.url, members.format(sweep)).fillna(0).values.tolist() for sweep in (whole, parted))
    assert other == one
    assert [row[0] for row in one] == list(range(20))
    ranks = "SELECT timing_id, ordinal, median_ns, is_right FROM ranking WHERE sweep_id = {} ORDER BY timing_id"
    one, other = (query(store.url, ranks.format(sweep)).values.tolist() for sweep in (whole, parted))
    assert other == one
    assert len(one) == 17


def test_many_processes_enlist_the_same_trials_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by a Store of its own, as they would: what all of them write is there once."""
    monkeypatch.setattr("cuprof.store.store.PART", 50)
    trials = [make_trial(f"v{n % 7}", n=n) for n in range(200)]
    stores = [Store.open(url) for _ in range(4)]
    try:
        sweep = stores[0].begin_sweep(FACTS)
        with ThreadPoolExecutor(4) as threads:
            # Not in one order everywhere.
            orders = [trials, trials[::-1], trials[100:] + trials[:100], trials]
            list(threads.map(lambda each: each[0].enlist(sweep, each[1]), zip(stores, orders, strict=True)))
        assert [count(stores[0], table) for table in ("trial", "sweep_trial", "variant", "problem")] == [
            200,
            200,
            7,
            200,
        ]
    finally:
        for each in stores:
            each.close()


def test_a_trial_that_another_takes_the_place_of_is_forgotten_unless_it_is_needed(store: Store) -> None:
    planned = [make_trial(n=n) for n in (1, 2, 3)]
    ran = [replace(trial, identity=trial.identity[::-1]) for trial in planned]
    first = store.begin_sweep(FACTS)
    store.enlist(first, planned)
    other = store.begin_sweep(replace(FACTS, plan_hash="another"))
    store.enlist(other, planned[1:2])
    for old, new in zip(planned[:2], ran[:2], strict=True):
        for _ in range(2):  # a server may have done what it could not confirm
            store.exchange(first, old.identity, new)
        store.record(first, make_outcome(new))
    with Store.open(store.url) as elsewhere, elsewhere.engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            sweeps.lock(connection, ENLISTING, shared=True)
            store.exchange(first, planned[2].identity, ran[2])
            assert planned[2].identity in set(query(store.url, "trials")["identity"])
    members = query(store.url, "SELECT sweep_id, identity, state FROM sweep_trials ORDER BY sweep_id, ordinal")
    assert members["identity"].tolist()[:2] == [trial.identity for trial in ran[:2]]
    assert members["state"].tolist()[:2] == ["ok", "ok"]
    known = set(query(store.url, "trials")["identity"])
    assert planned[0].identity not in known
    assert planned[1].identity in known


def test_what_was_not_enlisted_is_refused_and_nothing_of_it_is_stored(store: Store) -> None:
    enlisted, stranger = make_trial(), make_trial("stranger")
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [enlisted])
    store.record(sweep, make_outcome(enlisted))
    with pytest.raises(StoreError, match=f"{stranger.identity} is not among those enlisted for sweep {sweep}"):
        store.record(sweep, make_outcome(stranger, make_timing(1)))
    assert (count(store, "run"), count(store, "timing"), count(store, "sample")) == (1, 0, 0)


def test_an_outcome_is_stored_whole_or_not_at_all(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    with pytest.raises(StoreError, match="timing"):  # two timings of one measure and method: the second is refused
        store.record(sweep, make_outcome(trial, make_timing(1), make_timing(2)))
    assert (count(store, "run"), count(store, "timing"), count(store, "sample")) == (0, 0, 0)
    assert query(store.url, "trials")["state"].tolist() == ["planned"]


def test_more_identities_than_a_statement_takes_parameters(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    store.record(sweep, make_outcome(trial, make_timing(1)))
    strangers = [f"{number:032x}" for number in range(70_000)]
    assert list(store.stored([*strangers, trial.identity], COLD)) == [trial.identity]


def test_missing_rows_are_named(store: Store) -> None:
    with pytest.raises(StoreError, match="no sweep 12"):
        store.finish_sweep(12, "finished")
    with pytest.raises(ValueError, match="'done'"):
        store.finish_sweep(12, "done")


def test_a_store_refuses_to_work_in_a_forked_process(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StoreError, match="does not survive a fork"):
        store.begin_sweep(FACTS)


def test_of_rows_of_one_key_the_last_counts(store: Store) -> None:
    rows = [
        {"name": name, "unit": "", "rollup": "sum", "meaning": meaning} for name, meaning in ("ab", "cd", "ae", "cf")
    ]
    with store.engine.begin() as connection:
        for part in (rows[:2], rows):
            upsert(connection, t.metric, part, key=["name", "unit", "rollup"], update=["meaning"])
        assert sorted(connection.execute(sa.select(t.metric.c.name, t.metric.c.meaning)).all()) == [
            ("a", "e"),
            ("c", "f"),
        ]
