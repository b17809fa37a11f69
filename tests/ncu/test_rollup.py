"""Making a trial's counters of its launches'."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuprof.core.records import CounterValue, LaunchRecord
from cuprof.ncu.launches import roll_up, weighted_mean
from cuprof.ncu.metrics import get_rule
from cuprof.ncu.report_file import read_report

RATIO = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
SECTORS = "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum"
SHARE = "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed"


def _launch(values: Mapping[str, float | None], duration_ns: float | None = None, **instances: float) -> LaunchRecord:
    counters = tuple(
        CounterValue(name, value, "", get_rule(name), instances=instances if name.startswith("sass__") else {})
        for name, value in values.items()
    )
    return LaunchRecord(0, "k", (1, 1, 1), (1, 1, 1), duration_ns=duration_ns, counters=counters)


def _value(name: str, *launches: LaunchRecord) -> tuple[float | None, str]:
    (found,) = [counter for counter in roll_up(launches) if counter.metric == name]
    return found.value, found.rollup


def test_sums_add_and_extremes_stay_extremes() -> None:
    launches = [_launch({"dram__bytes_read.sum": 3.0, "launch__grid_dim_z": 9.0, "x__y.min": 4.0}),
                _launch({"dram__bytes_read.sum": 4.0, "launch__grid_dim_z": 1.0, "x__y.min": 2.0})]  # fmt: skip
    assert _value("dram__bytes_read.sum", *launches) == (7.0, "sum")
    assert _value("launch__grid_dim_z", *launches) == (9.0, "max")
    assert _value("x__y.min", *launches) == (2.0, "min")


def test_a_ratio_is_weighed_by_what_it_is_a_ratio_of() -> None:
    long_launch_few_sectors = _launch({RATIO: 8.0, SECTORS: 100.0}, duration_ns=1e6)
    short_launch_many_sectors = _launch({RATIO: 32.0, SECTORS: 300.0}, duration_ns=1.0)
    assert _value(RATIO, long_launch_few_sectors, short_launch_many_sectors) == (26.0, f"mean:{SECTORS}")


def test_without_the_weight_time_stands_in_and_without_time_each_launch_counts_once() -> None:
    assert _value(RATIO, _launch({RATIO: 8.0}, 30.0), _launch({RATIO: 32.0}, 10.0)) == (
        14.0,
        "mean:gpu__time_duration.sum",
    )
    assert _value(RATIO, _launch({RATIO: 8.0}), _launch({RATIO: 32.0})) == (20.0, "mean")


def test_a_launch_that_weighs_nothing_counts_for_nothing() -> None:
    nan = _launch({RATIO: math.nan, SECTORS: 0.0})
    assert _value(RATIO, nan, _launch({RATIO: 16.0, SECTORS: 5.0}))[0] == 16.0


def test_a_ratio_of_nothing_has_no_value() -> None:
    nothing = _launch({RATIO: 0.0, SECTORS: 0.0})
    assert _value(RATIO, nothing, nothing) == (None, f"mean:{SECTORS}")
    assert _value(RATIO, nothing) == (None, f"mean:{SECTORS}")
    assert _value(SECTORS, nothing) == (0.0, "sum")
    assert _value(RATIO, _launch({RATIO: 0.0, SECTORS: 3.0}))[0] == 0.0
    assert _value(RATIO, _launch({RATIO: 0.0}))[0] == 0.0  # nobody knows of what


def test_half_a_sum_is_not_a_sum() -> None:
    assert _value("dram__bytes_read.sum", _launch({"dram__bytes_read.sum": 3.0}), _launch({}))[0] is None
    assert _value("dram__bytes_read.sum", _launch({"dram__bytes_read.sum": 3.0}), _launch({"dram__bytes_read.sum": None}))[0] is None  # fmt: skip # noqa: E501
    assert _value(SHARE, _launch({SHARE: 3.0}, 1.0), _launch({SHARE: None}, 1.0))[0] is None


def test_a_single_launch_keeps_its_values() -> None:
    (counter,) = roll_up([_launch({RATIO: 25.87})])
    assert (counter.value, counter.rollup) == (25.87, f"mean:{SECTORS}")


def test_opcodes_add_by_name() -> None:
    name = "sass__inst_executed_per_opcode"
    (counter,) = roll_up([_launch({name: 3.0}, LDG=1.0, STG=2.0), _launch({name: 5.0}, LDG=5.0)])
    assert (counter.value, counter.instances) == (8.0, {"LDG": 6.0, "STG": 2.0})


def test_opcodes_that_one_launch_lacks_are_no_opcodes_of_the_trial() -> None:
    name = "sass__inst_executed_per_opcode"
    counted = _launch({name: 10.0}, LDG=10.0)
    for other in (_launch({}), _launch({name: 3.0})):
        (rolled,) = roll_up([counted, other])
        assert rolled.instances == {}
    (alone,) = roll_up([counted])
    assert alone.instances == {"LDG": 10.0}


def test_text_stays_where_all_launches_agree() -> None:
    def launch(text: str) -> LaunchRecord:
        counter = CounterValue("launch__func_cache_config", None, "", "none", text=text)
        return LaunchRecord(0, "k", (1, 1, 1), (1, 1, 1), counters=(counter,))

    assert roll_up([launch("CachePreferNone"), launch("CachePreferNone")])[0].text == "CachePreferNone"
    assert roll_up([launch("CachePreferNone"), launch("CachePreferL1")])[0].text == ""


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(1e-3, 1e6)), min_size=1, max_size=8))
def test_a_weighted_mean_lies_between_its_values(terms: list[tuple[float, float]]) -> None:
    values, weights = [value for value, _ in terms], [weight for _, weight in terms]
    mean = weighted_mean(values, weights)
    assert mean is not None
    assert min(values) * (1 - 1e-9) - 1e-9 <= mean <= max(values) * (1 + 1e-9) + 1e-9


def test_two_recorded_launches_become_one_trial(recorded: Path) -> None:
    records = read_report(recorded / "instructions.ncu-rep")["2" * 32]
    rolled = {counter.metric: counter for counter in roll_up(records)}
    assert rolled["smsp__sass_inst_executed_op_global_ld.sum"].value == 2048 + 8
    assert rolled["sass__inst_executed_per_opcode"].instances["STG"] == 256 + 1
    assert rolled["launch__grid_size"].value == 256
    units = rolled["smsp__inst_executed.sum"].value / rolled["smsp__inst_executed.avg"].value
    assert units == 528  # schedulers of an H200: an average over units is that share of the sum, rolled up or not
    first, second = (record.duration_ns for record in records)
    assert first is not None
    assert second is not None
    assert rolled["gpu__time_duration.sum"].value == pytest.approx(first + second)
