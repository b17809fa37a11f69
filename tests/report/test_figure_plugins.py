"""Figures that an installed package adds to every page, through an entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from study_data import Made

from cuprof.core import plugins
from cuprof.core.errors import UsageError
from cuprof.report.figure import Figure
from cuprof.report.page import render, study_figures


def counts_figure(study, styles) -> Figure:
    names = [trial.contender for trial in study.best]
    data = [{"type": "bar", "x": names, "y": [1] * len(names), "marker": {"color": styles[names[0]].color}}]
    return Figure("figure-mine", "Mine", data, {"height": 300}, "A figure of a package.")


def no_figure(study, styles) -> None:
    return None


def wrong_figure(study, styles) -> list[str]:
    return ["not a figure"]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch):
    """Return a function that installs a figure: its name in this module."""

    def install(name: str) -> None:
        point = EntryPoint(name="mine", value=f"{__name__}:{name}", group="cuprof.figures")
        plugins._installed.cache_clear()
        monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == point.group else [])

    yield install
    plugins._installed.cache_clear()


def test_a_packages_figure_stands_behind_the_standard_ones(make_study, install) -> None:
    install("counts_figure")
    study = make_study([Made("a"), Made("b", 5.0)])
    assert study_figures(study)[-1].id == "figure-mine"
    assert "A figure of a package." in render(study)


def test_a_packages_figure_may_have_nothing_to_draw(make_study, install) -> None:
    install("no_figure")
    assert "figure-mine" not in {figure.id for figure in study_figures(make_study([Made("a"), Made("b", 5.0)]))}


@pytest.mark.parametrize("name", ["wrong_figure", "missing"])
def test_what_is_no_figure_is_named(make_study, install, name: str) -> None:
    install(name)
    with pytest.raises(UsageError, match="page figure 'mine'"):
        study_figures(make_study([Made("a"), Made("b", 5.0)]))
