from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from study_data import CPU, GPU, Made, add_counters

from cuprof.report.counter_section import WORDS, counter_section, describe_change, format_change
from cuprof.report.counters import Counters
from cuprof.report.load import load_study
from cuprof.report.templates import say_once
from cuprof.report.trials import grouped

GRID = "launch__grid_dim_z"
DRAM = "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed"
SHARED = "launch__shared_mem_per_block_dynamic"
SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"


@pytest.mark.parametrize(
    ("metric", "before", "after", "says"),
    [
        (GRID, 9, 1, "flat in z now (9 → 1)"),
        (GRID, 4, 4, "keeps its depth of 4"),
        (GRID, 2, 6, "deeper, 2 → 6 layers: work along z is split into more blocks"),
        (DRAM, 0.8, 0.2, "fell by a factor of 4.00, from 0.8 % to 0.2 % of its peak; both are far from the peak"),
        (DRAM, 40, 92, "runs close to this unit's limit"),
        (SHARED, 0, 256, "Blocks now use dynamic shared memory, 256 byte each; none before."),
        (SHARED, 0, 0, "Neither uses dynamic shared memory."),
        (SECTOR, 25.87, 31.34, "Global loads are better coalesced: 81 % → 98 % of each 32-byte sector is used."),
        (SECTOR, 32, 16, "Global loads are less well coalesced: 100 % → 50 %"),
        ("dram__bytes_read.sum", 100, 50, "What is read from DRAM fell by a factor of 2.00: less data travels in."),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", 40, 60, "Achieved occupancy rose by 50 %"),
        ("smsp__inst_executed.sum", 1000, 1005, "stayed about the same (+0.5\u00a0%)."),
        ("smsp__inst_executed.sum", 1000, 800, "fell by 20 %: fewer instructions for the same result."),
        ("smsp__thread_inst_executed_per_inst_executed.ratio", 8, 31, "8.0 → 31.0 of a warp's 32 threads"),
        ("l1tex__data_bank_conflicts_pipe_lsu.sum", 500, 0, "is gone: 500 before, none now: fewer accesses"),
        ("something__nobody.knows", 2, 3, "It rose by 50 %."),
    ],
)
def test_a_change_is_put_into_words(metric: str, before: float, after: float, says: str) -> None:
    assert says in describe_change(metric, before, after)


def test_a_missing_value_has_no_meaning() -> None:
    assert describe_change(GRID, None, 3) == ""
    assert describe_change(GRID, float("nan"), 3) == ""
    assert [format_change(a, b) for a, b in ((None, 1), (3, 3), (0, 256), (8, 2), (2, 3))] == [
        "–",
        "=",
        "+256",
        "÷\u00a04.00",
        "×\u00a01.50",
    ]
    assert format_change(68_199_168, 68_195_840) == "≈"


def test_without_counters_the_section_says_how_to_collect_them(make_study) -> None:
    section = counter_section(make_study([Made("a"), Made("b")]))
    assert section["pairs"] == []
    assert section["how"] == "python -m cuprof ncu-collect experiment=invented"


def test_a_pair_has_values_changes_launches_and_advice(store, make_study) -> None:
    sweep = make_study([Made("split", 10.0), Made("fused", 5.0), Made("unprofiled", 4.0)]).sweep.id
    add_counters(
        store,
        sweep,
        "split",
        {"scalar_prods": {GRID: (9, ""), SECTOR: (25.87, "byte/sector")}, "sum_taps": {GRID: (1, "")}},
    )
    add_counters(store, sweep, "fused", {"fused": {GRID: (1, ""), SECTOR: (31.34, "byte/sector"), "x": (1.0, "inst")}})
    section = counter_section(load_study(store, "invented"))
    (pair,) = section["pairs"]
    assert (pair["before"], pair["after"], pair["speedup"]) == ("split", "fused", pytest.approx(2.0, rel=0.01))
    rows = [(row["metric"], row["unit"], row["before"], row["after"], row["change"]) for row in pair["changes"]]
    assert rows == [
        (GRID, "", "9", "1", "÷\u00a09.00"),
        (SECTOR, "byte/sector", "25.87", "31.34", "×\u00a01.21"),
        ("x", "inst", "not collected", "1", "–"),
    ]
    assert pair["changes"][0]["before_launches"] == "scalar_prods 9, sum_taps 1"
    assert [(each["variant"], each["kernel"]) for each in pair["observations"]] == [
        ("split", "scalar_prods"),
        ("split", "sum_taps"),
        ("fused", "fused"),
    ]
    assert pair["observations"][0]["text"] == "Advice on scalar_prods: coalesce"


