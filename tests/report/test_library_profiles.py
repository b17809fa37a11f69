"""Library calls that took another algorithm under the profiler than was timed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from study_data import Made, add_counters

from cuprof.report.counter_section import counter_section
from cuprof.report.counters import find_other_algorithms
from cuprof.report.experiment import TableSpec
from cuprof.report.grid import grid_table
from cuprof.report.load import load_study
from cuprof.report.study import Study

GRID = "launch__grid_dim_z"


@pytest.mark.parametrize(
    ("kind", "mode", "profiled_us", "judged"),
    [
        ("library", "cold", 31.0, True),
        ("library", "cold", 29.0, False),
        ("library", "cold", 13.0, True),  # the profiled one may be the faster one as well
        ("library", "cold", 14.0, False),
        ("library", "cold", 9.9, False),  # too short to be judged
        ("library", "hot", 20.0, True),  # against the hot time, 12 µs
        ("library", "hot", 17.0, False),
        ("kernel", "cold", 90.0, False),
        ("library", "cold", None, False),
    ],
)
def test_durations_far_apart_are_of_two_algorithms(
    kind: str, mode: str, profiled_us: float | None, judged: bool
) -> None:
    trials = pd.DataFrame({"id": [1], "kind": [kind], "cold_ns": [20e3], "hot_ns": [12e3]})
    profiles = make_profiles([(7, mode, profiled_us and profiled_us * 1e3)])
    assert [*find_other_algorithms(trials, profiles)] == ([7] if judged else [])


def make_profiles(rows: list[tuple[int, str, float | None]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["profile_id", "cache_mode", "duration_ns"])
    return frame.astype({"duration_ns": float}).assign(trial_id=1)


def test_without_a_time_nothing_is_judged() -> None:
    trials = pd.DataFrame({"id": [1], "kind": ["library"], "cold_ns": [np.nan], "hot_ns": [np.nan]})
    profiles = make_profiles([(i, mode, 1e6) for i, mode in enumerate(("cold", "hot", "else"))])
    assert find_other_algorithms(trials, profiles) == {}


def profiled(store, make_study, *, library_ns: float, clock_control: str = "none") -> Study:
    trials = [Made("base", 30.0), Made("own", 20.0), Made("lib", 13.6, kind="library")]
    sweep = make_study(trials).sweep.id
    for variant, depth, duration_ns in (("base", 9, 30e3), ("own", 3, 20e3), ("lib", 1, library_ns / 2)):
        kernels = ("convert", "multiply") if variant == "lib" else ("k",)
        values = {kernel: {GRID: (depth, "")} for kernel in kernels}
        add_counters(store, sweep, variant, values, duration_ns=duration_ns)
    if clock_control != "none":
        add_counters(store, sweep, "lib", {"k": {"x": (1.0, "")}}, clock_control=clock_control, duration_ns=90e3)
    return load_study(store, sweep_id=sweep)


def test_counters_of_another_algorithm_are_in_no_pair_and_both_durations_are_said(store, make_study) -> None:
    study = profiled(store, make_study, library_ns=22.4e3)
    section = counter_section(study)
    assert [(pair["before"], pair["after"]) for pair in section["pairs"]] == [("base", "own")]
    assert section["notes"][-1] == (
        "lib was profiled with another algorithm than was timed at n=2^20 (22.4\u00a0µs under Nsight Compute, "
        "13.6\u00a0µs timed); its counters are not compared there."
    )
    assert len(study.counters.advice) == 2
    assert section["overview"] is not None
    rows = {row.heading: [cell.text for cell in row.cells] for row in section["overview"].rows}
    assert rows == {
        "base": ["30.0", "9"],
        "own": ["20.0", "3"],
        "lib": [
            "13.6",
            "profiled with another algorithm than was timed: 22.4\u00a0µs under Nsight Compute, 13.6\u00a0µs timed",
        ],
    }


def test_a_librarys_counters_of_the_same_algorithm_are_compared(store, make_study) -> None:
    study = profiled(store, make_study, library_ns=16e3)
    section = counter_section(study)
    assert [pair["after"] for pair in section["pairs"]] == ["own", "lib"]
    assert study.counters.other_algorithm == {}
    assert not any("another algorithm" in note for note in section["notes"])


def test_locked_clocks_make_no_other_algorithm(store, make_study) -> None:
    assert profiled(store, make_study, library_ns=16e3, clock_control="base").counters.other_algorithm == {}


def test_tables_of_a_counter_say_it_in_the_cell(store, make_study) -> None:
    table = grid_table(profiled(store, make_study, library_ns=22.4e3), TableSpec(kind="pivot", value=GRID))
    assert {row.heading: row.cells[0].text for row in table.rows} == {
        "base": "9",
        "own": "3",
        "lib": "profiled with another algorithm",
    }


def test_a_later_profile_of_the_timed_algorithm_takes_its_place(store, make_study) -> None:
    sweep = profiled(store, make_study, library_ns=22.4e3).sweep.id
    add_counters(store, sweep, "lib", {"k": {GRID: (2, "")}}, duration_ns=14e3)
    study = load_study(store, sweep_id=sweep)
    assert study.counters.other_algorithm == {}
    assert counter_section(study)["pairs"][1]["after"] == "lib"
    add_counters(store, sweep, "lib", {"k": {GRID: (1, ""), "new": (5.0, "")}}, duration_ns=22.4e3)
    study = load_study(store, sweep_id=sweep)
    lib = next(trial.id for trial in study.trials if trial.variant == "lib")
    assert study.counters.other_algorithm == {(lib, "new"): "22.4\u00a0µs under Nsight Compute, 13.6\u00a0µs timed"}
    assert study.counters.values[lib, GRID].value == 2


def test_where_only_another_algorithm_was_profiled_the_section_says_so(store, make_study) -> None:
    sweep = make_study([Made("base", 30.0), Made("lib", 13.6, kind="library")]).sweep.id
    add_counters(store, sweep, "lib", {"k": {GRID: (1, "")}}, duration_ns=22.4e3)
    section = counter_section(load_study(store, sweep_id=sweep))
    assert (section["pairs"], section["overview"]) == ([], None)
    assert [note.partition(" at ")[0] for note in section["notes"]] == [
        "lib was profiled with another algorithm than was timed"
    ]
