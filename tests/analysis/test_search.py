"""What a search's trials say of its tunables."""

from __future__ import annotations

import math
from itertools import product
from types import SimpleNamespace
from typing import Any

from cuprof.analysis.search import explain, find_search
from cuprof.point import Point
from cuprof.reading.sweeps import is_search


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
