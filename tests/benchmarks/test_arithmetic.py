"""The arithmetic of the scripts: bounds, rows and criteria, without any GPU."""

import json

import numpy as np
import pytest

from benchmarks import agreement, faults, known_truth, memory_pauses, profilers, side_by_side
from benchmarks.process import Answer
from benchmarks.space import CONFIGURATIONS
from benchmarks.ten_kernels import NAMES
from benchmarks.tools.nvbench_report import read_states


@pytest.mark.parametrize(
    ("truth_us", "median_us", "within"),
    [(50, 50.5, True), (50, 50.51, False), (20, 20.5, True), (20, 19.49, False), (1000, 990, True), (1, 1.6, False)],
)
def test_known_truth_allows_one_percent_above_and_half_a_microsecond_below(truth_us, median_us, within):
    assert known_truth.make_row(truth_us, median_us, median_us, median_us)["within"] is within


def test_known_truth_states_the_interval_of_the_worse_side():
    assert known_truth.make_row(100, 100, 99, 100.5)["interval ±%"] == pytest.approx(1)


def stream(step_ns, pause_ns=1000, every_ns=100_000):
    """Return when pieces of a stream ended: one every 15 ns on average for 3 ms, none in a pause."""
    ended = np.cumsum(np.random.default_rng(1).exponential(15, 200_000))
    ended = ended + pause_ns * (ended // (every_ns - pause_ns))  # whatever would have ended in a pause ends after it
    return (ended // step_ns * step_ns).astype(np.uint64) + np.uint64(1_795_182_410_000_000_000)


def test_memory_pauses_are_found_with_their_length_and_distance():
    row = memory_pauses.make_row(1, stream(32))
    assert row["pauses"] in (28, 29, 30)
    assert row["every µs"] == pytest.approx(100, abs=0.2)
    assert row["median µs"] == pytest.approx(1, abs=0.1)


def test_a_memory_pause_that_late_pieces_interrupt_is_one():
    ended = stream(32)
    late = ended.min() + np.uint64(99_500) + np.arange(1, 29, dtype=np.uint64) * np.uint64(100_000)
    row = memory_pauses.make_row(1, np.concatenate([ended, late]))
    assert row["pauses"] in (28, 29, 30)
    assert row["median µs"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(("step_ns", "pause_ns"), [(32, 0), (1024, 1000)])
def test_memory_pauses_are_not_made_up(step_ns, pause_ns):
    """Neither chance nor the steps of a coarse counter make one."""
    row = memory_pauses.make_row(1, stream(step_ns, pause_ns))
    assert row["pauses"] == 0
    assert "every µs" not in row


@pytest.mark.parametrize(
    ("tool", "ours", "theirs", "agrees"),
    [
        ("CUPTI", 3.3, 3.0, True), ("CUPTI", 3.34, 3.0, False), ("CUPTI", 1000, 1010, True), ("ncu", 3.0, 4.3, True),
        ("ncu", 3.0, 4.4, False), ("ncu", 100, 102.3, True),
    ],
)  # fmt: skip
def test_agreement_bounds(tool, ours, theirs, agrees):
    assert agreement.agrees(ours, theirs, tool) is agrees


def test_agreement_tells_which_kernel_fails_and_what_could_not_be_told():
    ours = dict.fromkeys(NAMES, 10000.0)
    found = {
        "cuprof": {"median_ns": ours, "low_ns": ours, "high_ns": ours, "samples": dict.fromkeys(NAMES, 20)},
        "CUPTI": {"median_ns": {**ours, NAMES[3]: 12_000.0}},
    }
    rows = agreement.make_rows(found)
    assert [row["kernel"] for row in rows if not row["CUPTI ok"]] == [NAMES[3]]
    assert rows[3]["-CUPTI"] == pytest.approx(-2)
    by_cupti, by_ncu = agreement.make_criteria(rows).values()
    assert (by_cupti, by_ncu) == (False, None)


def test_agreement_takes_no_reading_within_a_tools_own_spread_for_a_contradiction():
    assert not agreement.agrees(34.0, 35.7, "ncu")
    assert agreement.agrees(34.0, 35.7, "ncu", spread=0.016)
    assert not agreement.agrees(33.4, 35.7, "ncu", spread=0.016)


def test_agreement_says_how_far_apart_readings_lie():
    medians = {bound: {NAMES[0]: ns} for bound, ns in (("median_ns", 2000.0), ("low_ns", 1960.0), ("high_ns", 2080.0))}
    row = agreement.make_rows({"ncu": medians})[0]
    assert row == {"kernel": NAMES[0], "ncu": 2.0, "ncu ±%": pytest.approx(4)}


def test_agreement_without_cuprof_still_shows_the_others():
    rows = agreement.make_rows({"Triton": {"median_ns": {NAMES[0]: 3000.0}}})
    assert rows[0] == {"kernel": NAMES[0], "Triton": 3.0}
    assert set(agreement.make_criteria(rows).values()) == {None}


def answer(wall_s, medians, **more):
    count = len(medians)
    found = {"indices": list(range(count)), "median_ns": medians, "spread": [0.01] * count, "samples": [7] * count}
    return Answer(wall_s, {**found, "measuring_s": 0.5, **more})


def test_side_by_side_shows_the_best_configuration():
    tool = side_by_side.Tool("x", lambda work: Answer(0), "cold")
    row = side_by_side.make_row(tool, answer(2.0, [3000.0, 1000.0, 2000.0]))
    assert (row["best"], row["best µs"], row["done"]) == (CONFIGURATIONS[1].label, 1.0, 3)
    assert row["best IQR %"] == pytest.approx(1)


def test_side_by_side_says_why_a_tool_is_missing():
    tool = side_by_side.Tool("x", lambda work: Answer(0), "cold")
    row = side_by_side.make_row(tool, Answer(1.0, fault="not installed: x"))
    assert (row["found"], row["wall s"]) == ("no result: not installed: x", None)


def test_side_by_side_criteria():
    rows = {
        "cuprof": {"wall s": 6.0, "narrow": 48},
        "cuprof-7": {"wall s": 4.0},
        "nvbench": {"wall s": 60.0},
        "kernel-tuner": {"wall s": 3.9},
    }
    assert list(side_by_side.make_criteria(rows).values()) == [True, True, False]
    assert list(side_by_side.make_criteria({**rows, "nvbench": {}}).values()) == [True, None, False]
    assert list(side_by_side.make_criteria({**rows, "cuprof": {"wall s": 6.1, "narrow": 47}}).values())[:2] == [
        False,
        False,
    ]


def test_profilers_compare_with_bare_ncu_in_the_same_state():
    answers = {
        "ncu, bare, nothing built": Answer(10.0, {"launches": 48}),
        "cuprof ncu-collect, nothing built": Answer(15.0, {"launches": 48}),
        "ncu, bare": Answer(8.0, {"launches": 48}),
        "cuprof ncu-collect": Answer(9.6, {"launches": 48}),
        "nsight-python": Answer(0.0, fault="not installed: nsight"),
        "ncu, a process a trial": Answer(120.0, {"launches": 3}),
    }
    ratios = {row["tool"]: row.get("÷ bare ncu") for row in profilers.make_rows(answers)}
    assert ratios["cuprof ncu-collect"] == pytest.approx(1.2)
    assert ratios["cuprof ncu-collect, nothing built"] == pytest.approx(1.5)
    assert ratios["nsight-python"] is None
    assert list(profilers.make_criteria(answers).values()) == [True, True, False, None, True]


def test_faults_ask_for_typed_rows_and_measured_sound_trials():
    sound = {"trial": "faulty/sound · n=1", "state": "ok", "message": "", "median_ns": 2000.0}
    broken = {"trial": "faulty/traps · n=1", "state": "crashed", "message": "first\nsecond", "median_ns": None}
    rows = [faults.make_row(stored) for stored in (sound, broken, sound)]
    assert rows[1]["message"] == "first"
    assert set(faults.make_criteria(rows).values()) == {True}
    assert set(faults.make_criteria([rows[0], faults.make_row({**sound, "state": "planned"})]).values()) == {
        False,
        True,
    }
    assert list(faults.make_criteria(rows[:2]).values())[-1] is False


def test_nvbench_states_are_read_by_tag(tmp_path):
    def summary(tag, value):
        return {"tag": tag, "data": [{"name": "value", "type": "float64", "value": str(value)}]}

    state = {
        "axis_values": [{"name": "kernel", "type": "int64", "value": "3"}],
        "summaries": [
            summary("nv/cold/time/gpu/mean", 2e-6),
            summary("nv/cold/time/gpu/stdev/relative", 0.02),
            summary("nv/cold/sample_size", 100),
            summary("nv/cold/walltime", 0.5),
            summary("nv/batch/walltime", 0.25),
        ],
        "is_skipped": False,
    }
    file = tmp_path / "nvbench.json"
    file.write_text(json.dumps({"benchmarks": [{"states": [state, {**state, "is_skipped": True}]}]}))
    (found,) = read_states(file)
    assert (found.axes, found.samples, found.iqr, found.measuring_s) == ({"kernel": "3"}, 100, 0.02, 0.75)
    assert found.time_ns == pytest.approx(2000)
    state["summaries"].append(summary("nv/cold/time/gpu/median", 1e-6))
    file.write_text(json.dumps({"benchmarks": [{"states": [state]}]}))
    assert read_states(file)[0].time_ns == pytest.approx(1000)
