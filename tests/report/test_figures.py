from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from study_data import CPU, Made, add_counters, fill, open_store, reduction

from cuprof.core.project import bundled
from cuprof.core.records import Conditions, CounterValue, Profile, State
from cuprof.report.experiment import STANDARD
from cuprof.report.figure import integer_ticks, label, labels, styles_of
from cuprof.report.figures import MOST_POINTS, thin
from cuprof.report.load import load_study
from cuprof.report.page import study_figures, study_tables
from cuprof.report.series import roof_trace
from cuprof.report.units import Scale
from cuprof.results.read import read_results


def by_id(study) -> dict:
    return {figure.id: figure for figure in study_figures(study)}


def test_the_standard_figures_with_their_traces(make_study) -> None:
    figures = by_id(make_study(reduction()))
    assert list(figures) == [
        "figure-time",
        "figure-light",
        "figure-roofline",
        "figure-scaling",
        "figure-distribution",
        "figure-tunables-0",
    ]
    assert figures["figure-scaling"].title == "Scaling over n"
    assert [trace["name"] for trace in figures["figure-scaling"].data] == [
        "interleaved_divergent",
        "interleaved_compacted",
        "sequential",
        "first_add",
        "last_warp",
        "vector4",
        "single_pass",
        "cupy_sum",
        "cpu_serial",
        "cpu_numpy",
        "cpu_parallel",
        "roof: Test GPU 9000",
        "roof: Test CPU 5",
    ]
    assert figures["figure-time"].text.startswith(
        "Median time of 11 variants at n=2^26, dtype=float32; the shortest is single_pass"
    )
    light = dict(zip(figures["figure-light"].data[0]["y"], figures["figure-light"].data[0]["text"], strict=True))
    assert light["cpu_numpy"] == "16.0\N{NO-BREAK SPACE}GB/s"


def test_the_roofs_of_two_devices_are_told_apart_and_named(make_study) -> None:
    yaml = "figures: [standard, {kind: lines, x: problem.n, y: bandwidth, roof: true}]"
    *standard, own = study_figures(make_study(reduction(), yaml))
    scaling = next(figure for figure in standard if figure.id == "figure-scaling")
    for figure in (scaling, own):
        roofs = [trace for trace in figure.data if trace["name"].startswith("roof")]
        assert [trace["line"]["dash"] for trace in roofs] == ["longdash", "dot"]
        written = [[text.strip() for text in trace["text"] if text] for trace in roofs]
        assert written == [["roof, Test GPU 9000"], ["roof, Test CPU 5"]]
    assert scaling.text.endswith(
        "The grey lines without marks are the roofs of Test GPU 9000 and Test CPU 5: useful bytes over the read "
        "bandwidth measured on each."
    )


def test_a_single_roof_is_called_the_roof(make_study) -> None:
    scaling = by_id(make_study([Made("a", 10.0, {"n": n}) for n in (2**20, 2**22)]))["figure-scaling"]
    assert scaling.text.endswith("The long-dashed line is the roof: useful bytes over the measured read bandwidth.")
    assert [trace["line"]["dash"] for trace in scaling.data] == ["solid", "longdash"]


def test_a_roof_is_named_only_where_it_is_seen() -> None:
    seen = roof_trace(0, "D", {1: 1e3, 2: 2e3, 4: 4e3, 8: 8e3}, Scale("µs", 1e3, 2), (1.5, 100.0))
    assert [bool(text) for text in seen["text"]] == [False, False, True, False]
    below = roof_trace(0, "D", {1: 1e3, 2: 2e3}, Scale("µs", 1e3, 2), (50.0, 100.0))
    assert below["text"] == ["", ""]


