"""The views, on both databases, over a small study whose right answers are known."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from store_samples import (
    CPU,
    FACTS,
    METHOD,
    UNAVAILABLE,
    make_counter,
    make_outcome,
    make_profile,
    make_timing,
    make_trial,
)

from cuprof.core.records import BuildFacts, Measure, Outcome, State, Trial
from cuprof.results.earlier import list_earlier
from cuprof.results.queries import query
from cuprof.store import counters, outcomes, ranking
from cuprof.store.outcomes import Origin
from cuprof.store.store import Store

N = 2**20
STEPS = ("interleaved", "compacted", "sequential", "broken", "racy", "warp")


def run_study(store: Store, medians: dict[str, float], sweep: int | None = None) -> int:
    """Store a sweep: own kernels in order, one of them wrong and one known to be wrong, a library, a CPU function."""
    sweep = store.begin_sweep(FACTS) if sweep is None else sweep
    trials = [
        make_trial(
            name, N, block, order=order, expected="wrong" if name == "racy" else "right", origin=f"kernel {order + 1}"
        )
        for order, name in enumerate(STEPS)
        for block in (64, 128)
    ]
    trials += [
        make_trial("cub", N, None, kind="library", order=6),
        make_trial("numpy", N, None, kind="cpu", backend="cpu", device=CPU, order=7),
        UNAVAILABLE,
    ]
    store.enlist(sweep, trials)
    for trial in trials:
        record(store, sweep, trial, medians)
    return sweep


def record(store: Store, sweep: int, trial: Trial, medians: dict[str, float]) -> None:
    if trial.unavailable:
        store.record(sweep, Outcome(trial.identity, State.SKIPPED, str(trial.unavailable)))
        return
    median = medians[trial.variant] * (1 if trial.tunables.get("block", 128) == 128 else 1.5)
    timings = (make_timing(median), make_timing(median * 10, Measure.TOTAL, "total-method"))
    if trial.variant == "broken":
        store.record(sweep, make_outcome(trial, *timings, state=State.WRONG_RESULT, message="sum[0] = 1"))
    else:
        store.record(sweep, make_outcome(trial, *timings))


MEDIANS = {
    "interleaved": 80.0,
    "compacted": 40.0,
    "sequential": 32.0,
    "broken": 0.5,
    "racy": 1.0,
    "warp": 16.0,
    "cub": 20.0,
    "numpy": 900.0,
}


@pytest.fixture
def studied(store: Store) -> Store:
    store.finish_sweep(run_study(store, MEDIANS), "finished")
    return store


@pytest.fixture(scope="module")
def study(shared_store: Store) -> str:
    """Return the URL of the study, for tests that only read."""
    shared_store.finish_sweep(run_study(shared_store, MEDIANS), "finished")
    return shared_store.url


def cold(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["measure"] == "cold"].reset_index(drop=True)


def test_trials_has_one_row_each_with_its_state(study: str) -> None:
    frame = query(study, "trials").set_index(["variant", "tunables"])
    assert len(frame) == 15
    wrong = frame.loc[("broken", "block=64")]
    assert (wrong["state"], wrong["message"], wrong["error"], wrong["registers"]) == (
        "wrong_result",
        "sum[0] = 1",
        0.25,
        32,
    )
    assert wrong["problem"] == "n=2^20, dtype=float32"
    assert wrong["problem_json"].replace(" ", "") == '{"n":1048576,"dtype":"float32"}'
    assert frame.loc[("opencl", "block=64")]["state"] == "skipped"
    assert frame.loc[("opencl", "block=64")]["message"] == "no OpenCL device; install a driver"


def test_timings_are_in_microseconds_and_gigabytes_a_second(study: str) -> None:
    frame = cold(query(study, "SELECT * FROM timings WHERE variant = 'warp' AND tunables = 'block=128'"))
    (row,) = (frame.iloc[place] for place in range(len(frame)))
    assert row["median_us"] == pytest.approx(16.0)
    assert (row["low_us"], row["high_us"]) == (pytest.approx(15.84), pytest.approx(16.16))
    assert row["bandwidth_gbs"] == pytest.approx(4 * N / 16e-6 / 1e9)
    assert row["gflops"] == pytest.approx((N - 1) / 16e-6 / 1e9)
    assert (row["samples"], row["excluded"], row["stopped_by"]) == (3, 1, "interval")


def test_timings_shows_the_newest_of_each_method(studied: Store) -> None:
    sweep = studied.begin_sweep(FACTS)
    trial = make_trial("warp", N, 128)
    studied.enlist(sweep, [trial])
    studied.record(sweep, make_outcome(trial, make_timing(15.0)))
    studied.record(sweep, make_outcome(trial, make_timing(3.0, method="another")))
    frame = cold(query(studied.url, "SELECT * FROM timings WHERE variant = 'warp' AND tunables = 'block=128'"))
    assert {(row["method"], round(row["median_us"], 6)) for _, row in frame.iterrows()} == {
        (METHOD, 15.0),
        ("another", 3.0),
    }


def test_best_is_the_fastest_right_one_of_each_device(study: str) -> None:
    frame = cold(query(study, "best")).set_index("device")
    assert frame["variant"].to_dict() == {"NVIDIA H200": "warp", "AMD EPYC 9554": "numpy"}
    assert frame.loc["NVIDIA H200", "tunables"] == "block=128"
    assert frame.loc["NVIDIA H200", "candidates"] == 9  # four right kernels of two tunables, and the library


def test_of_a_variant_only_the_source_of_its_newest_sweep_is_best(studied: Store) -> None:
    before = [make_trial("warp", N, block) for block in (64, 128)]
    edited = replace(before[0], source_hash="edited", identity="e" * 32)
    known = studied.stored([trial.identity for trial in before], {Measure.COLD: METHOD})

    def find_best() -> tuple[str, set[str]]:
        gpu = cold(query(studied.url, "best")).set_index("device").loc["NVIDIA H200"]
        with studied.snapshot() as connection:
            runs = list_earlier(connection, "reduction", Measure.COLD, newest=True)
        return gpu["variant"], {run.identity for run in runs if run.variant == "warp"}

    sweep = studied.begin_sweep(replace(FACTS, plan_hash="an edit"))
    studied.enlist(sweep, [edited])
    studied.record(sweep, make_outcome(edited, make_timing(50.0)))
    assert find_best() == ("cub", {edited.identity}), "16 µs are of the source before the edit"
    studied.enlist(studied.begin_sweep(replace(FACTS, plan_hash="taken back")), before, reused=known)
    assert find_best() == ("warp", {trial.identity for trial in before})


def test_of_what_was_looked_at_again_the_luckier_first_look_is_not_the_best(studied: Store) -> None:
    sweep = studied.begin_sweep(replace(FACTS, plan_hash="a search"))
    lucky, other = make_trial("warp", N, 128), make_trial("warp", N, 64)
    studied.enlist(sweep, [lucky, other])
    studied.record(sweep, make_outcome(lucky, make_timing(3.0, method="a look")))
    studied.record(sweep, make_outcome(other, make_timing(5.0, method="a look")))
    studied.record(sweep, make_outcome(lucky, make_timing(7.0, method="a longer look", samples=40)))
    frame = cold(query(studied.url, "best"))
    looks = frame[frame.method.isin(["a look", "a longer look"])]
    assert looks[["tunables", "median_us", "candidates"]].values.tolist() == [
        ["block=128", pytest.approx(7.0), 1],
        ["block=64", pytest.approx(5.0), 1],
    ], "what has most samples comes first"
    timed = query(studied.url, "SELECT * FROM timings WHERE method LIKE 'a l%' ORDER BY median_us")
    assert timed[["method", "ranked"]].values.tolist() == [["a look", 0], ["a look", 1], ["a longer look", 1]]
    ratios = query(studied.url, "SELECT * FROM portfolio_ratios WHERE method LIKE 'a l%' ORDER BY median_us")
    assert ratios[["tunables", "ratio"]].values.tolist() == [["block=64", 1.0], ["block=128", 1.0]]
    assert query(studied.url, "tunables")["fastest_us"].min() > 5, "a choice of one is none"
    assert query(studied.url, "slowest")["times_slower"].min() > 0.999
    studied.record(sweep, make_outcome(other, make_timing(9.0, method="the last look", samples=40)))
    methods = cold(query(studied.url, "best"))["method"].tolist()
    assert methods.index("the last look") < methods.index("a longer look"), "of as many samples the newest"


def test_progress_counts_each_look_those_that_failed_among_them(store: Store) -> None:
    sweep = store.begin_sweep(replace(FACTS, plan_hash="a search"))
    first, second = make_trial("warp", N, 128), make_trial("warp", N, 64)
    store.enlist(sweep, [first, second])
    store.record(sweep, make_outcome(first, make_timing(5.0, method="a look")))
    store.record(sweep, make_outcome(second, state=State.WRONG_RESULT))
    store.record(sweep, make_outcome(first, make_timing(6.0, method="a longer look")))
    store.record(sweep, make_outcome(second, state=State.CRASHED))
    frame = query(store.url, "SELECT * FROM search_progress ORDER BY run_id")
    assert frame[["measure", "look", "look_of_trial", "best_us"]].values.tolist() == [
        ["cold", 1, 1, 5.0],
        ["cold", 2, 1, 5.0],
        ["cold", 3, 2, 5.0],
        ["cold", 4, 2, 5.0],
    ]


def test_an_earlier_look_counts_once_another_sweep_goes_by_it(studied: Store) -> None:
    search = studied.begin_sweep(replace(FACTS, plan_hash="a search"))
    trial = make_trial("warp", N, 128)
    studied.enlist(search, [trial])
    studied.record(search, make_outcome(trial, make_timing(5.0, method="a look")))
    found = studied.stored([trial.identity], {Measure.COLD: "a look"})
    studied.record(search, make_outcome(trial, make_timing(7.0, method="a longer look")))
    look = "SELECT median_us FROM best WHERE method = 'a look'"
    assert query(studied.url, look).empty
    studied.enlist(studied.begin_sweep(replace(FACTS, plan_hash="all of it")), [trial], reused=found)
    assert query(studied.url, look)["median_us"].tolist() == [pytest.approx(5.0)]
    before = query(studied.url, "ranking")
    with studied.engine.begin() as connection:
        ranking.refresh(connection)
    assert set(map(tuple, query(studied.url, "ranking").values)) == set(map(tuple, before.values))


def test_what_another_card_did_as_well_is_no_earlier_look(studied: Store) -> None:
    sweep = studied.begin_sweep(replace(FACTS, plan_hash="each card"))
    trial = make_trial("warp", N, 128)
    studied.enlist(sweep, [trial])
    studied.record(sweep, make_outcome(trial, make_timing(5.0, method="both")))
    studied.record(sweep, make_outcome(trial, make_timing(6.0, method="both")), Origin(again=True))
    assert query(studied.url, "SELECT median_us FROM best WHERE method = 'both'")["median_us"].tolist() == [6.0]


def test_a_trial_that_turned_out_wrong_is_never_ranked_again(studied: Store) -> None:
    sweep = studied.begin_sweep(replace(FACTS, plan_hash="later"))
    trial = make_trial("warp", N, 128)
    studied.enlist(sweep, [trial])
    studied.record(sweep, make_outcome(trial, state=State.WRONG_RESULT, message="once in a while"))
    gpu = cold(query(studied.url, "best")).set_index("device")
    assert gpu.loc["NVIDIA H200", "variant"] == "cub"
    after = cold(query(studied.url, "before_after")).set_index("variant")
    assert after.loc["warp", "tunables"] == "block=64"


def test_before_after_compares_fastest_tunables_with_the_baseline(study: str) -> None:
    frame = cold(query(study, "before_after")).set_index("variant")
    assert set(frame.index) == {"compacted", "sequential", "warp", "cub"}  # nothing wrong, nothing of another device
    row = frame.loc["warp"]
    assert (row["before_us"], row["after_us"]) == (pytest.approx(80.0), pytest.approx(16.0))
    assert (row["ratio"], row["saved_us"], row["saved_percent"]) == (
        pytest.approx(5),
        pytest.approx(64),
        pytest.approx(80),
    )
    assert (row["baseline_tunables"], row["tunables"]) == ("block=128", "block=128")


def test_before_after_never_compares_across_sweeps(studied: Store) -> None:
    slower = {name: value * 2 for name, value in MEDIANS.items()}
    second = run_study(studied, slower)
    frame = cold(query(studied.url, "before_after"))
    assert len(frame) == 8
    row = frame[(frame["sweep_id"] == second) & (frame["variant"] == "warp")].iloc[0]
    assert (row["before_us"], row["after_us"]) == (pytest.approx(160.0), pytest.approx(32.0))


def test_speedups_are_those_of_the_study_table(study: str) -> None:
    frame = cold(query(study, "SELECT * FROM speedups ORDER BY measure, position"))
    gpu = frame[frame["device"] == "NVIDIA H200"]
    assert gpu["variant"].tolist() == ["interleaved", "compacted", "sequential", "warp", "cub"]
    assert gpu["step_speedup"].iloc[1:4].tolist() == [pytest.approx(2), pytest.approx(1.25), pytest.approx(2)]
    assert gpu["step_speedup"].isna().tolist() == [True, False, False, False, True]
    assert gpu["previous"].iloc[3] == "sequential"  # the wrong ones between are not steps
    assert gpu["cumulative_speedup"].tolist() == [pytest.approx(value) for value in (1, 2, 2.5, 5, 4)]
    assert frame[frame["variant"] == "numpy"]["cumulative_speedup"].isna().all()


def test_without_its_baseline_a_sweep_still_has_steps(store: Store) -> None:
    sweep = store.begin_sweep(replace(FACTS, baseline="absent"))
    run_study(store, MEDIANS, sweep)
    assert query(store.url, "before_after").empty
    frame = cold(query(store.url, "SELECT * FROM speedups WHERE variant = 'compacted'"))
    assert frame["step_speedup"].tolist() == [pytest.approx(2)]
    assert frame["cumulative_speedup"].isna().all()


def test_figures_have_the_same_types_on_every_database(study: str) -> None:
    for name in ("timings", "before_after", "speedups", "best", "slowest", "noisiest", "tunables"):
        frame = query(study, name)
        numbers = [
            column for column in frame if column.endswith(("_us", "_gbs", "ratio", "speedup", "spread", "percent"))
        ]
        assert not frame.empty
        assert {str(frame[column].dtype) for column in numbers} == {"float64"}, name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("failures", {"variant": ["broken", "broken"], "state": ["wrong_result"] * 2}),
        ("skipped", {"backend": ["opencl"], "trials": [1]}),
        ("sweeps", {"trials": [15], "ok": [12], "failed": [2], "skipped": [1], "reused": [0]}),
        ("devices", {"name": ["NVIDIA H200", "AMD EPYC 9554"]}),
    ],
)
def test_named_queries(study: str, name: str, expected: dict[str, list[object]]) -> None:
    frame = query(study, name)
    assert {column: frame[column].tolist() for column in expected} == expected


def test_the_slowest_are_measured_against_the_best(study: str) -> None:
    frame = cold(query(study, "slowest"))
    assert (frame["variant"][0], frame["tunables"][0]) == ("interleaved", "block=64")
    assert frame["times_slower"][0] == pytest.approx(120 / 16)


@pytest.mark.slow
def test_views_stay_quick_with_thousands_of_trials(tmp_path: Path) -> None:
    names = ("interleaved", *(f"step{number}" for number in range(4)))
    trials = [make_trial(name, n, block) for n in range(1, 101) for name in names for block in (32, 64, 128, 256)]
    with Store.open(f"sqlite:///{tmp_path / 'large.sqlite'}") as store:
        sweep = store.begin_sweep(FACTS)
        store.enlist(sweep, trials)
        with store.engine.begin() as connection:  # one transaction for all: it is the views that are timed
            for number, trial in enumerate(trials):
                outcomes.record(connection, sweep, make_outcome(trial, make_timing(10 + number % 37, samples=2)))
            for trial in trials[:100]:
                rolled = (make_counter(f"m{number}", 1.0) for number in range(20))
                counters.record_profile(connection, sweep, make_profile(trial, *rolled))
        start = time.perf_counter()
        rows = {
            name: len(query(store.url, name)) for name in ("best", "before_after", "slowest", "counters_before_after")
        }
        took = time.perf_counter() - start
    assert rows == {"best": 100, "before_after": 400, "slowest": 20, "counters_before_after": 400}
    assert took < 60  # half a second when nothing else runs; a plan that reads a view once a row takes minutes


def test_trials_of_the_same_machine_code_are_listed(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    hashes = {"interleaved": "a" * 64, "compacted": "a" * 64, "warp": "b" * 64, "racy": ""}
    trials = [make_trial(name, N) for name in hashes]
    store.enlist(sweep, trials)
    for trial in trials:
        build = BuildFacts(sass_hash=hashes[trial.variant])
        store.record(sweep, replace(make_outcome(trial, make_timing(10.0)), build=build))
    found = query(store.url, "SELECT * FROM same_code")
    assert sorted(found["variant"]) == ["compacted", "interleaved"]
    assert set(found["sass_hash"]) == {"a" * 40}
    assert query(store.url, "SELECT COUNT(*) AS n FROM run WHERE build_sass_hash IS NULL")["n"].tolist() == [1]
