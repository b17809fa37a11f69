"""Ratios of nothing: what Nsight Compute gives as 0 where there was nothing to divide by.

A kernel that copies global memory to shared memory asynchronously executes no load instruction that is counted, and
Nsight Compute gives 0 bytes for each of its 0 loaded sectors. Read as a measurement that would be the worst possible
coalescing. What a ratio is a ratio of is its weight in the roll-up (`cuprof.profiling.metric`), collected beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from cuprof.profiling.knowledge import find_metric, list_metrics


def blank_undefined(counters: pd.DataFrame, within: Sequence[str]) -> pd.DataFrame:
    """Return the counters without the ratios whose weight is zero: no value, and `text` says what was not counted.

    Args:
        counters: with metric, rollup, value and text.
        within: the columns that say which counters were counted together: a profile's, or a launch's.
    """
    if counters.empty:
        return counters
    keys = list(zip(*(counters[column] for column in within), counters["metric"], strict=True))
    values = dict(zip(keys, counters["value"], strict=True))
    weights = [str(rule or "").partition(":")[2] for rule in counters["rollup"]]
    undefined = [
        bool(weight) and values.get((*key[:-1], weight)) == 0 for key, weight in zip(keys, weights, strict=True)
    ]
    texts = [
        _absence(weight) if empty else text
        for text, weight, empty in zip(counters["text"], weights, undefined, strict=True)
    ]
    return counters.assign(
        value=counters["value"].astype(float).mask(pd.Series(undefined, index=counters.index)),
        text=pd.Series(texts, index=counters.index, dtype=object),
    )


def explain(texts: Iterable[str]) -> str:
    """Return what the texts of undefined ratios mean, each meaning once; empty for any other texts."""
    meanings = {metric.absence: metric.exempt for metric in list_metrics() if metric.exempt}
    return " ".join(dict.fromkeys(meanings[text] for text in texts if text in meanings))


def _absence(weight: str) -> str:
    """Return what stands in place of a ratio whose weight is zero."""
    metric = find_metric(weight)
    return metric.absence if metric and metric.absence else f"{weight} is 0"