def test_plotly_takes_every_figure_as_it_is(make_study) -> None:
    yaml = """
figures:
  - standard
  - {kind: lines, x: problem.n, y: bandwidth, roof: true, where: {variant: [first_add, single_pass]}}
  - {kind: lines, x: problem.n, y: time, roof: true}
  - {kind: bars, x: variant, y: time, series: problem.n, log: [y]}
  - {kind: map, x: problem.n, y: variant, value: share}
  - {kind: lines, x: tune.nothing, y: time}
"""
    figures = study_figures(make_study(reduction(), yaml))
    assert len(figures) == 6 + 4  # nothing was measured for the last one
    for figure in figures:
        go.Figure({"data": figure.data, "layout": figure.layout})  # raises for a property that Plotly does not know
        json.dumps([figure.data, figure.layout], allow_nan=False)
        assert figure.text.endswith(".")


def test_a_roof_far_below_the_times_does_not_stretch_the_axis(make_study) -> None:
    figure = by_id(make_study([Made("a", 10.0, {"n": n}) for n in (16, 2**20)]))["figure-scaling"]
    low, high = figure.layout["yaxis"]["range"]
    assert 10**low == pytest.approx(4 * 2**20 / 1e6 / 2, rel=1e-3), "the roof at the larger problem is near"
    assert 10**high == pytest.approx(16.0)


def test_a_variant_has_one_colour_everywhere(make_study) -> None:
    figures = by_id(make_study(reduction()))
    time = dict(
        zip(figures["figure-time"].data[0]["y"], figures["figure-time"].data[0]["marker"]["color"], strict=True)
    )
    for trace in figures["figure-scaling"].data[:-2]:
        assert trace["line"]["color"] == time[trace["name"]]
    for trace in figures["figure-distribution"].data:
        assert trace["line"]["color"] == time[trace["name"]]


def test_near_times_are_bars_from_zero_and_far_ones_points_on_a_logarithmic_axis(make_study) -> None:
    near = by_id(make_study([Made("a", 10.0), Made("b", 20.0)], name="near"))["figure-time"]
    far = by_id(make_study([Made("a", 10.0), Made("b", 9000.0, device=CPU, kind="cpu")], name="far"))["figure-time"]
    assert (near.data[0]["type"], near.layout["xaxis"]["range"][0]) == ("bar", 0)
    assert (far.data[0]["type"], far.layout["xaxis"]["type"]) == ("scatter", "log")


def test_a_time_of_too_few_samples_has_no_error_bar(make_study) -> None:
    figure = by_id(make_study([Made("a", 10.0), Made("b", 20.0, samples=3), Made("c", 15.0, samples=1)]))["figure-time"]
    for end in ("array", "arrayminus"):
        assert [bar is None for bar in figure.data[0]["error_x"][end]] == [False, True, True]
    assert [words[2] for words in figure.data[0]["customdata"]][1:] == ["(3 samples)", "(1 sample)"]
    assert figure.data[1]["x"][1:] == [20.0, 15.0]
    assert figure.text.endswith("times of too few samples for one have none.")


@pytest.mark.parametrize("longest", [20.0, 9000.0])
def test_an_error_bar_beyond_the_figure_ends_at_a_mark_and_its_number_stays(make_study, longest: float) -> None:
    study = make_study([Made("a", 10.0), Made("b", longest)])
    high_ns = study.timings["high_ns"].where(study.timings["median_ns"] < 15e3, 1e12)
    figure = by_id(replace(study, timings=study.timings.assign(high_ns=high_ns)))["figure-time"]
    _, end = figure.layout["xaxis"]["range"]
    last = 10**end if figure.layout["xaxis"].get("type") == "log" else end
    assert max(figure.data[1]["x"]) < 0.9 * last
    assert figure.data[0]["x"][1] + figure.data[0]["error_x"]["array"][1] == pytest.approx(figure.data[1]["x"][1])
    assert ["…" in text for text in figure.data[1]["text"]] == [False, True]
    assert "1 error bar marked … goes on beyond the figure" in figure.notes[0]


