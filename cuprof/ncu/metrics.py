"""Describe Nsight Compute's metrics, including those known only by name.

metrics.csv describes metrics, one a row: name and unit are Nsight Compute's; the sentences follow NVIDIA's Kernel
Profiling Guide ("Metrics Reference"). It has a rule where the name implies a wrong one. kinds.csv says what the change
of a metric means, for all metrics whose name matches a pattern: the first match counts.

A rule makes a trial's value from its launches' values. It is one word or "mean:WEIGHT":

    sum           launches add up: instructions, bytes, requests, cycles, durations
    max, min      the largest or smallest launch
    mean:WEIGHT   average of the launches, each weighed by its value of the metric WEIGHT: the ratio's denominator
                  (sectors, requests, instructions), or the duration for shares of a peak
    mean          the plain average, where no weight was collected
    none          no number that belongs to a trial
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cuprof.core.errors import ConfigError

DURATION = "gpu__time_duration.sum"
TOPICS = ("Grid", "DRAM traffic", "Shared memory", "Coalescing", "Instructions", "Occupancy")
"""The topics of an analysis, in order."""
ORDER = (
    r"^launch__grid",
    r"dram",
    r"^launch__shared",
    r"bytes_per_sector|sectors_per_request",
    r"^launch__",
    r"^lts",
    r"^l1tex",
)
"""Metrics are listed in this order: geometry, DRAM traffic, shared memory, coalescing, then the rest by name."""


@dataclass(frozen=True)
class Metric:
    """Describe a metric.

    Args:
        name: Nsight Compute's own name.
        unit: as Nsight Compute writes base units; empty for plain counts.
        meaning: one sentence.
        rule: how launches become a trial's value; see the module.
        heading: short, for tables and figures that name it often; otherwise they show the name.
        topic: the topic of an analysis that it belongs to; empty for none.
        telling: rank among the most telling metrics of a kernel, from 1; 0 for all others.
        absence: shown in place of a ratio whose denominator is this metric, where this metric is zero.
        exempt: what the device executes without counting it in this metric, so that its absence is not misread.
    """

    name: str
    unit: str
    meaning: str
    rule: str = ""
    heading: str = ""
    topic: str = ""
    telling: int = 0
    absence: str = ""
    exempt: str = ""


Sentence = Literal[
    "amount", "share_of_peak", "sector_use", "sectors_per_request", "block_memory", "grid_depth", "active_threads"
]
"""How the change of a metric is worded; `reports/templates/counters.txt` has a macro for each."""


@dataclass(frozen=True)
class Kind:
    """Metrics whose names match a pattern, and what their change means.

    Args:
        subject: of the sentence: a quantity, a unit of the chip, a kind of shared memory, or accesses.
        more, less: of an amount: what more or less of it means.
    """

    pattern: str
    sentence: Sentence
    subject: str = ""
    more: str = ""
    less: str = ""


_SUFFIXES = {"sum": "sum", "avg": "sum", "max": "max", "min": "min"}
_SHARE = re.compile(
    r"\.(pct_of_peak\w*|per_second|per_cycle\w*|pct|ratio|max_rate|peak_sustained\w*)$|(_pct|_per_active_cycle)$"
)


def derive_rule(name: str, unit: str = "") -> str:
    """Return the rule that a metric's name implies.

    launch__ and device__ metrics describe the launch or the device: the largest counts, of the limits to occupancy
    the smallest. Anything that ends in a share or a rate (.pct…, .ratio, .per_…, _pct) is weighed by the duration,
    whatever comes before: throughputs write `.sum.pct…` for a share of the summed peak. Of the rest, .sum adds, and so
    does .avg (the .sum over the number of units, which is the same for every launch); .max and .min stay what they are,
    and a name without a suffix that counts (sass__…) adds.

    Args:
        name: Nsight Compute's own name.
        unit: "%" marks a share where the name does not.
    """
    if name.startswith(("launch__", "device__")):
        return "min" if name.startswith("launch__occupancy_limit") else "max"
    if _SHARE.search(name) or unit == "%":
        return f"mean:{DURATION}"
    suffix = name.rpartition(".")[2] if "." in name else ""
    return _SUFFIXES.get(suffix, "sum" if name.startswith("sass__") else "none")


def read_table(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table beside this module."""
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


METRICS = {
    row["name"]: Metric(
        **{**row, "rule": row["rule"] or derive_rule(row["name"], row["unit"]), "telling": int(row["telling"] or 0)}
    )
    for row in sorted(read_table("metrics.csv"), key=lambda row: row["name"])
}
"""The described metrics by name, in order of their names."""
KINDS = tuple(Kind(**row) for row in read_table("kinds.csv"))


def find_kind(name: str) -> Kind | None:
    """Return the kind that a metric belongs to, or None where nothing is known but its change."""
    return next((kind for kind in KINDS if re.search(kind.pattern, name)), None)


def get_rule(name: str, unit: str = "") -> str:
    """Return the roll-up rule of any metric: the described one, otherwise the one that its name implies."""
    known = METRICS.get(name)
    return known.rule if known else derive_rule(name, unit)


def list_telling() -> list[Metric]:
    """Return the most telling metrics of a kernel, in the order in which they are shown."""
    return sorted((metric for metric in METRICS.values() if metric.telling), key=lambda metric: metric.telling)


def heading_of(name: str) -> str:
    """Return the heading of a counter: a short one where there is one, otherwise the metric's name."""
    metric = METRICS.get(name)
    return metric.heading or name if metric else name


def listing_order(name: str) -> tuple[int, str]:
    """Return the key that metrics are sorted by where many are listed."""
    return next((i for i, pattern in enumerate(ORDER) if re.search(pattern, name)), len(ORDER)), name


def companions(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the weights of the metrics, which are collected with them.

    They cost no pass of their own: ncu computes the ratio from its weight, and collects the duration anyway.
    """
    weights = {get_rule(name).partition(":")[2] for name in metrics}
    return tuple(sorted(weights - {"", *metrics}))


def select(present: Sequence[str], metrics: Iterable[str]) -> list[str]:
    """Return the present metrics that the requested ones stand for, in the order requested.

    As in ncu, "regex:…" stands for what it matches and a name without a suffix for every roll-up of it.
    """
    known, selected = set(present), list[str]()
    for metric in metrics:
        if metric in known:
            selected.append(metric)
        elif metric.startswith("regex:"):
            selected += sorted(filter(get_pattern(metric).search, present))
        else:
            selected += sorted(name for name in present if name.startswith(metric + "."))
    return list(dict.fromkeys(selected))


def get_pattern(metric: str) -> re.Pattern[str]:
    """Return the pattern of "regex:…"; raise `ConfigError` if it is none."""
    try:
        return re.compile(metric.removeprefix("regex:"))
    except re.error as error:
        raise ConfigError(f"{metric} is no regular expression: {error}") from None


def list_matches(requested: Sequence[str], stored: Collection[str]) -> list[str]:
    """Return the metrics that the requested ones stand for; sets and sections stand for none.

    Args:
        requested: as in `Request.metrics`.
        stored: the metrics that there are. A full name is listed even if it is not among them.
    """
    found: list[str] = []
    for name in requested:
        if not name.startswith(("set:", "section:")):
            found += select(sorted(stored), [name]) or ([] if ":" in name else [name])
    return list(dict.fromkeys(found))
