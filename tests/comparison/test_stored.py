"""Samples of stored trials are read when they are asked for, those of many in few queries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import sqlalchemy as sa
from made import Made, fill

from cuprof.comparison import Entry, Side, compare
from cuprof.comparison.matching import Match
from cuprof.comparison.stored import StoredSeries, forget_samples, read_entries, read_samples
from cuprof.core.errors import StoreError
from cuprof.core.records import Measure
from cuprof.statistics import Series
from cuprof.statistics.noise import NO_NOISE
from cuprof.store import Store

COUNT = 30


@pytest.fixture
def entries(store: Store) -> list[Entry]:
    sweep = fill(store, [Made(f"v{place}", 50.0 + place) for place in range(COUNT)])
    with store.snapshot() as connection:
        return read_entries(connection, [sweep])


@contextmanager
def queries_of(store: Store) -> Iterator[list[str]]:
    """Yield the queries for samples."""
    found: list[str] = []

    def hear(_: object, __: object, statement: str, *___: object) -> None:
        found.extend([statement] * ("FROM samples" in statement))

    sa.event.listen(store.engine, "before_cursor_execute", hear)
    yield found
    sa.event.remove(store.engine, "before_cursor_execute", hear)


def series_of(entries: list[Entry]) -> list[Series]:
    return [entry.series[Measure.COLD] for entry in entries]


def test_a_median_needs_no_samples_and_is_theirs(store: Store, entries: list[Entry]) -> None:
    with queries_of(store) as queries:
        told = [series.median_ns for series in series_of(entries)]
        assert not queries
        assert told == [series.quartiles.median_ns for series in series_of(entries)]
        assert len(queries) == COUNT


@pytest.mark.parametrize(("held", "parts"), [(1, COUNT // 2), (119, COUNT // 2), (240, 8), (60 * COUNT, 1)])
def test_samples_are_held_of_a_part_at_a_time(
    store: Store, entries: list[Entry], monkeypatch: pytest.MonkeyPatch, held: int, parts: int
) -> None:
    """A part has 60 samples of each side of a pair, as many pairs as may be held, and at least one."""
    module = sys.modules[compare.__module__]
    pairs = [(Match(*both), Measure.COLD) for both in zip(entries[::2], entries[1::2], strict=True)]

    def contrast() -> list[tuple[float, ...]]:
        found = module.contrast_matched(pairs, lambda *_: NO_NOISE)
        return [(each.log_ratio, *each.log_bounds(0.05)) for each in found]

    together = contrast()
    forget_samples(series_of(entries))
    monkeypatch.setattr(module, "AT_ONCE", held)
    with queries_of(store) as queries:
        assert contrast() == together
        assert len(queries) == parts
    held_still = [series for series in series_of(entries) if isinstance(series, StoredSeries) and series.is_read]
    assert len(held_still) == (COUNT if parts == 1 else 2)


def test_samples_of_many_are_read_at_once(store: Store, entries: list[Entry]) -> None:
    with queries_of(store) as queries:
        read_samples(series_of(entries))
        sizes = {series.durations.size for series in series_of(entries)}
        assert (len(queries), sizes) == (1, {60})
        assert all(np.array_equal(series.rounds, np.arange(60)) for series in series_of(entries))
        assert len(queries) == 1


def test_two_sides_are_compared_in_one_query(store: Store, entries: list[Entry]) -> None:
    sides = [Side(name, "variant", name, [entry]) for name, entry in zip("ab", entries[:2], strict=True)]
    with queries_of(store) as queries:
        (row,) = compare(*sides).rows
    assert len(queries) == 1
    assert row.judgement.ratio == pytest.approx(51 / 50, rel=0.01)


def test_samples_that_are_gone_are_told_in_one_line(store: Store, entries: list[Entry]) -> None:
    with store.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM samples"))
    (series, *_) = series_of(entries)
    assert isinstance(series, StoredSeries)
    with pytest.raises(StoreError, match="damaged or was changed by hand"):
        series.durations  # noqa: B018
