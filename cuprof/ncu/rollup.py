"""Make a trial's counters from those of its launches, each metric by its own rule (see `cuprof.ncu.metrics`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cuprof.core.records import CounterValue, LaunchRecord
from cuprof.ncu.metrics import DURATION, get_rule

_FOLDS: Mapping[str, Callable[[Sequence[float]], float]] = {"sum": math.fsum, "max": max, "min": min}


def roll_up(launches: Sequence[LaunchRecord]) -> tuple[CounterValue, ...]:
    """Return one value a metric for a trial, in the order in which the launches first show the metrics.

    A metric that one of the launches lacks has no value for the trial, and no instances where one lacks those: half a
    sum is not a sum. A ratio whose weight is zero in every launch has no value. `rollup` names the rule that was
    applied, which is another than the metric's own where the weight is missing.
    """
    by_launch = [{counter.metric: counter for counter in launch.counters} for launch in launches]
    names = dict.fromkeys(counter.metric for launch in launches for counter in launch.counters)
    return tuple(_roll_up_metric(name, launches, by_launch) for name in names)


def _roll_up_metric(
    name: str, launches: Sequence[LaunchRecord], by_launch: Sequence[Mapping[str, CounterValue]]
) -> CounterValue:
    present = [counters[name] for counters in by_launch if name in counters]
    first, is_whole = present[0], len(present) == len(launches)
    rule = first.rollup or get_rule(name, first.unit)
    if len(launches) == 1:
        weight = by_launch[0].get(rule.partition(":")[2])
        return replace(first, rollup=rule, value=None if weight is not None and weight.value == 0 else first.value)
    instances: Counter[str] = Counter()
    if rule == "sum" and is_whole and all(counter.instances for counter in present):
        for counter in present:
            for label, count in counter.instances.items():
                instances[label] += count  # type: ignore[assignment]
    blank = CounterValue(name, None, first.unit, rule, first.meaning, dict(instances))
    if (texts := {counter.text for counter in present}) != {""}:
        return replace(blank, text=first.text if len(texts) == 1 else "")
    if rule == "none" or not is_whole:
        return blank
    values = [counter.value for counter in present]
    if rule in _FOLDS:
        numbers = [value for value in values if value is not None]
        return replace(blank, value=_FOLDS[rule](numbers)) if len(numbers) == len(values) else blank
    applied, weights = _weights(rule, launches, by_launch)
    return replace(blank, value=weighted_mean(values, weights), rollup=applied)


def weighted_mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Return the weighted mean, or None where it does not exist.

    A value of weight zero is ignored, even where it is not a number: a launch without loads has no bytes a sector,
    though Nsight Compute gives 0 for that. Without any weight there is no mean.
    """
    terms = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight > 0]
    if math.fsum(weights) <= 0 or any(value is None or math.isnan(value) for value, _ in terms):
        return None
    return math.fsum((value or 0.0) * weight for value, weight in terms) / math.fsum(weight for _, weight in terms)


def _weights(
    rule: str, launches: Sequence[LaunchRecord], by_launch: Sequence[Mapping[str, CounterValue]]
) -> tuple[str, list[float]]:
    """Return the rule that can be applied and each launch's weight: the metric's own, the duration, or one."""
    durations = [launch.duration_ns for launch in launches]
    for weight in dict.fromkeys((rule.partition(":")[2], DURATION)):
        others: Sequence[float | None] = durations if weight == DURATION else [None] * len(launches)
        found = [
            counters[weight].value if weight in counters else other
            for counters, other in zip(by_launch, others, strict=True)
        ]
        numbers = [value for value in found if value is not None and not math.isnan(value)]
        if len(numbers) == len(launches):
            return f"mean:{weight}", numbers
    return "mean", [1.0] * len(launches)
