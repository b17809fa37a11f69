"""The samples of stored trials are read in few queries, and what is learned of correlation is of all of a sweep."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from made import Made, fill

from cuprof.comparison.compare import compare
from cuprof.comparison.sides import Side, load_sides
from cuprof.comparison.trials import Stored, read_trials
from cuprof.results.read import read_results
from cuprof.store.store import Store

COUNT = 30


@pytest.fixture
def side(store: Store) -> Side:
    sweep = fill(store, [Made(f"v{place}", 50.0 + place) for place in range(COUNT)])
    with store.snapshot() as connection:
        trials = read_trials(connection, read_results(connection, [sweep]))
        return Side("1", "sweep", "", trials, Stored(connection.engine))


@contextmanager
def queries_of(store: Store) -> Iterator[list[str]]:
    """Yield the queries for samples."""
    found: list[str] = []

    def hear(_: object, __: object, statement: str, *___: object) -> None:
        found.extend([statement] * ("FROM samples" in statement))

    sa.event.listen(store.engine, "before_cursor_execute", hear)
    yield found
    sa.event.remove(store.engine, "before_cursor_execute", hear)


def test_a_median_needs_no_samples_and_is_theirs(store: Store, side: Side) -> None:
    with queries_of(store) as queries:
        told = side.trials["median_ns"].tolist()
        assert not queries
        assert told == side.source.read(side.trials).medians().tolist()
        assert len(queries) == 1


@pytest.mark.parametrize(("held", "parts"), [(1, COUNT // 2), (119, COUNT // 2), (240, 8), (60 * COUNT, 1)])
def test_samples_are_held_of_a_part_at_a_time(
    store: Store, side: Side, monkeypatch: pytest.MonkeyPatch, held: int, parts: int
) -> None:
    """A part has 60 samples of each side of a pair, as many pairs as may be held, and at least one."""
    module = sys.modules[compare.__module__]
    rows = pd.concat(
        [
            side.trials[place::2].add_prefix(f"{name}_").reset_index(drop=True)
            for place, name in enumerate(("base", "new"))
        ],
        axis=1,
    ).assign(measure="cold")
    bounds = [module.contrast_rows(rows, side, side).interval(0.05)]
    monkeypatch.setattr(module, "AT_ONCE", held)
    with queries_of(store) as queries:
        bounds.append(module.contrast_rows(rows, side, side).interval(0.05))
        assert len(queries) == 2 * parts
    assert np.array_equal(*bounds)


def test_of_a_trial_in_two_sweeps_the_later_ones_stands(store: Store, side: Side) -> None:
    again = fill(store, [Made("v3", 99.0, source="v2")], seed=2)
    with store.snapshot() as connection:
        trials = read_trials(connection, read_results(connection, [1, again]))
    assert len(trials) == COUNT
    assert trials["variant"].tolist()[-1] == "v3"
    assert trials["run_sweep_id"].tolist() == [1] * (COUNT - 1) + [again]


def test_what_is_learned_of_correlation_is_of_the_whole_sweep(store: Store, url: str, side: Side) -> None:
    """So that the interval of one pair does not depend on what is compared beside it."""
    one = compare(*load_sides("invented/v1", "invented/v2", url)).rows
    every = [part.mean.tolist() for part in side.source.learn(side.trials)]
    alone = [part.mean.tolist() for part in side.source.learn(side.trials[4:5])]
    assert [part[:1] for part in every] == alone
    assert len(one) == 1
