"""The catalog of metrics, the roll-up rules, and the metric sets in conf/ncu."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cuprof.core.project import bundled
from cuprof.ncu import metrics as known
from cuprof.ncu.metrics import DURATION, METRICS, TOPICS, companions, derive_rule, get_rule

RULE = re.compile(r"sum|max|min|mean(:\S+)?|none")
SETS = ("study", "memory", "compute", "instructions", "roofline", "occupancy", "full")


def _set(name: str) -> dict:
    return yaml.safe_load((bundled("conf") / "ncu" / f"{name}.yaml").read_text())


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("dram__bytes_read.sum", "sum"),
        ("smsp__inst_executed.max", "max"),
        ("smsp__inst_executed.min", "min"),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", f"mean:{DURATION}"),
        ("gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed", f"mean:{DURATION}"),
        ("dram__bytes.sum.per_second", f"mean:{DURATION}"),
        ("sm__inst_executed.avg.per_cycle_active", f"mean:{DURATION}"),
        ("smsp__new_thing.ratio", f"mean:{DURATION}"),
        ("sm__cycles_active.avg", "sum"),
        ("gpu__time_duration.avg", "sum"),
        ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.avg", "sum"),
        ("sm__maximum_warps_per_active_cycle_pct", f"mean:{DURATION}"),
        ("sm__maximum_warps_avg_per_active_cycle", f"mean:{DURATION}"),
        ("launch__grid_size", "max"),
        ("launch__occupancy_limit_warps", "min"),
        ("launch__occupancy_limit_barriers", "min"),
        ("sass__inst_executed_shared_loads", "sum"),
        ("unheard_of", "none"),
        ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
         "mean:smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum"),
        ("lts__t_sector_hit_rate.pct", "mean:lts__t_sectors.sum"),
    ],
)  # fmt: skip
def test_each_kind_of_metric_has_the_rule_that_fits_it(name: str, rule: str) -> None:
    assert get_rule(name) == rule


def test_a_share_is_told_by_its_unit_where_the_name_does_not() -> None:
    assert derive_rule("sass__something", "%") == f"mean:{DURATION}"


def test_weights_are_metrics_that_add() -> None:
    """What weighs the launches must itself be a total of each launch."""
    for metric in METRICS.values():
        if weight := metric.rule.partition(":")[2]:
            assert get_rule(weight) == "sum", metric.name


def test_the_study_set_is_its_four_metrics() -> None:
    assert _set("study")["metrics"] == [
        "launch__grid_dim_z",
        "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed",
        "launch__shared_mem_per_block_dynamic",
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    ]


def test_a_set_is_collected_with_what_weighs_it() -> None:
    assert companions(tuple(_set("study")["metrics"])) == (
        DURATION,
        "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum",
    )
    assert companions((DURATION, "dram__throughput.avg.pct_of_peak_sustained_elapsed")) == ()


@pytest.mark.parametrize("name", SETS)
def test_every_metric_of_every_set_is_explained(name: str) -> None:
    chosen = _set(name)
    assert chosen["name"] == name
    assert all(metric in METRICS for metric in chosen["metrics"])
    assert len(set(chosen["metrics"])) == len(chosen["metrics"])


def test_names_and_units_are_those_of_the_real_program(recorded: Path) -> None:
    """`ncu --query-metrics` lists base names; of a rate or a clock it gives the unit of what is counted."""
    text = (recorded / "query_metrics.txt").read_text()
    rows = re.findall(r"^(\S+__\w+)\s+(Counter|Ratio|Throughput) {1,16}(\S*)(?:  |$)", text, re.MULTILINE)
    units = {base: unit for base, _, unit in rows}
    unlisted = {"sass__inst_executed_per_opcode", "sm__maximum_warps_per_active_cycle_pct"}
    for metric in METRICS.values():
        base = metric.name.partition(".")[0]
        assert base in units or base in unlisted, metric.name
        if not re.search(r"\.(pct|per_)", metric.name) and base in units and not base.startswith("launch__"):
            assert metric.unit == units[base], metric.name


def test_every_meaning_is_a_sentence() -> None:
    for metric in METRICS.values():
        assert metric.meaning[0].isupper() or metric.meaning[0].isdigit(), metric.name
        assert metric.meaning.endswith("."), metric.name


def test_the_described_metrics_agree_with_themselves() -> None:
    for metric in METRICS.values():
        assert RULE.fullmatch(metric.rule), metric.name
        assert metric.topic in ("", *TOPICS), metric.name
        assert bool(metric.heading) or not metric.telling, metric.name
    places = [metric.telling for metric in METRICS.values() if metric.telling]
    assert sorted(places) == list(range(1, len(places) + 1))
    assert {metric.topic for metric in METRICS.values()} == {"", *TOPICS}


def test_a_metric_is_described_once() -> None:
    rows = [row["name"] for row in known.read_table("metrics.csv")]
    assert len(rows) == len(set(rows)) == len(METRICS)


def test_what_is_known_is_found_by_name() -> None:
    assert known.heading_of("launch__grid_dim_z") == "Grid depth"
    assert known.heading_of("launch__grid_dim_x") == "launch__grid_dim_x"
    assert known.heading_of("nobody__knows.it") == "nobody__knows.it"
    assert [metric.heading for metric in known.list_telling()][:2] == ["Grid depth", "DRAM read"]
    assert TOPICS[0] == "Grid"
    assert sorted(["lts__x", "zzz", "launch__block_size", "dram__x"], key=known.listing_order) == [
        "dram__x",
        "launch__block_size",
        "lts__x",
        "zzz",
    ]


def test_a_sweep_loads_nothing_that_drives_a_profiler() -> None:
    modules = "sys, cuprof.ncu.metrics, cuprof.ncu.task, cuprof.engine.profiling"
    driving = ("collector", "batch", "process", "report_file", "executable")
    code = f"import {modules}; print([name for name in {driving} if f'cuprof.ncu.{{name}}' in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
