"""Make a trial's counters from those of its launches, each metric by its own rule (see `cuprof.ncu.metrics`)."""

from __future__ import annotations

import math
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
    first = present[0]
    rule = first.rollup or get_rule(name, first.unit)
    if len(launches) == 1:
        nothing = by_launch[0].get(rule.partition(":")[2])
        undefined = nothing is not None and nothing.value == 0
        return replace(first, rollup=rule, value=None if undefined else first.value)
    everywhere = len(present) == len(launches) and all(counter.instances for counter in present)
    instances = _sum_instances(present) if rule == "sum" and everywhere else {}
    blank = CounterValue(name, None, first.unit, rule, first.meaning, instances)
    texts = {counter.text for counter in present}
    if texts != {""}:
        return replace(blank, text=first.text if len(texts) == 1 else "")
    values = [counter.value for counter in present]
    if rule == "none" or len(present) < len(launches):
        return blank
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
    if math.fsum(weights) <= 0:
        return None
    terms = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight > 0]
    if any(value is None or math.isnan(value) for value, _ in terms):
        return None
    total = math.fsum(weight for _, weight in terms)
    return math.fsum((value or 0.0) * weight for value, weight in terms) / total


def _weights(
    rule: str, launches: Sequence[LaunchRecord], by_launch: Sequence[Mapping[str, CounterValue]]
) -> tuple[str, list[float]]:
    """Return the rule that can be applied and each launch's weight: the metric's own, the duration, or one."""
    wanted = rule.partition(":")[2]
    for weight in dict.fromkeys((wanted, DURATION)):
        found = [_value(weight, launch, counters) for launch, counters in zip(launches, by_launch, strict=True)]
        numbers = [value for value in found if value is not None and not math.isnan(value)]
        if len(numbers) == len(launches):
            return f"mean:{weight}", numbers
    return "mean", [1.0] * len(launches)


def _value(metric: str, launch: LaunchRecord, counters: Mapping[str, CounterValue]) -> float | None:
    if metric in counters:
        return counters[metric].value
    return launch.duration_ns if metric == DURATION else None


def _sum_instances(counters: Sequence[CounterValue]) -> dict[str, float]:
    total: dict[str, float] = {}
    for counter in counters:
        for label, value in counter.instances.items():
            total[label] = total.get(label, 0.0) + value
    return total