def test_steps_are_compared_with_the_step_before_and_the_rest_with_the_baseline(store, make_study) -> None:
    trials = [Made(name) for name in ("one", "two", "three", "more")]
    sweep = make_study(trials, "steps: [one, two, three]").sweep.id
    for variant, depth in (("one", 8), ("two", 4), ("three", 4), ("more", 1)):
        add_counters(store, sweep, variant, {"k": {GRID: (depth, ""), SECTOR: (32.0, "byte/sector")}})
    section = counter_section(load_study(store, sweep_id=sweep, folders=[store_folder(store)]))
    assert [(pair["before"], pair["after"]) for pair in section["pairs"]] == [
        ("one", "two"),
        ("two", "three"),
        ("one", "more"),
    ]
    assert section["pairs"][2]["topics"] == [
        ("Grid", "The grid is flat in z now (8 → 1): no axis of the problem is spread over grid z any more."),
        ("Coalescing", "Global loads use their sectors as well as before (100 % → 100 % of each 32-byte sector)."),
    ]
    assert section["pairs"][1]["changes"] == []
    assert section["pairs"][1]["same"] == [f"{GRID} 4", f"{SECTOR} 32 byte/sector"]
    table = section["overview"]
    assert table is not None
    assert [(column.heading, column.unit) for column in table.columns] == [("Time", "µs"), ("Grid depth", "")]
    assert [(row.heading, row.cells[1].text) for row in table.rows] == [
        ("one", "8"),
        ("two", "4"),
        ("three", "4"),
        ("more", "1"),
    ]
    assert table.notes == ("Bytes used of a loaded sector is 32 byte/sector for all.",)


def test_launches_are_listed_once_a_kernel_and_only_where_they_differ(store, make_study) -> None:
    study = make_study([Made("split"), Made("fused")])
    trial = study.trials[0]
    rows = [SimpleNamespace(kernel=kernel, metric=metric, value=value, text="") for kernel, metric, value in LAUNCHES]
    study = replace(study, counters=Counters(launches=grouped(rows, lambda row: (trial.id, row.metric))))
    said = {metric: study.counters.launches_text(trial.id, metric) for metric in ("same", "one", "two", "single")}
    assert said == {"same": "", "one": "first of 3 launches: 9", "two": "a 9; 3, b 1", "single": ""}
    assert say_once(WORDS, "rollup", "mean:gpu__time_duration.sum") == "mean of the launches, weighted by time"


LAUNCHES = [
    *(("k", "same", 4.0) for _ in range(3)),
    *(("k", "one", value) for value in (9.0, 3.0, 1.0)),
    ("a", "two", 9.0),
    ("a", "two", 3.0),
    ("b", "two", 1.0),
    ("k", "single", 5.0),
]


def store_folder(store) -> Path:
    return Path(str(store.url).removeprefix("sqlite:///")).parent / "experiments"


def test_values_in_two_units_are_not_compared(store, make_study) -> None:
    sweep = make_study([Made("split"), Made("fused")]).sweep.id
    add_counters(store, sweep, "split", {"k": {"b": (1.0, "Kbyte")}})
    add_counters(store, sweep, "fused", {"k": {"b": (900.0, "byte")}})
    (row,) = counter_section(load_study(store, "invented"))["pairs"][0]["changes"]
    assert (row["before"], row["after"], row["change"], row["sentence"]) == ("1 Kbyte", "900 byte", "–", "")


def test_counters_without_the_baseline_say_so(store, make_study) -> None:
    sweep = make_study([Made("split"), Made("fused")]).sweep.id
    add_counters(store, sweep, "fused", {"k": {GRID: (1, "")}})
    assert "none for the baseline split" in counter_section(load_study(store, "invented"))["notes"][0]


def test_cold_counters_are_never_compared_with_hot_ones(store, make_study) -> None:
    sweep = make_study([Made("split"), Made("fused"), Made("other")]).sweep.id
    add_counters(store, sweep, "split", {"k": {GRID: (9, "")}})
    add_counters(store, sweep, "split", {"k": {"hit": (80.0, "%")}}, "hot")
    add_counters(store, sweep, "fused", {"k": {GRID: (1, "")}}, "hot")
    add_counters(store, sweep, "other", {"k": {GRID: (3, ""), "hit": (20.0, "%")}})
    study = load_study(store, sweep_id=sweep)
    assert {row.cache_mode for row in study.counters.values.values()} == {study.counters.mode} == {"cold"}
    section = counter_section(study)
    (pair,) = section["pairs"]
    assert (pair["before"], pair["after"], pair["setting"]) == ("split", "other", "caches cold")
    assert [(row["metric"], row["before"], row["after"], row["change"]) for row in pair["changes"]] == [
        (GRID, "9", "3", "÷\u00a03.00"),
        ("hit", "profiled hot only", "20", "–"),
    ]
    assert section["notes"][1:] == [
        "Counters are cold: the caches were emptied before every pass.",
        "Profiled hot only, so not compared with cold counters: fused (1 trial); "
        "python -m cuprof ncu-collect experiment=invented collects cold ones.",
    ]


