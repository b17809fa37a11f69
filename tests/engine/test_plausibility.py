"""Below what a device can do there is no time: each floor, and what honest measurements leave of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from cuprof.core.records import Calibration, Measure, Outcome, Sample, State, Timing, Trial
from cuprof.engine.calibration import EMPTY_CALL_NS, EMPTY_LAUNCH_NS, Plausibility
from cuprof.families import Point
from cuprof.statistics.median import summarise

MB = 1 << 20
H200 = Calibration("cuda", 4.6e12, details={"cache_bandwidth": 9e12, "fma_rate": 6e13})
HOST = Calibration("cpu", 97e9)
NAN = math.nan


def make_trial(useful_bytes: int | None = None, flops: int | None = None) -> Trial:
    return Trial(
        "0" * 32, "f", "v", "cuda", "kernel", Point(), Point(), "f/v", useful_bytes=useful_bytes, flops=flops
    )  # fmt: skip


def make_outcome(median_ns: float, measure: Measure = Measure.COLD, state: State = State.OK) -> Outcome:
    samples = tuple(Sample(number, 1.0) for number in range(3))
    summary = replace(summarise(samples), median_ns=median_ns)
    timing = Timing(measure, "m", samples, summary, "samples")
    return Outcome("0" * 32, state, timings=(timing,))


def judge(
    median_ns: float,
    measure: Measure = Measure.COLD,
    *,
    of: Plausibility | None = None,
    outputs: int = 0,
    **trial: Any,
) -> Outcome:
    judged = of or Plausibility(False, H200, 50 * MB)
    return judged.judge(make_trial(**trial), make_outcome(median_ns, measure), outputs)


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("median_ns", [0.0, -0.0, -5.0, 1.0, EMPTY_LAUNCH_NS - 1, NAN])
def test_nothing_takes_less_than_an_empty_launch(median_ns: float, measure: Measure) -> None:
    for plausibility in (Plausibility(False), Plausibility(False, H200)):
        found = judge(median_ns, measure, of=plausibility)
        assert found.state is State.IMPLAUSIBLE
        assert found.message.startswith(f"{measure.value} time ")
        assert "is impossible: an empty launch takes 125 ns at least" in found.message
        assert len(found.timings) == 1  # its samples are kept
    assert judge(EMPTY_LAUNCH_NS, measure).state is State.OK


def test_on_a_host_nothing_takes_less_than_an_empty_call() -> None:
    host = Plausibility(True, HOST)
    found = judge(EMPTY_CALL_NS - 1, of=host)
    assert (found.state, "a call that does nothing takes 15 ns" in found.message) == (State.IMPLAUSIBLE, True)
    assert judge(EMPTY_CALL_NS, of=host).state is State.OK


def test_memory_is_not_read_faster_than_it_was_measured() -> None:
    useful = 1 << 30
    shortest = useful / (4.6e12 * 1.15) * 1e9
    found = judge(0.99 * shortest, useful_bytes=useful)
    assert found.state is State.IMPLAUSIBLE
    assert "moving 1074 MB takes 203 µs even at 1.15 times the memory's measured bandwidth (4600 GB/s)" in found.message
    assert judge(1.01 * shortest, useful_bytes=useful).state is State.OK


def test_results_may_stay_in_the_cache_as_far_as_it_goes() -> None:
    useful = 1 << 30
    for outputs, may_stay in ((20 * MB, 20 * MB), (useful // 2, 50 * MB)):
        shortest = (useful - may_stay) / (4.6e12 * 1.15) * 1e9
        assert judge(0.99 * shortest, useful_bytes=useful, outputs=outputs).state is State.IMPLAUSIBLE
        assert judge(1.01 * shortest, useful_bytes=useful, outputs=outputs).state is State.OK


@pytest.mark.parametrize(
    ("plausibility", "measure"),
    [
        (Plausibility(False, H200, 50 * MB), Measure.HOT),
        (Plausibility(False, H200, 50 * MB, flushed=False), Measure.COLD),
    ],
)
def test_what_may_lie_in_the_cache_is_held_to_the_caches_bandwidth(
    plausibility: Plausibility, measure: Measure
) -> None:
    shortest = 30 * MB / (9e12 * 1.5) * 1e9
    found = judge(0.99 * shortest, measure, of=plausibility, useful_bytes=30 * MB)
    assert found.state is State.IMPLAUSIBLE
    assert "the cache's measured bandwidth (9000 GB/s)" in found.message
    assert judge(1.01 * shortest, measure, of=plausibility, useful_bytes=30 * MB).state is State.OK


def test_arithmetic_beyond_tensor_cores_and_saved_operations_is_impossible() -> None:
    flops = 10**12
    shortest = flops / (6e13 * 64) * 1e9
    found = judge(0.99 * shortest, flops=flops)
    assert found.state is State.IMPLAUSIBLE
    assert "its 1e+12 operations take 260.4 µs even at 64 times the measured rate of 60 TFLOP/s" in found.message
    assert judge(1.01 * shortest, flops=flops).state is State.OK


@pytest.mark.parametrize(
    ("median_ns", "useful_bytes", "flops", "outputs"),
    [
        (17_277, 67_108_868, 16_777_215, 4),  # sums of 2^24 numbers in one pass: nearest to the roof of all studies
        (32_047, 67_076_220, 226_050_264, 33_538_110),  # a stencil
        (700, 4_096, 4_096, 2_048),  # smaller than any latency
        (180_000, 50 * MB, 137_438_953_472, 16 * MB),  # a product of matrices by tensor cores
    ],
)
def test_what_was_measured_honestly_on_an_h200_is_believed(
    median_ns: float, useful_bytes: int, flops: int, outputs: int
) -> None:
    assert judge(median_ns, useful_bytes=useful_bytes, flops=flops, outputs=outputs).state is State.OK


def test_a_hosts_memory_is_allowed_to_be_much_faster_than_measured_beside_other_work() -> None:
    host = Plausibility(True, HOST)
    assert judge(1e9 * 400 * MB / (5 * 97e9), of=host, useful_bytes=400 * MB).state is State.OK
    assert judge(1e9 * 400 * MB / (10 * 97e9), of=host, useful_bytes=400 * MB).state is State.IMPLAUSIBLE


def test_without_a_calibration_or_stated_work_only_the_empty_launch_is_a_floor() -> None:
    assert judge(200.0, of=Plausibility(False), useful_bytes=1 << 40, flops=1 << 60).state is State.OK
    assert judge(200.0).state is State.OK
    assert judge(200.0, of=Plausibility(False, Calibration("cuda"))).state is State.OK


def test_any_of_the_measures_is_enough_and_other_endings_stay_what_they_are() -> None:
    cold, hot = make_outcome(10_000.0), make_outcome(0.0, Measure.HOT)
    both = Outcome("0" * 32, State.OK, timings=(*cold.timings, *hot.timings))
    found = Plausibility(False).judge(make_trial(), both, 0)
    assert (found.state, found.message.startswith("hot time 0 ns")) == (State.IMPLAUSIBLE, True)
    wrong = make_outcome(0.0, state=State.WRONG_RESULT)
    assert Plausibility(False, H200).judge(make_trial(), wrong, 0) is wrong
