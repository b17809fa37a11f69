from __future__ import annotations

import pandas as pd
import pytest
from study_data import CPU, Made

from cuprof.analysis.experiment import FigureSpec
from cuprof.analysis.series import distribution, figure_frame, scaling, tunable_maps


def test_scaling_runs_over_the_axis_with_the_most_values_and_has_a_roof(make_study) -> None:
    trials = [Made("a", n / 100, {"n": n, "m": m}) for n in (1000, 4000, 2000) for m in (1, 2)]
    trials += [Made("c", n / 10, {"n": n, "m": 1}, device=CPU, kind="cpu") for n in (1000, 2000)]
    found = scaling(make_study(trials, "reference_problem: {m: 1}"))
    assert found is not None
    assert (found.axis, found.others) == ("n", "m = 1")
    points = found.points[["contender", "x", "time_ns"]].reset_index(drop=True)
    expected = [("a", 1000.0, 1e4), ("a", 2000.0, 2e4), ("a", 4000.0, 4e4), ("c", 1000.0, 1e5), ("c", 2000.0, 2e5)]
    pd.testing.assert_frame_equal(points, pd.DataFrame(expected, columns=["contender", "x", "time_ns"]))
    roof = found.roof[found.roof["device"] == "Test GPU 9000"]
    assert roof["time_ns"].tolist() == pytest.approx([4.0, 8.0, 16.0])  # 4 bytes a number at 1 TB/s


def test_one_problem_does_not_scale(make_study) -> None:
    assert scaling(make_study([Made("a")])) is None


def test_the_distribution_is_of_the_best_tunables(make_study) -> None:
    study = make_study([Made("a", 9.0, tune={"b": 1}, samples=30), Made("a", 3.0, tune={"b": 2}, samples=20)])
    samples = distribution(study)
    assert len(samples) == 20
    assert samples["duration_ns"].median() == pytest.approx(3000)


def test_maps_are_of_tunables_that_vary(make_study) -> None:
    study = make_study([Made("a", b * 1.0, tune={"b": b, "c": 5}) for b in (1, 2)] + [Made("z")])
    (name,), (frame,) = tunable_maps(study).keys(), tunable_maps(study).values()
    assert name == "a"
    assert list(frame) == ["tune.b", "time_ns", "tunables_label"]


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
    measured, published = figure_frame(study, FigureSpec(x="tune.cf", published="old"))
    assert measured[["series", "x", "value"]].to_numpy().tolist() == [["a", 2, 10_000.0], ["a", 4, 20_000.0]]
    assert published[["series", "x", "value", "device"]].to_numpy().tolist() == [["a", 2, 100_000.0, "Old card"]]


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
    measured, published = figure_frame(study, FigureSpec(x="tune.cf", published="old"))
    assert (len(measured), len(published)) == (2, 0)
