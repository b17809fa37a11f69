from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
from study_data import CPU, GPU, NO_CUDA, Made, fill

from cuprof.core.errors import SelectionError, StoreError, UnknownNameError
from cuprof.core.records import Measure, State
from cuprof.families import Point
from cuprof.report.load import load_study
from cuprof.report.page import render
from cuprof.report.summary import conclude


def test_a_trial_has_its_times_bandwidth_share_and_speedup(make_study) -> None:
    study = make_study([Made("before", 20.0, total=50.0), Made("after", 8.0)])
    before, after = study.trials
    assert after.median_ns == pytest.approx(8000)
    assert after.interval is not None
    assert after.interval[0] < 8000 < after.interval[1]
    assert after.bandwidth == pytest.approx(4 * 2**20 / 8e-6)
    assert after.share == pytest.approx(after.bandwidth / 1e12)
    assert study.speedup(after) == pytest.approx(2.5, rel=0.01)
    assert before.timings[Measure.TOTAL].median_ns == pytest.approx(50_000)
    assert Measure.TOTAL not in after.timings
    assert (study.baseline, study.stand_in) == ("before", "")


def test_only_right_results_are_ranked(make_study) -> None:
    study = make_study(
        [
            Made("base", 10.0),
            Made("wrong", state=State.WRONG_RESULT, message="sum[0] = 1, expected 2"),
            Made("lucky", 1.0, expected="wrong"),
        ]
    )
    assert [trial.contender for trial in study.best] == ["base"]
    assert [study.speedup(trial) for trial in study.trials] == [1.0, None, None]


def test_the_best_tunables_stand_for_a_variant(make_study) -> None:
    study = make_study([Made("v", 10.0 + abs(b - 128), tune={"block": b}) for b in (64, 128, 256)] + [Made("w", 11.0)])
    assert [trial.tunables.label for trial in study.best] == ["block=128", ""]


def test_the_reference_is_the_studys_problem_or_the_largest_right_one(make_study) -> None:
    trials = [Made("v", 5.0, {"n": n, "dtype": "f"}) for n in (16, 64, 32)]
    assert make_study(trials, name="a").reference == Point(n=64, dtype="f")
    chosen = make_study(trials, "reference_problem: {n: 32}", name="b")
    assert chosen.reference["n"] == 32
    assert not any("takes its place" in text for text in conclude(chosen)["cautions"])
    missing = make_study(trials, "reference_problem: {n: 2**20}", name="c")
    assert missing.reference["n"] == 64
    assert "n=2^20, which is not part of this sweep; n=64, dtype=f takes its place" in conclude(missing)["cautions"][0]
    wrong = [replace(trials[1], state=State.WRONG_RESULT), trials[0]]
    assert make_study(wrong, name="d").reference["n"] == 16


def test_a_variant_on_two_devices_is_two_contenders(make_study) -> None:
    other = replace(GPU, name="Test GPU 2", uuid="u2", identity={"name": "Test GPU 2"})
    study = make_study(
        [
            Made("a", 10.0),
            Made("a", 20.0, device=other),
            Made("b", 5.0),
            Made("b", 5.0, device=other),
            Made("c", 90.0, device=CPU, kind="cpu"),
        ]
    )
    assert [trial.contender for trial in study.best] == [
        "a @ Test GPU 9000",
        "a @ Test GPU 2",
        "b @ Test GPU 9000",
        "b @ Test GPU 2",
        "c",
    ]
    # each against its own device's baseline
    assert [study.speedup(trial) for trial in study.best] == pytest.approx([1, 1, 2, 4, 10 / 90], rel=0.01)
    assert [device.read_bandwidth for device in study.devices] == [1e12, 1e12, 2e10]


def test_two_cards_of_one_model_are_one_device(make_study) -> None:
    study = make_study([Made("a"), Made("b", device=replace(GPU, index=1, uuid="uuid-1"))])
    assert [device.label for device in study.devices] == ["Test GPU 9000"]
    assert [trial.contender for trial in study.trials] == ["a", "b"]


def test_runs_of_earlier_sweeps_are_part_of_the_study(store) -> None:
    trials = [Made("a", 10.0), Made("b", 5.0)]
    first = fill(store, trials)
    again = fill(store, [replace(each, state=State.PLANNED) for each in trials], calibrate=False)
    study = load_study(store, "invented")
    assert study.sweep.id == again
    assert [trial.run_sweep_id for trial in study.trials] == [first, first]
    assert [trial.median_ns for trial in study.best] == pytest.approx([10_000, 5_000])
    assert study.devices[0].read_bandwidth == 1e12  # of the earlier sweep: this one measured none


