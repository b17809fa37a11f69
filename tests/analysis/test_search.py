"""What a search's trials say of its tunables."""

from __future__ import annotations

import math
from itertools import product
from types import SimpleNamespace
from typing import Any

from cuprof.analysis.search import explain, find_search
from cuprof.analysis.trials import best_of_tunables
from cuprof.point import Point
from cuprof.reading.sweeps import is_search
from cuprof.records import Measure
from tests.analysis.study_data import made_timing, made_trial


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
    found = find_search(SimpleNamespace(is_search=True, right_here=tried))  # type: ignore[arg-type]
    assert found is not None
    assert found.best_ns == (12.4e3, 12.4e3, 12.4e3)
    few = made_timing(12.1e3, (11.9e3, 12.2e3), count=5)
    surely = made_trial(id=2, tunables=Point(width=2), timings={Measure.COLD: few})
    assert best_of_tunables([*tried, surely]) == [surely], "even the longest of its samples is shorter"
