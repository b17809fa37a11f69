"""Reading recorded reports: every value as Nsight Compute itself prints it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from cuprof.core.records import LaunchRecord
from cuprof.ncu.metrics import METRICS
from cuprof.ncu.report_file import read_report

RAW = ["study_alone", "memory_cold", "memory_hot", "instructions", "sections"]


def _raw(path: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return units by metric and one row a launch of `ncu --import … --page raw --csv --print-units base`."""
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    return rows[0], rows[1:]


def _launches(path: Path, metrics: Sequence[str] | None = None) -> list[LaunchRecord]:
    return [launch for of_trial in read_report(path, metrics).values() for launch in of_trial]


@pytest.mark.parametrize("name", RAW)
def test_values_and_units_equal_the_raw_page_value_by_value(recorded: Path, name: str) -> None:
    units, rows = _raw(recorded / f"{name}.raw.csv")
    launches = _launches(recorded / f"{name}.ncu-rep")
    assert len(launches) == len(rows)
    compared = 0
    for launch, row in zip(launches, rows, strict=True):
        assert launch.kernel == row["Kernel Name"].partition("(")[0]
        for counter in launch.counters:
            printed = row.get(counter.metric, "").partition(" ")[0].replace(",", "")
            if counter.value is None or not printed:
                continue
            assert counter.value == pytest.approx(float(printed), rel=1e-5, abs=0.005), counter.metric
            assert counter.unit == units[counter.metric], counter.metric
            compared += 1
    assert compared > 30 * len(rows)


def test_a_launch_carries_its_facts(recorded: Path) -> None:
    ((identity, (record,)),) = read_report(recorded / "study_alone.ncu-rep", ("launch__grid_dim_z",)).items()
    assert identity == "1" * 32
    assert (record.kernel, record.grid, record.block) == ("strided_sum", (8, 4, 9), (128, 1, 1))
    assert (record.registers, record.shared_static_bytes, record.shared_dynamic_bytes) == (22, 0, 0)
    assert record.duration_ns == 5440.0
    assert record.details["occupancy_limits"] == {"blocks": 32, "registers": 21, "shared_memory": 32, "warps": 16}
    assert record.details["device"] == "NVIDIA H200"
    (counter,) = record.counters
    assert (counter.metric, counter.value, counter.rollup) == ("launch__grid_dim_z", 9.0, "max")
    assert counter.meaning.endswith("the depth of the grid.")


def test_metrics_come_in_the_order_asked_for_and_by_pattern(recorded: Path) -> None:
    path = recorded / "instructions.ncu-rep"
    asked = ("smsp__inst_executed.sum", "regex:^sass__inst_executed_(shared|global)_loads$", "smsp__inst_executed")
    names = [counter.metric for counter in _launches(path, asked)[0].counters]
    assert names == [
        "smsp__inst_executed.sum",
        "sass__inst_executed_global_loads",
        "sass__inst_executed_shared_loads",
        "smsp__inst_executed.avg",
        "smsp__inst_executed.max",
        "smsp__inst_executed.min",
    ]
    assert _launches(path, ("no__such_metric",))[0].counters == ()


def test_instructions_by_opcode(recorded: Path) -> None:
    launches = _launches(recorded / "instructions.ncu-rep", ("sass__inst_executed_per_opcode",))
    first, second = (launch.counters[0] for launch in launches)
    # 256 blocks of 8 warps: one LDG a warp, one STG a block.
    assert (first.instances["LDG"], first.instances["STG"]) == (2048.0, 256.0)
    assert (second.instances["LDG"], second.instances["STG"]) == (8.0, 1.0)
    assert sum(first.instances.values()) == first.value == 229376.0


def test_advice_is_nsight_s_without_its_links(recorded: Path) -> None:
    (launch,) = _launches(recorded / "sections.ncu-rep")
    found = {advice.rule: advice for advice in launch.advice}
    small = found["SOLBottleneck"]
    assert (small.severity, small.title, small.section) == ("optimization", "Small Grid", "SpeedOfLight")
    assert small.text.endswith("Look at Launch Statistics for more details.")
    assert found["AchievedOccupancy"].speedup == pytest.approx(77, abs=15)
    assert not any("@" in advice.text for advice in launch.advice)


def test_everything_is_counters_when_nothing_is_chosen(recorded: Path) -> None:
    (launch,) = _launches(recorded / "sections.ncu-rep")
    names = {counter.metric for counter in launch.counters}
    assert "sm__throughput.avg.pct_of_peak_sustained_elapsed" in names
    assert not [name for name in names if name.startswith(("device__", "profiler__", "breakdown:", "nvlink__"))]


def test_cold_and_hot_are_what_they_say(recorded: Path) -> None:
    """The kernel reads 16 MiB in each of three passes; between them ncu saves and restores memory through the cache."""
    cold, hot = (
        _launches(recorded / f"memory_{mode}.ncu-rep", ("dram__bytes_read.sum",))[0].counters[0].value
        for mode in ("cold", "hot")
    )
    assert cold == pytest.approx(2**24, rel=0.01)
    assert cold is not None
    assert hot is not None
    assert hot < cold / 8


def test_a_launch_that_crashed_has_what_there_is(recorded: Path) -> None:
    found = read_report(recorded / "crash.ncu-rep", ("launch__grid_dim_z",))
    assert list(found) == ["1" * 32, "c" * 32]
    (bad,) = found["c" * 32]
    assert (bad.kernel, bad.grid, bad.counters) == ("fall", (0, 0, 0), ())


def test_units_of_the_catalog_are_those_of_real_reports(recorded: Path) -> None:
    seen: dict[str, str] = {}
    for name in RAW:
        for launch in _launches(recorded / f"{name}.ncu-rep"):
            seen |= {counter.metric: counter.unit for counter in launch.counters}
    explained = {metric.name: metric.unit for metric in METRICS.values() if metric.name in seen}
    assert len(explained) > 30
    assert explained == {name: seen[name] for name in explained}
