"""The rules that make a trial's value of its launches', and which one a metric's name implies.

A rule is one word or "mean:WEIGHT":

    sum           launches add up: instructions, bytes, requests, cycles, durations
    max, min      the largest or smallest launch
    mean:WEIGHT   average of the launches, each weighed by its value of the metric WEIGHT: what the ratio is a ratio
                  of (sectors, requests, instructions), or the duration for shares of a peak
    mean          the plain average, where no weight was collected
    none          no number that belongs to a trial
"""

from __future__ import annotations

import re

DURATION = "gpu__time_duration.sum"
_SUFFIXES = {"sum": "sum", "avg": "sum", "max": "max", "min": "min"}
_SHARE = re.compile(
    r"\.(pct_of_peak\w*|per_second|per_cycle\w*|pct|ratio|max_rate|peak_sustained\w*)$|(_pct|_per_active_cycle)$"
)
_LEAST = "launch__occupancy_limit"


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
