"""Ratios of nothing: what Nsight Compute gives as 0 where there was nothing to divide by.

A kernel that copies global memory to shared memory asynchronously executes no load instruction that is counted, and
Nsight Compute gives 0 bytes for each of its 0 loaded sectors. Read as a measurement that would be the worst possible
coalescing. What a ratio is a ratio of is its weight in the roll-up (`cuprof.ncu.metrics`), collected beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from cuprof.ncu.metrics import METRICS, find_metric
from cuprof.results.counters import LaunchCounter, TrialCounter

Row = TypeVar("Row", TrialCounter, LaunchCounter)


def blank_undefined(counters: Sequence[Row], key: Callable[[Row], tuple[Any, ...]]) -> list[Row]:
    """Return the counters without the ratios whose weight is zero: no value, and `text` says what was not counted.

    Args:
        key: what a counter was counted together with (its profile, or its launch), then its metric.
    """
    values = {key(row): row.value for row in counters}

    def blanked(row: Row) -> Row:
        weight = row.rollup.partition(":")[2]
        if not weight or values.get((*key(row)[:-1], weight)) != 0:
            return row
        metric = find_metric(weight)
        return row._replace(value=None, text=metric.absence if metric and metric.absence else f"{weight} is 0")

    return [blanked(row) for row in counters]


def explain(texts: Iterable[str]) -> str:
    """Return what the texts of undefined ratios mean, each meaning once; empty for any other texts."""
    meanings = {metric.absence: metric.exempt for metric in METRICS.values() if metric.exempt}
    return " ".join(dict.fromkeys(meanings[text] for text in texts if text in meanings))