def test_a_wide_error_bar_has_room_before_its_number(make_study) -> None:
    study = make_study([Made("a", 10.0), Made("b", 20.0)])
    figure = by_id(replace(study, timings=study.timings.assign(high_ns=36_000.0)))["figure-time"]
    assert figure.data[1]["x"] == [36.0, 36.0]
    assert figure.layout["xaxis"]["range"] == [0, 45.0]
    assert figure.notes == ()


def test_points_and_variants_are_capped_and_it_is_said(make_study) -> None:
    many = make_study([Made(f"variant number {i}", 10.0 + i, samples=8) for i in range(200)], name="many")
    figures = by_id(many)
    assert len(figures["figure-time"].data[0]["y"]) == 40
    assert figures["figure-time"].notes == ("The 40 fastest of 200 variants are drawn; the table has all.",)
    long = by_id(make_study([Made("a", samples=3000)], name="long"))["figure-distribution"]
    assert len(long.data[0]["x"][0]) <= MOST_POINTS
    assert any("At most 400 points" in note for note in long.notes)


def test_nothing_right_is_nothing_drawn(make_study) -> None:
    assert study_figures(make_study([Made("a", state=State.CRASHED, message="x")])) == []


def test_names_are_shown_as_they_are_never_as_markup() -> None:
    assert label("<b>&") == "&lt;b&gt;&amp;"
    assert label("a" * 100) == "a" * 17 + "…" + "a" * 8
    assert labels(["x" * 90, "x" * 91]) == ["x" * 17 + "…" + "x" * 8, "x" * 17 + "…" + "x" * 8 + " (2)"]


def test_no_two_of_32_series_look_alike() -> None:
    assert len(set(styles_of(range(32)).values())) == 32


@pytest.mark.parametrize(("count", "shown"), [(3, 3), (9, 9), (30, 8)])
def test_ticks_stay_readable(count: int, shown: int) -> None:
    ticks = integer_ticks([2**i for i in range(count)])
    assert len(ticks["tickvals"]) == shown
    assert ticks["tickvals"][-1] == 2.0 ** (count - 1)
    assert integer_ticks([1024.0, 2.0**14])["ticktext"] == ["1\u202f024", "2<sup>14</sup>"]


def test_thinning_keeps_the_ends() -> None:
    values = np.arange(1000.0)
    kept = thin(values)
    assert (len(kept), kept[0], kept[-1]) == (400, 0.0, 999.0)
    assert thin(values[:5]) == list(values[:5])


def test_standard_is_the_default() -> None:
    from cuprof.report.experiment import Experiment

    assert Experiment("x").figures == (STANDARD,)


def test_a_counters_axis_has_its_short_heading_and_the_caption_its_name(store, make_study) -> None:
    name = "sm__warps_active.avg.pct_of_peak_sustained_active"
    yaml = f"figures: [{{kind: lines, x: problem.n, y: {name}}}]"
    study = make_study([Made(variant, problem={"n": n}) for variant in "abc" for n in (8, 16)], yaml)
    with store.snapshot() as connection:
        trials = read_results(connection, [study.sweep.id])
    for i, mode in enumerate(("cold", "cold", "cold", "hot", "hot")):
        counter = CounterValue(name, 70.0 + i, "%", "mean", "a test")
        store.record_profile(
            study.sweep.id,
            Profile(trials["identity"][i], trials["variant"][i], State.OK, Conditions(mode), rolled=(counter,)),
        )
    study = load_study(store, sweep_id=study.sweep.id, folders=[study.experiment.folder.parent])
    (figure,) = study_figures(study)
    assert figure.layout["yaxis"]["title"]["text"] == "Occupancy reached (%)"
    assert name not in json.dumps([figure.data, figure.layout]) + figure.title
    assert figure.text.startswith(f"Occupancy reached ({name}) over n; the highest measured value is 72\u00a0%, b at")
    assert {trace["name"]: trace["y"] for trace in figure.data} == {"a": [70.0, 71.0], "b": [72.0]}
    assert figure.notes[0] == "Counters are cold: the caches were emptied before every pass."
    assert figure.notes[1].startswith(
        "Profiled hot only, so not compared with cold counters: b (1 trial), c (1 trial);"
    )


