"""What a search's trials say of its tunables."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from study_data import Made

from cuprof.core.point import Point
from cuprof.core.records import State
from cuprof.report.figure import styles_of
from cuprof.report.series import tunables_figures
from cuprof.report.summary import conclude
from cuprof.report.tuning import describe_standing, explain, search_figures
from cuprof.report.variants import ENOUGH, fastest_table
from cuprof.results.sweeps import is_search

SEARCH = {"name": "surrogate", "objective": "time", "effect": 0.01, "error_rate": 0.05}


def trials() -> list[Any]:
    """Return times that one tunable decides, another changes, two others do together, and a last one leaves alone."""
    found = []
    for number, (a, b, c, d, e) in enumerate(product((1, 2, 4, 8), (1, 2, 4), (0, 1), (0, 1), ("x", "y"))):
        log = math.log2(a) + 0.3 * math.log2(b) + 0.8 * (c != d)
        tunables = Point(a=a, b=b, c=c, d=d, e=e)
        found.append(SimpleNamespace(tunables=tunables, median_ns=1e4 * math.exp(log), ordinal=number, contender="v"))
    return found[::2] + found[1::7]


def test_what_decides_comes_first_and_an_interaction_is_one_of_a_pair() -> None:
    parts = explain(trials())
    assert next(iter(parts)) == ("a",)
    assert parts["a",] > 0.6
    assert parts["c", "d"] > parts.get(("c",), 0.0) + 0.05
    assert parts.get(("e",), 0.0) < 0.02
    assert sum(parts.values()) < 1.05


def test_few_trials_say_nothing() -> None:
    assert explain(trials()[:5]) == {}


def test_a_sweep_that_ran_everything_was_no_search(make_study) -> None:
    assert not any(is_search(each) for each in ({"search": {"name": ""}}, {"search": None}, {}))
    assert search_figures(make_study([Made("v")]), {}) == []


def test_the_fastest_is_no_lucky_median_of_few_samples(make_study) -> None:
    """A search's last comparison takes many samples of a few; its first looks are many, of five samples each."""
    tried = [
        Made("v", time, tune={"width": width}, samples=count, spread=spread)
        for width, time, count, spread in ((16, 12.4, 400, 0.001), (8, 12.1, 5, 0.2), (4, 13.0, 20, 0.001))
    ]
    study = make_study(tried, configuration={"search": SEARCH})
    (best,) = study.best
    assert best.tunables.width == 16
    (drawn,) = tunables_figures(study, styles_of([best.contender]))
    assert "v at width = 16" in drawn.text
    progress, *_ = search_figures(study, {})
    assert progress.data[1]["y"] == [pytest.approx(12.4)] * 3
    slow = [Made("v", 20.0 + i, tune={"width": 100 + i}) for i in range(ENOUGH)]
    listed = fastest_table(make_study([*tried, *slow], name="many", configuration={"search": SEARCH}))
    assert listed is not None
    assert [listed.rows[0].note, listed.rows[0].cells[1].text] == ["width=16", "1.000"]
    assert "the longest counts" in listed.notes[0]
    surely = Made("v", 12.1, tune={"width": 2}, samples=5, spread=0.001)
    (best,) = make_study([*tried, surely], name="surely").best
    assert best.tunables.width == 2, "even the longest of its samples is shorter"


@pytest.fixture
def searched(make_study):
    """Return a function: width, time and job of trials → what is said of the search that tried them."""

    def search(*tried: tuple[int, float, str], failed: tuple[int, ...] = (), n: int = 8, **facts: Any) -> str:
        trials = [
            Made("v", time, {"n": n if width in failed else 8}, {"width": width}, samples=200, spread=0.002,
                 state=State.WRONG_RESULT if width in failed else State.OK)
            for width, time, _ in tried
        ]  # fmt: skip
        settings = SEARCH | {"objective": facts.pop("objective", "time")}
        study = make_study(trials, configuration={"search": settings}, **facts)
        return describe_standing(replace(study, frame=study.frame.assign(job=[job for *_, job in tried])))

    return search


LOOKED, LAST = (1, 9.9, "a look"), ((2, 10.0, "the duel"), (4, 10.01, "the duel"), (8, 11.0, "the duel"))


def test_the_last_comparison_is_told_by_the_searchs_own_rule(searched) -> None:
    assert searched(LOOKED, *LAST) == (
        "The search compared its last candidates side by side: v with width=2 is level with width=4 "
        "(within 1\N{NO-BREAK SPACE}%), faster than 1; error rate 5\N{NO-BREAK SPACE}%."
    )
    assert searched(*LAST, finish="interrupted") == ""
    assert searched(*LAST, objective="energy") == ""
    assert searched(LOOKED) == ""


def test_looks_of_few_samples_are_no_comparison(make_study) -> None:
    trials = [Made("v", 10.0 + width, tune={"width": width}, samples=5) for width in range(3)]
    study = make_study(trials, configuration={"search": SEARCH})
    assert describe_standing(replace(study, frame=study.frame.assign(job="the duel"))) == ""


def test_where_all_candidates_fail_in_the_last_comparison_their_looks_before_are_not_taken_for_it(searched) -> None:
    looked = (1, 10.0, "a longer look"), (2, 12.0, "a longer look")
    failed = (4, 10.0, "the duel"), (8, 10.0, "the duel")
    assert searched(*looked, *failed, failed=(4, 8)) == (
        "Of the search's candidates none of the 2 best gave a right result again when they were compared."
    )
    assert searched(*looked, failed[0], failed=(4,)) == (
        "Of the search's candidates the best gave no right result when it was compared."
    )
    assert "faster than 1" in searched(*looked, failed[0], failed=(4,), n=7), "each problem has its own"


def test_where_one_variant_was_tried_the_page_says_why_the_best_has_no_ratio(make_study) -> None:
    tried = [Made("v", 10.0 * width, tune={"width": width}) for width in (1, 2, 3)]
    (sentence,) = conclude(make_study(tried, configuration={"search": {**SEARCH, "objective": "energy"}}))["sentences"]
    assert "no baseline to compare the best with: all 3 right configurations are of this variant" in sentence
    assert sentence.endswith("The median one takes 2.00 times as long.")