def test_a_baseline_with_counters_of_the_other_mode_is_compared_with_nothing(store, make_study) -> None:
    sweep = make_study([Made("split"), Made("fused")]).sweep.id
    add_counters(store, sweep, "split", {"k": {GRID: (9, "")}}, "hot")
    add_counters(store, sweep, "fused", {"k": {GRID: (1, "")}})
    section = counter_section(load_study(store, sweep_id=sweep))
    assert section["pairs"] == []
    assert section["notes"][0] == "Cold counters are stored for fused, but none for the baseline split."
    assert "not compared with cold counters: split (1 trial)" in section["notes"][2]


def test_hot_counters_alone_are_compared_and_called_hot(store, make_study) -> None:
    sweep = make_study([Made("split"), Made("fused")]).sweep.id
    for variant, depth in (("split", 9), ("fused", 1)):
        add_counters(store, sweep, variant, {"k": {GRID: (depth, "")}}, "hot")
    section = counter_section(load_study(store, sweep_id=sweep))
    assert [pair["setting"] for pair in section["pairs"]] == ["caches hot"]
    assert section["notes"][1:] == [
        "Counters are hot: the caches were as the runs before left them; they belong beside hot times.",
    ]


def test_launches_and_advice_are_of_the_studys_mode(store, make_study) -> None:
    sweep = make_study([Made("split")]).sweep.id
    add_counters(store, sweep, "split", {"cold_kernel": {GRID: (9, "")}})
    add_counters(store, sweep, "split", {"hot_kernel": {GRID: (1, "")}}, "hot")
    study = load_study(store, sweep_id=sweep)
    counters = study.counters
    assert counters.hot_only == frozenset()
    found = [*counters.launches.values(), *counters.advice.values()]
    assert [row.kernel for rows in found for row in rows] == ["cold_kernel", "cold_kernel"]


def test_counters_of_locked_clocks_are_left_out_where_others_are_there(store, make_study) -> None:
    sweep = make_study([Made("split"), Made("fused")]).sweep.id
    add_counters(store, sweep, "split", {"locked": {GRID: (1, "")}}, clock_control="base")
    assert [row.value for row in load_study(store, sweep_id=sweep).counters.values.values()] == [1]
    add_counters(store, sweep, "fused", {"free": {GRID: (9, "")}})
    study = load_study(store, sweep_id=sweep)
    assert [row.value for row in study.counters.values.values()] == [9]
    assert [row.kernel for rows in study.counters.advice.values() for row in rows] == ["free"]
    assert counter_section(study)["pairs"] == []


OPENCL = replace(GPU, backend="opencl")


@pytest.mark.parametrize(("device", "name"), [(OPENCL, "OpenCL"), (CPU, "CPU")])
def test_a_baseline_that_cannot_be_profiled_is_named_and_what_was_profiled_is_shown(
    store, make_study, device, name: str
) -> None:
    trials = [Made("base", device=device), Made("lib", kind="library"), Made("racy", expected="wrong")]
    sweep = make_study(trials).sweep.id
    for variant, depth in (("lib", 3), ("racy", 9)):
        add_counters(store, sweep, variant, {"k": {GRID: (depth, "")}})
    section = counter_section(load_study(store, sweep_id=sweep))
    assert section["notes"][0] == (
        f"The baseline base is {name} code. Nsight Compute reads no hardware counters of it: it profiles CUDA "
        "kernels only. So there is no before and after here."
    )
    assert (section["pairs"], section["how"]) == ([], "")
    assert section["overview"] is not None
    assert [(row.heading, row.cells[1].text) for row in section["overview"].rows] == [("lib", "3")]


def test_without_a_variant_to_profile_no_command_is_given(make_study) -> None:
    nothing = counter_section(make_study([Made("base", device=OPENCL), Made("new", device=OPENCL)], name="a"))
    assert (len(nothing["notes"]), nothing["how"]) == (1, "")
    cuda = counter_section(make_study([Made("base", device=OPENCL), Made("lib", kind="library")], name="b"))
    assert (len(cuda["notes"]), cuda["how"]) == (1, "python -m cuprof ncu-collect experiment=invented")


def test_the_pair_that_is_open_is_of_the_overviews_problem(store, make_study) -> None:
    trials = [
        Made(name, time, {"n": n}) for n in (4, 8) for name, time in (("base", 30.0), ("new", 20.0), ("far", 3.0))
    ]
    sweep = make_study(trials, "reference_problem: {n: 4}").sweep.id
    for variant in ("base", "new"):
        add_counters(store, sweep, variant, {"k": {GRID: (1, "")}})
    study = load_study(store, sweep_id=sweep, folders=[store_folder(store)])
    ids = {(trial.variant, trial.problem["n"]): trial.id for trial in study.trials}
    known = study.counters.values[ids["base", 4], GRID]
    more = {(ids[name, 8], GRID): known for name in ("base", "far")}
    section = counter_section(replace(study, counters=Counters({**study.counters.values, **more})))
    assert [(pair["after"], pair["problem"], pair["open"]) for pair in section["pairs"]] == [
        ("new", "n=4", True),
        ("far", "n=8", False),
    ]