def test_a_skipped_trial_says_why_and_has_no_device(make_study) -> None:
    study = make_study(
        [Made("gpu", state=State.PLANNED, device=None, unavailable=NO_CUDA), Made("cpu", device=CPU, kind="cpu")]
    )
    trial = study.trials[0]
    assert (trial.state, trial.device) == (State.SKIPPED, "")
    assert trial.message == str(NO_CUDA)
    assert study.stand_in == "cpu"


def test_what_is_not_stored_is_named(store) -> None:
    fill(store, [Made("a")])
    with pytest.raises(UnknownNameError, match=r"unknown stored experiment 'invent'.*did you mean invented\?"):
        load_study(store, "invent")
    with pytest.raises(SelectionError, match="no sweep 7; the newest is 1"):
        load_study(store, sweep_id=7)


def test_a_sweep_of_another_experiment_or_purpose_is_refused(store) -> None:
    wanted = fill(store, [Made("a")], name="1")
    fill(store, [Made("a")], name="2")
    counted = fill(store, [Made("a")], name="3", purpose="profiling")
    other = fill(store, [Made("a")], name="4", experiment="other")
    assert load_study(store, "invented", sweep_id=wanted).sweep.id == wanted
    assert load_study(store, sweep_id=other).sweep.id == other
    with pytest.raises(
        SelectionError, match=f"sweep {other} is of experiment=other, not of invented; write experiment="
    ):
        load_study(store, "invented", sweep_id=other)  # though it is of the family invented
    with pytest.raises(SelectionError, match=f"sweep {counted} collected counters"):
        load_study(store, "invented", sweep_id=counted)


def test_a_familys_name_finds_its_sweeps_where_no_experiment_has_it(store) -> None:
    named = fill(store, [Made("a")], family="lonely", experiment="study")
    unnamed = fill(store, [Made("a")], family="lonely", experiment="")
    for sweep in (named, unnamed):
        assert load_study(store, "lonely", sweep_id=sweep).sweep.id == sweep
    with pytest.raises(SelectionError, match=f"sweep {unnamed} is of family=lonely, not of study"):
        load_study(store, "study", sweep_id=unnamed)


def test_a_sweep_without_an_experiment_is_found_by_its_family(store) -> None:
    fill(store, [Made("a")], experiment="", family="lonely")
    assert load_study(store, "lonely").title == "test"


def test_energy_is_found_with_whichever_measure_was_taken_first(make_study) -> None:
    study = make_study([Made("a", total=20.0, energy_j=0.5, energy_measure=Measure.TOTAL), Made("b", energy_j=0.25)])
    assert [trial.energy_j for trial in study.trials] == [0.5, 0.25]
    assert [trial.mean_w for trial in study.trials] == [250.0, 250.0]


@pytest.mark.parametrize(("typed", "baseline"), [("after", "after"), ("", "before")])
def test_a_baseline_that_was_typed_goes_before_the_studys(make_study, typed: str, baseline: str) -> None:
    study = make_study(
        [Made("other", 40.0), Made("before", 20.0), Made("after", 8.0)],
        "baseline: before\n",
        baseline=typed or "other",
        configuration={"baseline": typed},
    )
    assert study.baseline == baseline
    assert {trial.variant: study.speedup(trial) for trial in study.trials}[baseline] == 1.0


@pytest.mark.parametrize(
    "change",
    [
        "device SET memory_bytes = 'much'",
        """device SET details = '{"theoretical_bandwidth_gbs": "fast"}'""",
        "device SET details = '[1]'",
        "calibration SET read_bandwidth = 'fast'",
        "timing SET median_ns = 'short'",
        "run SET check_error = 'large'",
        "sweep SET started_at = 'yesterday'",
        "trial SET useful_bytes = 'many'",
    ],
)
def test_text_in_a_column_of_numbers_is_one_line(store, change: str) -> None:
    fill(store, [Made("a"), Made("b")])
    with sqlite3.connect(str(store.url).removeprefix("sqlite:///")) as file:
        file.execute(f"UPDATE {change}")
    with pytest.raises(StoreError, match=r"is damaged or was changed by hand \(.*\); restore a copy") as caught:
        render(load_study(store, "invented"))
    assert "\n" not in str(caught.value)


def test_of_two_trials_of_one_name_the_page_has_the_last(store) -> None:
    fill(store, [Made("a", 10.0), Made("b", 20.0), Made("c", 30.0)])
    with sqlite3.connect(str(store.url).removeprefix("sqlite:///")) as file:
        file.execute("UPDATE variant SET name = 'a', source_hash = name WHERE name = 'b'")
    study = load_study(store, "invented")
    assert [(trial.variant, trial.median_ns) for trial in study.trials] == [("a", 20_000.0), ("c", 30_000.0)]
    assert "figure-distribution" in render(study)
