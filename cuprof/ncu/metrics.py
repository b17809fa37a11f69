"""What is known of Nsight Compute's metrics: meaning, unit, and the rule that makes a trial's value of its launches'.

A rule is one word or "mean:WEIGHT":

    sum           launches add up: instructions, bytes, requests, cycles, durations
    max, min      the largest or smallest launch
    mean:WEIGHT   average of the launches, each weighed by its value of the metric WEIGHT: what the ratio is a ratio
                  of (sectors, requests, instructions), or the duration for shares of a peak
    mean          the plain average, where no weight was collected
    none          no number that belongs to a trial

Metrics that are not in the catalog get their rule from their name, see `derive_rule`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from cuprof.ncu.catalog import DURATION, ENTRIES

_SUFFIXES = {"sum": "sum", "avg": "sum", "max": "max", "min": "min"}
_SHARE = re.compile(
    r"\.(pct_of_peak\w*|per_second|per_cycle\w*|pct|ratio|max_rate|peak_sustained\w*)$|(_pct|_per_active_cycle)$"
)
_LEAST = "launch__occupancy_limit"


@dataclass(frozen=True)
class Metric:
    """Describe a metric.

    Args:
        name: Nsight Compute's own name.
        unit: as Nsight writes base units; empty for plain counts.
        meaning: one sentence.
        rule: how launches become a trial (see the module).
    """

    name: str
    unit: str
    meaning: str
    rule: str

    @property
    def weight(self) -> str:
        """Return the metric that weighs the launches, or empty."""
        return self.rule.partition(":")[2]


def catalog() -> tuple[Metric, ...]:
    """Return every metric that cuprof knows a meaning for, by name."""
    return tuple(sorted(_by_name().values(), key=lambda metric: metric.name))


def find_metric(name: str) -> Metric | None:
    """Return the metric's description, or None where cuprof has none."""
    return _by_name().get(name)


def get_rule(name: str, unit: str = "") -> str:
    """Return the roll-up rule of any metric: the catalog's, else the one its name implies."""
    known = find_metric(name)
    return known.rule if known else derive_rule(name, unit)


def derive_rule(name: str, unit: str = "") -> str:
    """Return the rule that a metric's name implies.

    launch__ and device__ metrics describe the launch or the device: the largest counts, of the limits to occupancy
    the smallest. Anything that ends in a share or a rate (.pct…, .ratio, .per_…, _pct) is weighed by the duration,
    whatever comes before: throughputs write `.sum.pct…` for a share of the summed peak. Of the rest, .sum adds, and so
    does .avg (it is the .sum over the number of units, which is the same for every launch), .max and .min stay what
    they are, and a name without a suffix that counts (sass__…) adds.

    Args:
        name: Nsight Compute's own name.
        unit: "%" marks a share where the name does not.
    """
    if name.startswith(("launch__", "device__")):
        return "min" if name.startswith(_LEAST) else "max"
    if _SHARE.search(name) or unit == "%":
        return f"mean:{DURATION}"
    suffix = name.rpartition(".")[2] if "." in name else ""
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return "sum" if name.startswith("sass__") else "none"


def companions(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Return the metrics collected beside those asked for, because they weigh them.

    They cost no pass of their own: a weight is part of what its ratio is computed from, and ncu collects the duration
    anyway.
    """
    weights = {get_rule(name).partition(":")[2] for name in metrics}
    return tuple(sorted(weights - {"", *metrics}))


@cache
def _by_name() -> dict[str, Metric]:
    return {name: Metric(name, unit, meaning, rule or derive_rule(name, unit)) for name, unit, meaning, rule in ENTRIES}
