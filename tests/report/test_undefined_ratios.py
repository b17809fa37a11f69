"""Ratios of nothing are no measurements."""

from __future__ import annotations

import math

from study_data import Made, add_counters

from cuprof.report.counter_section import counter_section, explain
from cuprof.report.experiment import TableSpec
from cuprof.report.grid import grid_table
from cuprof.report.load import load_study

NO_LOADS = "no global loads counted"
USED = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
SECTORS = "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum"
PER_REQUEST = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
ROLLUPS = {USED: f"mean:{SECTORS}", PER_REQUEST: f"mean:{REQUESTS}"}
LOADS = {USED: (26.0, "byte/sector"), SECTORS: (80.0, "sector"), PER_REQUEST: (4.0, "sector"), REQUESTS: (20.0, "")}
NOTHING = {name: (0.0, unit) for name, (_, unit) in LOADS.items()}


def profiled(store, make_study, *counters):
    names = ("base", "one", "two")[: len(counters)]
    sweep = make_study([Made(name) for name in names]).sweep.id
    for name, launches in zip(names, counters, strict=True):
        add_counters(store, sweep, name, launches, rollups=ROLLUPS)
    return load_study(store, sweep_id=sweep)


def test_without_loads_there_is_no_coalescing_to_speak_of(store, make_study) -> None:
    study = profiled(store, make_study, {"k": LOADS}, {"k": LOADS}, {"k": NOTHING})
    section = counter_section(study)
    pair = section["pairs"][1]
    assert pair["after"] == "two"
    assert [topic for topic, _ in pair["topics"]] == []
    changes = {change["metric"]: change for change in pair["changes"]}
    for metric, before in ((USED, "26"), (PER_REQUEST, "4")):
        change = changes[metric]
        assert (change["before"], change["after"], change["change"]) == (before, NO_LOADS, "–")
        assert change["sentence"] == explain([NO_LOADS])
    assert changes[SECTORS]["after"] == "0"  # that nothing was counted is itself a count
    assert section["overview"] is not None
    assert [row.cells[-1].text for row in section["overview"].rows] == ["26", "26", NO_LOADS]
    assert "Asynchronous copies" in explain([NO_LOADS])
    assert section["overview"].notes == (explain([NO_LOADS]),)


def test_a_zero_of_something_stays_a_zero(store, make_study) -> None:
    zero = {**LOADS, USED: (0.0, "byte/sector")}
    study = profiled(store, make_study, {"k": LOADS}, {"k": zero})
    (pair,) = counter_section(study)["pairs"]
    assert next(change["after"] for change in pair["changes"] if change["metric"] == USED) == "0"
    without_weight = profiled(store, make_study, {"k": {USED: LOADS[USED]}}, {"k": {USED: (0.0, "byte/sector")}})
    assert [row.value for row in without_weight.counters.values.values() if row.metric == USED][-1] == 0


def test_one_launch_without_loads_among_others_is_named(store, make_study) -> None:
    study = profiled(store, make_study, {"load": LOADS, "copy": NOTHING}, {"k": LOADS})
    launches = [row for (_, metric), rows in study.counters.launches.items() for row in rows if metric == USED]
    assert {row.kernel: row.text for row in launches}["copy"] == NO_LOADS
    assert {row.kernel: not math.isnan(row.value) for row in launches} == {"load": True, "copy": False, "k": True}


def test_a_table_of_the_ratio_says_it_in_the_cell(store, make_study) -> None:
    study = profiled(store, make_study, {"k": LOADS}, {"k": NOTHING})
    table = grid_table(study, TableSpec(kind="pivot", value=USED))
    assert [row.cells[0].text for row in table.rows] == ["26", NO_LOADS]
