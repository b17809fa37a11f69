from __future__ import annotations

import pytest
from study_data import CPU, Made

from cuprof.report.experiment import FigureSpec
from cuprof.report.figure import styles_of
from cuprof.report.figures import distribution_figure
from cuprof.report.series import MOST_LINES, figure_points, scaling_figure, tunables_figures


def drawn(figure) -> dict[str, list[tuple[float, float]]]:
    return {trace["name"]: list(zip(trace["x"], trace["y"], strict=True)) for trace in figure.data}


def styles(study):
    return styles_of(trial.contender for trial in study.trials)


def scaling(study):
    return scaling_figure(study, styles(study))


def test_scaling_runs_over_the_axis_with_the_most_values_and_has_a_roof(make_study) -> None:
    trials = [Made("a", n / 100, {"n": n, "m": m}) for n in (1000, 4000, 2000) for m in (1, 2)]
    trials += [Made("c", n / 10, {"n": n, "m": 1}, device=CPU, kind="cpu") for n in (1000, 2000)]
    found = scaling(make_study(trials, "reference_problem: {m: 1}"))
    assert found is not None
    assert found.title == "Scaling over n"
    assert ", m = 1; at the largest the fastest is a with 40.0" in found.text
    assert found.layout["yaxis"]["title"]["text"] == "Time (µs)"
    lines = drawn(found)
    assert lines["a"] == [(1000.0, 10.0), (2000.0, 20.0), (4000.0, 40.0)]
    assert lines["c"] == [(1000.0, 100.0), (2000.0, 200.0)]
    assert lines["roof: Test GPU 9000"] == [(1000.0, 0.004), (2000.0, 0.008), (4000.0, 0.016)]  # 4 bytes at 1 TB/s


def test_one_problem_does_not_scale(make_study) -> None:
    assert scaling(make_study([Made("a")])) is None


def test_the_distribution_is_of_the_best_tunables(make_study) -> None:
    study = make_study([Made("a", 9.0, tune={"b": 1}, samples=30), Made("a", 3.0, tune={"b": 2}, samples=20)])
    found = distribution_figure(study, styles_of("a"))
    assert found is not None
    (box,) = found.data
    assert "(20 samples)" in found.text
    assert len(box["x"][0]) == 19
    assert found.notes == ("1 of 20 samples lie outside the axis and are not drawn; the boxes count them.",)
    assert box["q1"] <= [0.0] <= box["q3"]


def test_maps_are_of_tunables_that_vary(make_study) -> None:
    trials = [Made("a", b * 1.0, tune={"b": b, "c": 5}) for b in (1, 2, 3)]
    two = [Made("two", tune={"b": b}) for b in (1, 2)]
    study = make_study([*trials, *two, Made("z")])
    (found,) = tunables_figures(study, styles(study))
    assert (found.title, found.notes) == ("Tunables of a", ())
    assert drawn(found) == {"a": [("1", 1.0), ("2", 2.0), ("3", 3.0)]}
    assert found.text == "Time over b; the fastest is 1.00\N{NO-BREAK SPACE}µs, a at b = 1."


def test_of_many_tunables_those_with_the_most_values_are_axes(make_study) -> None:
    trials = [Made("a", b + c, tune={"d": c % 2, "c": c, "b": b}) for b in (8, 4, 2, 1) for c in (1, 2, 3)]
    study = make_study(trials)
    (found,) = tunables_figures(study, styles(study))
    assert found.data[0]["x"] == ["1", "2", "4", "8"]
    assert found.data[0]["z"][0] == [2.0, 3.0, 5.0, 9.0]
    assert found.notes == ("The fastest over the tunables that are not on an axis is shown.",)


def test_a_figure_of_a_study_has_measured_and_published_points_apart(make_study) -> None:
    yaml = """
published:
  - name: old
    file: old.csv
    rows: {device: Old card, variant: "{v}", measure: time, unit: us}
    columns: {CF2: {tune.cf: 2}}
"""
    trials = [Made("a", 5.0 * cf, tune={"cf": cf}) for cf in (2, 4)]
    study = make_study(trials, yaml, {"old.csv": "v,CF2\na,100\n"})
    points = figure_points(study, FigureSpec(x="tune.cf", published="old"), study.frame)
    measured = [(point.series, point.x, point.value) for point in points.measured]
    assert measured == [("a", 2, pytest.approx(10_000.0)), ("a", 4, pytest.approx(20_000.0))]
    published = [(point.series, point.x, point.value, point.device) for point in points.published]
    assert published == [("a", 2, 100_000.0, "Old card")]


def test_problems_that_differ_on_several_axes_at_once_are_no_line(make_study) -> None:
    assert scaling(make_study([Made("a", problem={"n": n, "m": n}) for n in (1, 2, 3)])) is None


def test_a_published_value_of_unknown_tunables_is_no_point_on_their_axis(make_study) -> None:
    yaml = """
published:
  - name: old
    file: old.csv
    rows: {device: Old card, variant: "{v}", measure: time, unit: us}
    columns: {time: {}}
"""
    trials = [Made("a", 5.0 * cf, tune={"cf": cf}) for cf in (2, 4)]
    study = make_study(trials, yaml, {"old.csv": "v,time\na,100\n"})
    points = figure_points(study, FigureSpec(x="tune.cf", published="old"), study.frame)
    assert (len(points.measured), len(points.published)) == (2, 0)


def test_of_many_series_the_lowest_are_drawn_and_the_baseline_always(make_study) -> None:
    trials = [Made("base", 90.0, {"n": n}) for n in (1, 2)]
    trials += [Made(f"v{number}", 5.0 + number, {"n": n}) for number in range(MOST_LINES + 2) for n in (1, 2)]
    study = make_study(trials, "reference_problem: {n: 2}")
    points = figure_points(study, FigureSpec(x="problem.n"), study.frame)
    assert {point.series for point in points.measured} == {"base", *(f"v{number}" for number in range(MOST_LINES))}
    assert points.notes == ["15 of 17 series are drawn: those with the lowest values, and the baseline."]