def test_a_sweep_that_measured_energy_has_the_filters_energy_tables_and_figure(tmp_path: Path) -> None:
    trials = [
        Made(variant, 5.0 + cf, {"size": 3072}, {"cf": cf}, energy_j=1e-3 * cf)
        for variant in ("gm_cf", "gm_vec")
        for cf in (2, 4, 8)
    ]
    with open_store(tmp_path) as opened:
        sweep = fill(opened, [Made("gm", 20.0, {"size": 3072}, energy_j=4e-3), *trials], experiment="filter3x3")
        study = load_study(opened, sweep_id=sweep, folders=[bundled("experiments")])
    tables = {table.title: table for table in study_tables(study)}
    cells = {
        title: [(row.heading, row.cells[0].text) for row in tables[title].rows]
        for title in ("Energy of one image", "Mean power while the kernel runs back to back")
    }
    assert cells == {
        "Energy of one image": [("gm", "4.00"), ("gm_cf", "2.00"), ("gm_vec", "2.00")],
        "Mean power while the kernel runs back to back": [("gm", "250"), ("gm_cf", "250"), ("gm_vec", "250")],
    }
    assert [tables[title].columns[0].unit for title in cells] == ["mJ", "W"]
    (figure,) = (each for each in study_figures(study) if each.title == "Energy over coarsening factor")
    assert {trace["name"]: trace["y"] for trace in figure.data} == {"gm_cf": [2, 4, 8], "gm_vec": [2, 4, 8]}
    assert figure.layout["yaxis"]["title"]["text"] == "Energy (mJ)"


def test_counted_bytes_and_operations_stand_below_the_ceilings_measured_here(store, make_study) -> None:
    study = make_study([Made("counted", 100.0), Made("plain", 50.0)])
    operations = {
        f"smsp__sass_thread_inst_executed_op_{kind}{name}_pred_on.sum": (0, "inst")
        for kind in "fd"
        for name in ("add", "mul", "fma")
    }
    operations["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] = (5e6, "inst")
    moved = {
        "dram__bytes_read.sum": (3e7, "byte"),
        "dram__bytes_write.sum": (1e7, "byte"),
        "lts__t_bytes.sum": (1e8, "byte"),
    }
    add_counters(store, study.sweep.id, "counted", {"kernel": operations | moved})
    study = load_study(store, sweep_id=study.sweep.id, folders=[])
    figures = by_id(study)
    (trial,) = (trial for trial in study.best if trial.variant == "plain")
    top = study.devices[0].read_bandwidth
    assert [trace["name"] for trace in figures["figure-light"].data] == ["memory"]  # no other ceiling was measured
    shares = dict(zip(figures["figure-light"].data[0]["y"], figures["figure-light"].data[0]["x"], strict=True))
    assert shares == {
        "counted": pytest.approx(100 * 4e7 / 1e-4 / top, rel=1e-3),
        "plain": pytest.approx(100 * trial.share, rel=1e-3),
    }
    points = {trace["name"]: trace for trace in figures["figure-roofline"].data}
    assert points["counted"]["x"] == [0.25]
    assert points["counted"]["customdata"] == [["counted", "100\u00a0GFLOP/s", "0.25"]]
    assert points["plain"]["x"] == [pytest.approx(trial.flops / trial.useful_bytes, rel=1e-5)]
    roof = points["roof: Test GPU 9000"]
    assert roof["y"][0] == pytest.approx(roof["x"][0] * top / 1e9, rel=1e-4)
    assert "Bytes of 1 variant are those of DRAM" in figures["figure-roofline"].text
