"""What a search's trials say of its tunables."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.report.search import describe_standing, explain, find_search
from cuprof.report.trials import Measured, StudyTrial, best_of_tunables
from cuprof.report.tuning_figures import tunable_maps
from cuprof.report.variants_table import ENOUGH, fastest_table
from cuprof.results.sweeps import is_search
from cuprof.statistics.samples import Samples
from tests.report.study_data import made_timing, made_trial


def trials() -> list[Any]:
    """Return times that one tunable decides, another changes, two others do together, and a last one leaves alone."""
    found = []
    for number, (a, b, c, d, e) in enumerate(product((1, 2, 4, 8), (1, 2, 4), (0, 1), (0, 1), ("x", "y"))):
        log = math.log2(a) + 0.3 * math.log2(b) + 0.8 * (c != d)
        tunables = Point(a=a, b=b, c=c, d=d, e=e)
        found.append(SimpleNamespace(tunables=tunables, median_ns=1e4 * math.exp(log), ordinal=number, contender="v"))
    return found[::2] + found[1::7]


def test_what_decides_comes_first_and_an_interaction_is_one_of_a_pair() -> None:
    parts = {part.names: part.share for part in explain(trials())}
    assert next(iter(parts)) == ("a",)
    assert parts["a",] > 0.6
    assert parts["c", "d"] > parts.get(("c",), 0.0) + 0.05
    assert parts.get(("e",), 0.0) < 0.02
    assert sum(parts.values()) < 1.05


def test_few_trials_say_nothing() -> None:
    assert explain(trials()[:5]) == []


def test_a_sweep_that_ran_everything_was_no_search() -> None:
    assert not any(is_search(each) for each in ({"search": {"name": ""}}, {"search": None}, {}))
    assert find_search(SimpleNamespace(is_search=False)) is None  # type: ignore[arg-type]


def test_the_fastest_is_no_lucky_median_of_few_samples() -> None:
    """A search's last comparison takes many samples of a few; its first looks are many, of five samples each."""
    times = {
        16: made_timing(12.4e3, (12.3e3, 12.5e3), count=3200),
        8: made_timing(12.1e3, (12.0e3, 12.6e3), count=5),
        4: made_timing(13.0e3, (12.9e3, 13.1e3), count=20),
    }
    tried = [
        made_trial(id=width, ordinal=place, tunables=Point(width=width), timings={Measure.COLD: timing})
        for place, (width, timing) in enumerate(times.items())
    ]
    (best,) = best_of_tunables(tried)
    assert best.tunables.width == 16
    study: Any = SimpleNamespace(right_here=tried)
    (drawn,) = tunable_maps(study)
    assert drawn.best is best
    listed = fastest_table(SimpleNamespace(right_here=tried * ENOUGH))  # type: ignore[arg-type]
    assert listed is not None
    assert [listed.rows[0].note, listed.rows[0].cells[1].text] == ["width=16", "1.000"]
    assert "the longest counts" in listed.notes[0]
    found = find_search(SimpleNamespace(is_search=True, right_here=tried))  # type: ignore[arg-type]
    assert found is not None
    assert found.best_ns == (12.4e3, 12.4e3, 12.4e3)
    few = made_timing(12.1e3, (11.9e3, 12.2e3), count=5)
    surely = made_trial(id=2, tunables=Point(width=2), timings={Measure.COLD: few})
    assert best_of_tunables([*tried, surely]) == [surely], "even the longest of its samples is shorter"


def candidate(width: int, median_ns: float, job: str, run_id: int, samples: int = 200) -> StudyTrial:
    """Return a trial that was measured in a job, beside others by rounds."""
    durations = median_ns * np.exp(0.002 * np.random.default_rng(width).standard_normal(samples))
    series = Samples.of([durations], [np.arange(samples)], rotation="one rotation")
    entry = Measured(frozenset({Measure.COLD}), False, lambda _: series)
    timing = made_timing(float(series.medians()[0]), (0.999 * median_ns, 1.001 * median_ns), count=samples)
    return made_trial(
        id=width,
        tunables=Point(width=width),
        timings={Measure.COLD: timing},
        entry=entry,
        run_id=run_id,
        job=job,
    )


def searched(*trials: StudyTrial, state: str = "finished", objective: str = "time") -> Any:
    settings = {"name": "surrogate", "objective": objective, "effect": 0.01, "error_rate": 0.05}
    return SimpleNamespace(
        is_search=True,
        trials=trials,
        reference=trials[0].problem if trials else None,
        configuration={"search": settings},
        sweep=SimpleNamespace(id=1, state=state),
    )


def test_the_last_comparison_is_told_by_the_searchs_own_rule() -> None:
    looked = candidate(1, 0.99e4, "a look", 1)
    last = [candidate(2, 1e4, "the duel", 2), candidate(4, 1.001e4, "the duel", 3), candidate(8, 1.1e4, "the duel", 4)]
    assert describe_standing(searched(looked, *last)) == (
        "The search compared its last candidates side by side: v with width=2 is level with width=4 "
        "(within 1\N{NO-BREAK SPACE}%), faster than 1; error rate 5\N{NO-BREAK SPACE}%."
    )
    for none in (
        searched(*last, state="interrupted"),
        searched(*last, objective="energy"),
        searched(looked),
        searched(),
    ):
        assert describe_standing(none) == ""
    few = [replace(each, timings={Measure.COLD: made_timing(1e4, count=5)}) for each in last]
    assert describe_standing(searched(*few)) == "", "looks of few samples are no comparison"


def test_where_all_candidates_fail_in_the_last_comparison_their_looks_before_are_not_taken_for_it() -> None:
    looked = [candidate(1, 1e4, "a longer look", 1), candidate(2, 1.2e4, "a longer look", 2)]
    failed = [
        replace(each, state=State.WRONG_RESULT, timings={}, entry=None)
        for each in (candidate(4, 1e4, "the duel", 3), candidate(8, 1e4, "the duel", 4))
    ]
    assert describe_standing(searched(*looked, *failed)) == (
        "Of the search's candidates none of the 2 best gave a right result again when they were compared."
    )
    assert describe_standing(searched(*looked, failed[0])) == (
        "Of the search's candidates the best gave no right result when it was compared."
    )
    elsewhere = replace(failed[0], problem=Point(n=7))
    assert "faster than 1" in describe_standing(searched(*looked, elsewhere)), "each problem has its own"
