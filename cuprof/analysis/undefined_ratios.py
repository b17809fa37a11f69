"""Ratios of nothing: what Nsight Compute gives as 0 where there was nothing to divide by.

A kernel that copies global memory to shared memory asynchronously executes no load instruction that is counted, and
Nsight Compute gives 0 bytes for each of its 0 loaded sectors. Read as a measurement that would be the worst possible
coalescing. What a ratio is a ratio of is its weight in the roll-up (`cuprof.ncu.metrics`), collected beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from cuprof.reading.counters import LaunchCounter, TrialCounter

Row = TypeVar("Row", TrialCounter, LaunchCounter)

NO_LOADS = "no global loads counted"
NO_STORES = "no global stores counted"

WORDS = {
    "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum": NO_LOADS,
    "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_st.sum": NO_STORES,
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": NO_LOADS,
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": NO_STORES,
    "l1tex__t_sectors.sum": "no L1 sectors counted",
    "lts__t_sectors.sum": "no L2 sectors counted",
}
"""Weight → what stands in place of a ratio whose weight is zero."""

MEANINGS = {
    NO_LOADS: "Asynchronous copies to shared memory (cp.async, TMA) are not among the loads that are counted.",
    NO_STORES: "Bulk copies out of shared memory (TMA) are not among the stores that are counted.",
}


def blank_undefined(counters: Sequence[Row], key: Callable[[Row], tuple[Any, ...]]) -> list[Row]:
    """Return the counters without the ratios whose weight is zero: no value, and `text` says what was not counted.

    Args:
        key: what a counter was counted together with (its profile, or its launch), then its metric.
    """
    values = {key(row): row.value for row in counters}

    def blanked(row: Row) -> Row:
        weight = row.rollup.partition(":")[2]
        empty = bool(weight) and values.get((*key(row)[:-1], weight)) == 0
        return row._replace(value=None, text=WORDS.get(weight, f"{weight} is 0")) if empty else row

    return [blanked(row) for row in counters]


def explain(texts: Iterable[str]) -> str:
    """Return what the texts of undefined ratios mean, each meaning once; empty for any other texts."""
    return " ".join(dict.fromkeys(MEANINGS[text] for text in texts if text in MEANINGS))
