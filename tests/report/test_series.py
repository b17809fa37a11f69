from __future__ import annotations

import pytest
from study_data import CPU, Made

from cuprof.report.distribution import distribution
from cuprof.report.experiment import FigureSpec
from cuprof.report.series import figure_points, scaling
from cuprof.report.tunable_maps import tunable_maps


def test_scaling_runs_over_the_axis_with_the_most_values_and_has_a_roof(make_study) -> None:
    trials = [Made("a", n / 100, {"n": n, "m": m}) for n in (1000, 4000, 2000) for m in (1, 2)]
    trials += [Made("c", n / 10, {"n": n, "m": 1}, device=CPU, kind="cpu") for n in (1000, 2000)]
    found = scaling(make_study(trials, "reference_problem: {m: 1}"))
    assert found is not None
    assert (found.axis, found.others) == ("n", "m = 1")
    lines = {name: [(found.x_of(trial), trial.median_ns) for trial in trials] for name, trials in found.lines.items()}
    assert lines == {
        "a": [(1000.0, pytest.approx(1e4)), (2000.0, pytest.approx(2e4)), (4000.0, pytest.approx(4e4))],
        "c": [(1000.0, pytest.approx(1e5)), (2000.0, pytest.approx(2e5))],
    }
    assert (found.xs, found.fastest_at_the_end.contender) == ([1000.0, 2000.0, 4000.0], "a")
    roof = next(roof for roof in found.roofs if roof.device == "Test GPU 9000")
    assert roof.values == pytest.approx((4.0, 8.0, 16.0))  # 4 bytes a number at 1 TB/s


def test_one_problem_does_not_scale(make_study) -> None:
    assert scaling(make_study([Made("a")])) is None


def test_the_distribution_is_of_the_best_tunables(make_study) -> None:
    study = make_study([Made("a", 9.0, tune={"b": 1}, samples=30), Made("a", 3.0, tune={"b": 2}, samples=20)])
    found = distribution(study)
    assert found is not None
    (spread,) = found.spreads
    assert (found.samples, len(spread.points), found.notes) == (
        20,
        19,
        ("1 of 20 samples lie outside the axis and are not drawn; the boxes count them.",),
    )
    assert spread.trial.median_ns == pytest.approx(3000)
    assert spread.fences[0] <= spread.q1 <= 0 <= spread.q3 <= spread.fences[1]


def test_maps_are_of_tunables_that_vary(make_study) -> None:
    trials = [Made("a", b * 1.0, tune={"b": b, "c": 5}) for b in (1, 2, 3)]
    two = [Made("two", tune={"b": b}) for b in (1, 2)]
    (found,) = tunable_maps(make_study([*trials, *two, Made("z")]))
    assert (found.contender, found.axes, found.hidden) == ("a", {"b": (1, 2, 3)}, False)
    assert found.median_ns == {(b,): pytest.approx(b * 1e3) for b in (1, 2, 3)}
    assert (found.best.tunables["b"], found.worst.tunables["b"]) == (1, 3)


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
    points = figure_points(study, FigureSpec(x="tune.cf", published="old"))
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
    points = figure_points(study, FigureSpec(x="tune.cf", published="old"))
    assert (len(points.measured), len(points.published)) == (2, 0)
