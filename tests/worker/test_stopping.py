"""When sampling stops, and what it says of the reason."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from cuprof.config.model import MeasureConfig
from cuprof.core.records import Sample, Summary
from cuprof.statistics.median import is_narrow, summarise
from cuprof.worker.stopping import StoppingRule


def make(**settings: float) -> StoppingRule:
    return StoppingRule(MeasureConfig(**settings))  # type: ignore[arg-type]


RULE = make(target=0.01, min_samples=20, max_samples=100, max_seconds=1, patience_seconds=10)


def taken(count: int, spread: float = 0.0, excluded: int = 0) -> list[Sample]:
    durations = 1000.0 * (1 + spread * np.linspace(-1, 1, count)) if count else []
    counted = [Sample(number, float(duration)) for number, duration in enumerate(durations)]
    return counted + [Sample(count + number, 5000.0, excluded="throttled") for number in range(excluded)]


def reason(rule: StoppingRule, samples: list[Sample], spent_ns: float, tick_ns: float = 0.0) -> str | None:
    counted = [sample.duration_ns for sample in samples if not sample.excluded]
    return rule.reason(counted, len(samples) - len(counted), spent_ns, tick_ns)


def test_a_narrow_interval_stops_at_the_minimum_and_not_before() -> None:
    assert reason(RULE, taken(19), 0) is None
    assert reason(RULE, taken(20), 0) == "interval"
    assert reason(RULE, taken(20, spread=0.5), 0) is None


def test_bounds_stop_a_wide_interval() -> None:
    wide = taken(100, spread=0.5)
    assert reason(RULE, wide[:99], 0) is None
    assert reason(RULE, wide, 0) == "samples"
    assert reason(RULE, wide[:20], 1e9) == "time"


def test_the_time_bound_waits_for_an_interval_and_patience_does_not() -> None:
    assert reason(RULE, taken(19), 0.9e9) is None
    assert reason(RULE, taken(5), 5e9) is None
    assert not RULE.is_due(5, 5e9, 0)
    assert RULE.is_due(6, 5e9, 0)
    assert reason(RULE, taken(6), 5e9) == "interval"
    assert reason(RULE, taken(6, spread=0.5), 5e9) == "time"
    few = make(min_samples=3, max_seconds=1)
    assert reason(few, taken(3), 1e9) == "time"
    assert reason(RULE, taken(2), 10e9) == "time"
    assert RULE.is_due(2, 10e9, 0)
    assert not RULE.is_due(2, 9.9e9, 0)


def test_time_that_could_not_be_enough_is_not_spent() -> None:
    wide = make(target=0.01, min_samples=20, max_samples=10_000, max_seconds=1)
    near, far = taken(40, spread=0.15), taken(40, spread=0.25)
    halves = [half_width(summarise(samples)) for samples in (near, far)]
    assert halves[0] < 3 * 0.01 / 0.25**0.5 < halves[1]
    assert reason(wide, far, 0.24e9) is None
    assert reason(wide, near, 0.25e9) is None
    assert reason(wide, far, 0.25e9) == "time"
    assert reason(wide, taken(40, spread=0.15), 0.5e9) == "time"  # the same interval, later
    assert reason(wide, taken(10, spread=0.25), 0.25e9) == "time"
    assert reason(wide, taken(10, spread=0.25), 0.24e9) is None
    assert reason(wide, taken(9, spread=0.25), 0.9e9) is None  # of so few nothing is foreseen
    assert reason(wide, taken(19, spread=0.05), 0.9e9) is None
    assert wide.is_due(10, 0.25e9, 0)
    assert not wide.is_due(9, 0.25e9, 0)
    assert not wide.is_due(10, 0.24e9, 0)
    strict = make(target=0.001, min_samples=20, max_samples=10_000, max_seconds=1)
    assert reason(strict, taken(40, spread=0.08), 0.5e9) is None  # it may be two speeds of a device
    assert reason(strict, taken(40, spread=0.1), 0.5e9) == "time"


def half_width(summary: Summary) -> float:
    return max(summary.high_ns - summary.median_ns, summary.median_ns - summary.low_ns) / summary.median_ns


def test_excluded_samples_do_not_count() -> None:
    assert reason(RULE, taken(19, excluded=5), 0) is None
    assert reason(RULE, taken(20, excluded=5), 0) == "interval"
    assert reason(RULE, taken(99, 0.5, excluded=5), 0) is None


def test_too_many_excluded_samples_end_it() -> None:
    assert reason(RULE, taken(0, excluded=59), 0) is None
    assert reason(RULE, taken(0, excluded=60), 0) == "excluded"
    assert reason(RULE, taken(5, excluded=60), 0) == "excluded"
    assert reason(RULE, taken(30, 0.5, excluded=60), 0) is None
    assert reason(RULE, taken(30, 0.5, excluded=90), 0) == "excluded"


@pytest.mark.parametrize(("confidence", "least"), [(0.95, 6), (0.5, 2), (0.999, 11)])
def test_too_few_samples_for_the_confidence_are_never_called_an_interval(confidence: float, least: int) -> None:
    rule = make(target=0.5, confidence=confidence, min_samples=1, max_samples=50)
    reasons = [reason(rule, taken(count), 0) for count in range(1, least + 1)]
    assert reasons == [None] * (least - 1) + ["interval"]
    assert reason(make(min_samples=1, max_samples=3), taken(3), 0) == "samples"


def test_looks_grow_apart() -> None:
    looks, last = [], 0
    for count in range(1, 2000):
        if make().is_due(count, 0.0, last):
            looks.append(count)
            last = count
    assert looks[0] == 20
    assert all(after >= 1.15 * before for before, after in pairwise(looks))
    assert 30 <= len(looks) <= 36


def test_a_look_is_due_at_every_bound() -> None:
    assert RULE.is_due(100, 0, 99)
    assert RULE.is_due(21, 1e9, 20)
    assert not RULE.is_due(21, 0, 20)


def test_narrowness_is_two_sided_and_relative() -> None:
    one_sided = [100.0] * 5 + [150.0] * 3
    assert not is_narrow(one_sided, 0.95, 0.4)
    assert is_narrow(one_sided, 0.95, 0.5)


@pytest.mark.parametrize("tick_ns", [0.0, 4.0])
def test_what_is_called_narrow_is_what_the_summary_tells(tick_ns: float) -> None:
    samples = [Sample(number, 100.0 + number % 7 * 4.0) for number in range(40)]
    told = summarise(samples, 0.95, tick_ns)
    half = max(told.high_ns - told.median_ns, told.median_ns - told.low_ns) / told.median_ns
    durations = [sample.duration_ns for sample in samples]
    assert is_narrow(durations, 0.95, half * 1.001, tick_ns)
    assert not is_narrow(durations, 0.95, half * 0.999, tick_ns)
