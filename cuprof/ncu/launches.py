"""Group the launches of a report by their owner, and make a trial's counters from those of its launches.

No two trials or kernels are rolled up together, and each metric is by its own rule (see `cuprof.ncu.metrics`).
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cuprof.core.records import CounterValue, LaunchRecord, Profile, State
from cuprof.ncu.metrics import DURATION, get_rule
from cuprof.ncu.report_file import Launches

_VENDOR = re.compile(r"^nvidia\s+|\s+MIG\s.*$", re.IGNORECASE)
"""Parts of a device's name that drivers and profilers do not agree on."""


class Owner(StrEnum):
    """The owner of launches."""

    TRIAL = "trial"  # of a trial in the database
    UNKNOWN = "unknown"  # of a trial of cuprof's that is not in the database
    OTHER_DEVICE = "other_device"  # in a range of a trial in the database, which is of another device
    FOREIGN = "foreign"  # outside every range of ours


@dataclass(frozen=True)
class Group:
    """Launches that are rolled up together, as they are stored.

    Attributes:
        owner: launches of a trial are joined to it, all others are stored under a name.
        profile: under the trial's label; NAME/identity[:8] for launches in a range of ours that belong to no trial
            here; NAME/kernel for foreign ones. Its state is "crashed" where one of the launches did not get to its end,
            and its message says why they were not joined, or what crashed.
    """

    owner: Owner
    profile: Profile


def group_launches(
    launches: Launches, labels: Mapping[str, str], devices: Mapping[str, str], common: Profile
) -> tuple[Group, ...]:
    """Return the launches of a report by trial, and those outside our ranges by kernel.

    Args:
        labels: identity → label of the trials that are in the database.
        devices: identity → model of the device that such a trial is of, where it is known.
        common: what the profiles share; its name is for launches that belong to no trial.
    """
    groups = []
    for identity, found in launches.items():
        if identity is not None:
            label, device = labels.get(identity), devices.get(identity, "")
            theirs = (str(launch.details.get("device") or "") for launch in found)
            other = next((each for each in theirs if not _same_device(each, device)), None)
            profile = replace(common, name=f"{common.name}/{identity[:8]}")
            if label is None:
                groups.append(_group(Owner.UNKNOWN, profile, found))
            elif other is None:
                groups.append(_group(Owner.TRIAL, replace(profile, identity=identity, name=label), found))
            else:
                message = f"not joined to {label}: the trial is of {device}, the report of {other}"
                groups.append(_group(Owner.OTHER_DEVICE, replace(profile, message=message), found))
    return *groups, *_foreign(launches.get(None, ()), common)


def _foreign(launches: Sequence[LaunchRecord], common: Profile) -> Iterator[Group]:
    """Yield a group for each kernel; the signature distinguishes the instances of a template."""
    by_kernel: dict[tuple[str, str], list[LaunchRecord]] = defaultdict(list)
    for launch in launches:
        own = by_kernel[launch.kernel, str(launch.details.get("signature", ""))]
        own.append(replace(launch, ordinal=len(own)))
    kernels = [kernel for kernel, _ in by_kernel]
    for (kernel, signature), found in by_kernel.items():
        called = kernel if kernels.count(kernel) == 1 else signature
        yield _group(Owner.FOREIGN, replace(common, name=f"{common.name}/{called}"), tuple(found))


def _group(owner: Owner, profile: Profile, launches: tuple[LaunchRecord, ...]) -> Group:
    """Return launches with the values rolled up from them.

    A crash has left counters of a part of the work at most, which are kept by launch but make no value of a trial.
    """
    if crash := next(filter(None, map(_find_crash, launches)), ""):
        message = "; ".join(filter(None, (profile.message, crash)))
        return Group(owner, replace(profile, state=State.CRASHED, message=message, launches=launches))
    rolled = roll_up(launches)
    metrics = tuple(counter.metric for counter in rolled)
    return Group(owner, replace(profile, metrics=metrics, launches=launches, rolled=rolled))


def _find_crash(launch: LaunchRecord) -> str:
    """Return what is missing of a launch that has no grid, or a duration that is not a number; empty otherwise.

    A range or graph that was profiled as a whole has no grid of its own.
    """
    lacks = ["grid"] if "workload" not in launch.details and not all(launch.grid) else []
    lacks += ["duration"] if launch.duration_ns is not None and math.isnan(launch.duration_ns) else []
    crash = f"launch {launch.ordinal} ({launch.kernel}) crashed: the report has no {' and no '.join(lacks)} of it"
    return crash if lacks else ""


def _same_device(one: str, other: str) -> bool:
    """Return whether two names are of one model; an unknown name matches any."""
    first, second = (_VENDOR.sub("", device).strip().casefold() for device in (one, other))
    return first == second or not first or not second


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
            instances.update(counter.instances)
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
    for weight in dict.fromkeys((rule.partition(":")[2], DURATION)):
        found = [
            counters[weight].value if weight in counters else launch.duration_ns if weight == DURATION else None
            for launch, counters in zip(launches, by_launch, strict=True)
        ]
        numbers = [value for value in found if value is not None and not math.isnan(value)]
        if len(numbers) == len(launches):
            return f"mean:{weight}", numbers
    return "mean", [1.0] * len(launches)
