"""Sampling in rounds, on a session that takes no time but a fake clock's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise, repeat
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from cuprof.backends.contract import NOT_COLD, Draw, Frame, Reading
from cuprof.config.model import MeasureConfig
from cuprof.core.errors import LaunchError
from cuprof.core.records import DOUBT, Measure, Timing
from cuprof.worker import sampler
from cuprof.worker.sampler import HOT_BATCH_MOST, Sampler, Subject
from cuprof.worker.stopping import Race

OVERHEAD_NS = 1_000
configure = partial(MeasureConfig, warmup=1)
USUAL = configure(target=0.01, min_samples=20, max_samples=200, max_seconds=1e3, patience_seconds=1e4)


@dataclass
class Kernel:
    """A runnable whose durations are given; it repeats the last one."""

    durations: Iterable[float | Reading]
    steps: int = 1
    launch_phases: int = 1
    depth: int = 99
    batches: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = iter(self.durations)
        self._last: float | Reading = 0.0

    def next(self) -> Reading:
        self._last = next(self._left, self._last)
        return self._last if isinstance(self._last, Reading) else Reading(self._last)


class FakeSession:
    """Reads kernels and lets the clock go on by what they take.

    Attributes:
        depth: how many frames may be in flight.
        pending, most_pending: how many are, and the most that ever were.
    """

    def __init__(self, clock: FakeClock, depth: int = 1) -> None:
        self.clock, self.tick, self.depth = clock, 0.0, depth
        self.pending = self.most_pending = 0

    def in_flight(self, runnable: Kernel) -> int:
        return min(self.depth, runnable.depth)

    def tick_ns(self, measure: Measure) -> float:
        return self.tick

    def begin(
        self, runnable: Kernel, measure: Measure, batch: int = 1, draw: Callable[[], Draw] = lambda: Draw()
    ) -> Frame:
        draw()
        runnable.batches.append(batch)
        self.pending += 1
        self.most_pending = max(self.pending, self.most_pending)

        def finish() -> Reading:
            self.pending -= 1
            reading = runnable.next()
            self.clock.now_ns += int(reading.duration_ns) * batch + OVERHEAD_NS
            return reading

        return finish


class FakeClock:
    now_ns = 0

    def perf_counter_ns(self) -> int:
        return self.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(sampler, "perf_counter_ns", clock.perf_counter_ns)
    return clock


class Bench:
    """A sampler on the fake session, and what it attended to."""

    def __init__(self, clock: FakeClock, depth: int = 1, executions: Any = None, **settings: Any) -> None:
        self.attended: list[int] = []
        self.executions = executions or {}
        self.session = FakeSession(clock, depth)
        given = {"config": USUAL, "settle_ns": 0.0, "method": "m", "rng": np.random.default_rng(3)}
        self.sampler = Sampler(session=self.session, attend=self.attended.append, **{**given, **settings})

    def sample(self, *kernels: Kernel, measure: Measure = Measure.COLD) -> list[tuple[int, Timing]]:
        return list(self.sampler.sample(self.subjects(*kernels), measure))

    def subjects(self, *kernels: Kernel) -> list[Subject]:
        return [Subject(key, kernel, self.executions.get(key)) for key, kernel in enumerate(kernels)]  # type: ignore[arg-type]


@pytest.fixture
def bench(clock: FakeClock) -> Callable[..., Bench]:
    return lambda **settings: Bench(clock, **settings)


def noisy(median: float, spread: float, seed: int = 0) -> Iterator[float]:
    drawn = np.random.default_rng(seed)
    while True:
        yield float(median * drawn.normal(1, spread))


def test_every_round_has_each_active_trial_once_in_an_order_drawn_anew(bench: Callable[..., Bench]) -> None:
    one = bench(config=configure(target=1e-5, min_samples=20, max_samples=30))
    found = dict(one.sample(*(Kernel(noisy(1e4, 0.2, seed)) for seed in range(5))))
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert all([sample.round for sample in timing.samples] == list(range(30)) for timing in found.values())
    rounds = [tuple(one.attended[5 + 5 * number : 10 + 5 * number]) for number in range(30)]
    assert all(sorted(each) == [0, 1, 2, 3, 4] for each in rounds)
    assert len(set(rounds)) > 20


@pytest.mark.parametrize(
    ("duration_ns", "measure", "executions"),
    [(4e3, Measure.COLD, 8), (199e3, Measure.COLD, 8), (201e3, Measure.COLD, 1), (4e3, Measure.TOTAL, 1)],
)
def test_short_executions_of_several_launches_are_sampled_over_the_phases_of_the_launch_queue(
    bench: Callable[..., Bench], duration_ns: float, measure: Measure, executions: int
) -> None:
    several, one = Kernel([duration_ns], launch_phases=8), Kernel([duration_ns])
    timings = dict(bench(config=replace(USUAL, warmup=3)).sample(several, one, measure=measure))
    assert (set(several.batches[:3]), set(several.batches[3:])) == ({1}, {executions})
    assert set(one.batches) == {1}
    assert [timings[key].details["batch"] for key in (0, 1)] == [executions, 1]


class FakeExecutions:
    """Keeps what it was asked for and told, in order."""

    def __init__(self, clock: FakeClock | None = None, *, is_fetched: bool = False) -> None:
        self.clock, self.is_fetched = clock, is_fetched
        self.dealt = 0
        self.settled: list[int] = []

    def deal(self) -> Draw:
        self.dealt += 1
        return Draw()

    def settle(self, spent_ns: int) -> None:
        self.settled.append(spent_ns)
        if self.clock:
            self.clock.now_ns += 10**6


FIVE = configure(target=1e-5, min_samples=5, max_samples=5)


@pytest.mark.parametrize("depth", [1, 3])
def test_every_reading_is_dealt_and_settled_warm_up_included(bench: Callable[..., Bench], depth: int) -> None:
    both: Any = {0: FakeExecutions(), 1: FakeExecutions()}
    one = bench(executions=both, config=replace(FIVE, warmup=2), depth=depth)
    found = dict(one.sample(Kernel([1e4]), Kernel([3e4])))
    assert [each.dealt for each in both.values()] == [len(each.settled) for each in both.values()] == [7, 7]
    assert [{*each.settled} for each in both.values()] == [{11_000}, {31_000}]
    assert [found[key].details["sampling_ns"] for key in (0, 1)] == [5 * 11_000, 5 * 31_000]


def test_what_settling_takes_is_not_laid_to_the_sampling(bench: Callable[..., Bench], clock: FakeClock) -> None:
    ((_, timing),) = bench(executions={0: FakeExecutions(clock)}, config=FIVE).sample(Kernel([1e4]))
    assert timing.details["sampling_ns"] == 5 * 11_000


def test_as_many_frames_are_in_flight_as_the_session_allows_and_none_at_a_look(bench: Callable[..., Bench]) -> None:
    one = bench(depth=4, config=configure(target=1e-5, min_samples=20, max_samples=30))
    left = []
    kernels = [Kernel(noisy(1e4, 0.2, seed)) for seed in range(3)]
    for _, timing in one.sampler.sample(one.subjects(*kernels), Measure.COLD):
        left.append(one.session.pending)
        assert [sample.round for sample in timing.samples] == list(range(30))
    assert one.session.most_pending == 4
    assert left == [0, 0, 0]


def test_host_code_and_results_that_are_fetched_have_the_device_for_themselves(bench: Callable[..., Bench]) -> None:
    pending: list[int] = []
    one = bench(depth=4, config=FIVE, executions={1: FakeExecutions(is_fetched=True)})

    class Host(Kernel):
        def next(self) -> Reading:
            pending.append(one.session.pending)
            return super().next()

    one.sample(Kernel([1e4]), Host([1e4]), Host([1e4], depth=1))
    assert {*pending} == {0}


def test_the_first_frame_that_fails_names_the_trial_at_fault(bench: Callable[..., Bench]) -> None:
    class Failing(Kernel):
        def next(self) -> Reading:
            if len(self.batches) > 5:
                raise LaunchError("illegal address")
            return super().next()

    one = bench(depth=4)
    begin = one.session.begin

    def refuse(runnable: Kernel, *given: Any) -> Frame:
        if any(len(kernel.batches) > 5 for kernel in kernels if isinstance(kernel, Failing)):
            raise LaunchError("an earlier one failed")  # as a context does that was lost
        return begin(runnable, *given)

    one.session.begin = refuse  # type: ignore[method-assign]
    kernels = [Kernel([1e4]), Failing([1e4]), Kernel([1e4])]
    with pytest.raises(LaunchError, match="illegal address"):
        one.sample(*kernels)
    assert one.attended[-1] == 1
    assert one.session.pending == 0, "frames behind it are waited for"


def test_a_race_stops_what_is_established_to_be_slower_and_nothing_else(bench: Callable[..., Bench]) -> None:
    config = configure(target=1e-4, min_samples=20, max_samples=200, race=True)
    race = Race()
    kernels = [Kernel(noisy(median, 0.003, seed)) for seed, median in enumerate((1e4, 1.005e4, 1.1e4, 2e4))]
    found = dict(bench(config=config, race=race).sample(*kernels))
    assert [found[key].stopped_by for key in range(4)] == ["samples", "samples", "slower", "slower"]
    assert all(8 <= len(found[key].samples) < 20 for key in (2, 3))
    ((_, later),) = bench(config=config, race=race).sample(Kernel(noisy(1.1e4, 0.003, 9)))
    assert later.stopped_by == "slower", "the best of an earlier job of the problem counts"
    ((_, free),) = bench(config=replace(config, race=False)).sample(Kernel(noisy(2e4, 0.003, 9)))
    assert free.stopped_by == "samples"


def test_the_best_of_a_race_does_not_lose_to_what_it_was_before_its_host_became_slower(
    bench: Callable[..., Bench],
) -> None:
    config = configure(target=1e-4, min_samples=20, max_samples=40, race=True)
    slowed = [*islice(noisy(1e4, 0.003), 11), *islice(noisy(1.2e4, 0.003), 60)]
    found = dict(bench(config=config, race=Race()).sample(Kernel(slowed), Kernel(noisy(3e4, 0.003))))
    assert [found[key].stopped_by for key in range(2)] == ["samples", "slower"]


@pytest.mark.parametrize(("honest", "doubted"), [(0, True), (1, False)])
def test_where_no_sample_was_cold_the_timing_says_so(bench: Callable[..., Bench], honest: int, doubted: bool) -> None:
    suspect = f"{NOT_COLD}: 0 ns, not 50000"
    readings = [Reading(1e4)] * (1 + honest) + [Reading(1.0, None, suspect)] * 300
    ((_, timing),) = bench().sample(Kernel(readings))
    assert timing.details.get(DOUBT) == (suspect if doubted else None)
    assert timing.stopped_by == "excluded"


def test_the_order_of_rounds_follows_the_generator(bench: Callable[..., Bench]) -> None:
    def orders(seed: int) -> list[int]:
        one = bench(rng=np.random.default_rng(seed))
        one.sample(*(Kernel([1e4]) for _ in range(6)))
        return one.attended

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_a_trial_leaves_as_soon_as_its_interval_is_narrow(bench: Callable[..., Bench]) -> None:
    one = bench()
    found = one.sample(Kernel(noisy(1e4, 0.5)), Kernel(repeat(1e4)), Kernel(noisy(1e4, 0.02, 4)))
    assert [key for key, _ in found] == [1, 2, 0]
    timings = dict(found)
    assert (len(timings[1].samples), timings[1].stopped_by) == (20, "interval")
    assert timings[2].stopped_by == "interval"
    assert 20 < len(timings[2].samples) < 200
    assert (len(timings[0].samples), timings[0].stopped_by) == (200, "samples")


def test_a_timing_is_yielded_before_the_others_go_on(bench: Callable[..., Bench]) -> None:
    one = bench()
    sampled = one.sampler.sample(one.subjects(Kernel(noisy(1e4, 0.5)), Kernel([1e4])), Measure.COLD)
    assert next(sampled)[0] == 1
    assert one.attended.count(0) == 21


def test_summary_and_details(bench: Callable[..., Bench]) -> None:
    ((_, timing),) = bench().sample(Kernel([1e4]))
    assert (timing.measure, timing.method, timing.summary.median_ns) == (Measure.COLD, "m", 1e4)
    assert timing.details == {"batch": 1, "tick_ns": 0.0, "sampling_ns": 20 * (10_000 + OVERHEAD_NS)}


def test_suspect_samples_are_left_out_and_repeated(bench: Callable[..., Bench]) -> None:
    readings = [Reading(9e6, suspect="held up") if number % 3 == 0 else Reading(1e4) for number in range(100)]
    ((_, timing),) = bench().sample(Kernel(readings))
    assert timing.stopped_by == "interval"
    assert 20 <= timing.summary.count <= 23
    assert timing.summary.max_ns == 1e4
    excluded = [sample for sample in timing.samples if sample.excluded]
    assert len(excluded) == timing.summary.excluded > 5
    assert {(sample.duration_ns, sample.excluded) for sample in excluded} == {(9e6, "held up")}


def test_samples_at_a_slow_clock_are_left_out_and_repeated(bench: Callable[..., Bench]) -> None:
    readings = [Reading(1e4, 1900.0)] * 15 + [Reading(2e4, 950.0)] * 10 + [Reading(1e4, 1900.0)] * 100
    ((_, timing),) = bench().sample(Kernel(readings))
    assert timing.summary.excluded == 10
    assert timing.summary.count >= 20
    assert timing.summary.max_ns == 1e4
    assert {sample.excluded for sample in timing.samples} == {"", "SM clock 950 MHz, median 1900 MHz"}
    assert timing.details["median_sm_clock_mhz"] == 1900.0


def test_the_clock_tolerance_decides_and_faster_clocks_count(bench: Callable[..., Bench]) -> None:
    readings = [Reading(1e4, mhz) for mhz in (1000.0, 951.0, 949.0, 1200.0, 1000.0)] * 30
    ((_, timing),) = bench(config=replace(USUAL, clock_tolerance=0.05)).sample(Kernel(readings))
    assert {sample.sm_clock_mhz for sample in timing.samples if sample.excluded} == {949.0}
    ((_, timing),) = bench(config=replace(USUAL, clock_tolerance=0.2)).sample(Kernel(readings))
    assert timing.summary.excluded == 0


def test_the_median_clock_is_that_of_all_trials(bench: Callable[..., Bench]) -> None:
    dip = Kernel([Reading(1e4, 900.0)] * 21 + [Reading(1e4, 1900.0)])
    found = dict(bench().sample(dip, *(Kernel([Reading(1e4, 1900.0)]) for _ in range(3))))
    assert found[0].summary.excluded == 20
    assert found[0].summary.count >= 20
    assert all(found[key].summary.excluded == 0 for key in (1, 2, 3))


def test_throttled_rounds_are_left_out(bench: Callable[..., Bench]) -> None:
    class Monitor:
        state: ClassVar[dict[str, Any]] = {
            "temperature_c": 80, "power_w": 400.0, "throttle_reasons": ["hardware slowdown"],
        }  # fmt: skip
        sm_clock_mhz = 1980.0
        rounds = 0

        @property
        def throttled(self) -> str:
            return "throttled: hardware slowdown" if self.rounds <= 8 else ""

        def refresh(self) -> None:
            self.rounds += 1

    found = dict(bench(monitor=Monitor()).sample(Kernel([1e4]), Kernel([2e4])))
    for timing in found.values():
        assert [sample.round for sample in timing.samples if sample.excluded] == list(range(8))
        assert timing.summary.count >= 20
        assert timing.details["throttle_reasons"] == ["hardware slowdown"]
        assert (timing.details["temperature_c"], timing.details["power_w"]) == (80, 400.0)


def test_where_every_sample_was_excluded_they_count_and_the_row_says_so(bench: Callable[..., Bench]) -> None:
    ((_, timing),) = bench().sample(Kernel([Reading(1e4, suspect="synchronises")]))
    assert timing.stopped_by == "excluded"
    assert timing.summary.count == len(timing.samples) >= 60
    assert not any(sample.excluded for sample in timing.samples)


def test_where_most_samples_were_excluded_the_rest_count(bench: Callable[..., Bench]) -> None:
    readings = [Reading(1e4)] * 6 + [Reading(9e4, suspect="synchronises")] * 100
    ((_, timing),) = bench().sample(Kernel(readings))
    assert (timing.stopped_by, timing.summary.count) == ("excluded", 5)
    assert timing.summary.excluded >= 60
    assert timing.summary.max_ns == 1e4


def test_patience_ends_long_executions_below_the_minimum_and_says_so(bench: Callable[..., Bench]) -> None:
    one = bench(config=configure(max_seconds=1, patience_seconds=10))
    found = dict(one.sample(Kernel([3e9]), Kernel([1e4])))
    assert (found[0].stopped_by, found[0].summary.count) == ("time", 4)
    assert (found[1].stopped_by, found[1].summary.count) == ("interval", 20)


def test_past_the_time_bound_as_many_are_taken_as_make_an_interval(bench: Callable[..., Bench]) -> None:
    one = bench(config=configure(target=1e-5, max_seconds=1e-3, patience_seconds=10))
    ((_, timing),) = one.sample(Kernel(noisy(1e6, 0.1)))
    assert (timing.stopped_by, timing.summary.count) == ("time", 6)


@pytest.mark.parametrize("measure", list(Measure))
def test_warm_up_runs_as_often_as_asked_and_leaves_no_sample(bench: Callable[..., Bench], measure: Measure) -> None:
    kernel = Kernel([5e6] * 7 + [1e4] * 20)
    ((_, timing),) = bench(config=replace(USUAL, warmup=7)).sample(kernel, measure=measure)
    assert timing.summary.max_ns == 1e4
    assert len(kernel.batches) == 27


def test_warm_up_of_long_executions_is_cut_short(bench: Callable[..., Bench]) -> None:
    kernel = Kernel([6e7])
    bench(config=configure(warmup=50, patience_seconds=0.05)).sample(kernel)
    assert len(kernel.batches) == 3


@pytest.mark.parametrize(("patience_s", "count"), [(3, 1), (9, 3)])
def test_an_execution_that_is_longer_than_warming_up_counts(
    bench: Callable[..., Bench], patience_s: float, count: int
) -> None:
    kernel = Kernel([3e9, 4e9, 5e9])
    ((_, timing),) = bench(config=configure(patience_seconds=patience_s)).sample(kernel)
    assert [sample.duration_ns for sample in timing.samples] == [3e9, 4e9, 5e9][:count]
    assert [sample.round for sample in timing.samples] == [-1, 0, 1][:count]
    assert len(kernel.batches) == count


def test_the_device_works_for_a_while_before_the_first_sample(bench: Callable[..., Bench]) -> None:
    kernels = [Kernel([1e4]), Kernel([1e4])]
    bench(settle_ns=1e6).sample(*kernels)
    warm = [len(kernel.batches) - 20 for kernel in kernels]
    assert sum(warm) * (10_000 + OVERHEAD_NS) >= 1e6
    assert warm[0] == warm[1] > 40


@pytest.mark.parametrize(
    ("duration", "steps", "batch"),
    [(1e3, 1, 101), (10.0, 1, HOT_BATCH_MOST), (1e3, 10, 50), (1e6, 1, 1), (0.0, 1, 256)],
)
def test_hot_batches_last_long_enough_and_fit_the_queue(
    bench: Callable[..., Bench], duration: float, steps: int, batch: int
) -> None:
    kernel = Kernel([duration], steps)
    ((_, timing),) = bench(config=replace(USUAL, warmup=2)).sample(kernel, measure=Measure.HOT)
    assert kernel.batches == [1, 1, *[batch] * 20]
    assert timing.details["batch"] == batch


def test_each_execution_is_attended_before_it_begins(bench: Callable[..., Bench]) -> None:
    class CrashError(Exception):
        pass

    def crashing() -> Iterator[float]:
        yield from [1e4] * 5
        raise CrashError

    one = bench()
    with pytest.raises(CrashError):
        one.sample(Kernel([1e4]), Kernel(crashing()), Kernel([1e4]))
    assert one.attended[-1] == 1


def test_nothing_to_sample_is_nothing(bench: Callable[..., Bench]) -> None:
    assert bench(settle_ns=1e9).sample() == []


def test_rounds_go_on_without_those_that_left(bench: Callable[..., Bench]) -> None:
    one = bench()
    one.sample(Kernel([1e4]), Kernel(noisy(1e4, 0.5)))
    last = max(index for index, key in enumerate(one.attended) if key == 0)
    assert set(one.attended[last + 2 :]) == {1}
    assert all(after >= before for before, after in pairwise([last, len(one.attended)]))


def test_the_details_hold_no_clock_where_none_was_read(bench: Callable[..., Bench]) -> None:
    monitor = SimpleNamespace(
        state={"temperature_c": None, "power_w": None, "throttle_reasons": []},
        throttled="",
        sm_clock_mhz=None,
        refresh=lambda: None,
    )
    ((_, timing),) = bench(monitor=monitor).sample(Kernel([1e4]))
    assert "median_sm_clock_mhz" not in timing.details
    assert timing.details["throttle_reasons"] == []


@pytest.mark.parametrize(("measure", "clocks"), [(Measure.COLD, {1980.0}), (Measure.TOTAL, {None})])
def test_where_a_back_end_reads_no_clock_nvml_tells_it(
    bench: Callable[..., Bench], measure: Measure, clocks: set[float | None]
) -> None:
    monitor = SimpleNamespace(
        state={"temperature_c": None, "power_w": None, "throttle_reasons": []},
        throttled="",
        sm_clock_mhz=1980.0,
        refresh=lambda: None,
    )
    ((_, timing),) = bench(monitor=monitor).sample(Kernel([1e4]), measure=measure)
    assert {sample.sm_clock_mhz for sample in timing.samples} == clocks
    ((_, timing),) = bench(monitor=monitor).sample(Kernel([Reading(1e4, 1700.0)]))
    assert {sample.sm_clock_mhz for sample in timing.samples} == {1700.0}


def test_nvml_tells_of_samples_at_a_low_clock(bench: Callable[..., Bench]) -> None:
    class Monitor:
        state, throttled, rounds = {"temperature_c": None, "power_w": None, "throttle_reasons": []}, "", 0

        @property
        def sm_clock_mhz(self) -> float:
            return 900.0 if self.rounds <= 5 else 1900.0

        def refresh(self) -> None:
            self.rounds += 1

    ((_, timing),) = bench(monitor=Monitor()).sample(Kernel([1e4]))
    assert timing.summary.excluded == 5
    assert timing.samples[0].excluded == "SM clock 900 MHz, median 1900 MHz"


def test_timings_of_one_call_share_a_rotation_and_those_of_another_do_not(clock: FakeClock) -> None:
    bench = Bench(clock)
    first = [timing.rotation for _, timing in bench.sample(Kernel([50.0]), Kernel([60.0]))]
    second = [timing.rotation for _, timing in bench.sample(Kernel([50.0]))]
    assert first[0] == first[1] != second[0] != ""


@pytest.mark.parametrize("tick", [0.0, 32.0])
def test_a_short_kernel_is_sampled_until_the_timers_tick_does_not_matter(
    bench: Callable[..., Bench], tick: float
) -> None:
    one = bench(config=configure(target=0.01, max_seconds=1e3, patience_seconds=1e4))
    one.sampler.session.tick = tick  # type: ignore[attr-defined]
    ((_, timing),) = one.sample(Kernel([960.0]))
    assert timing.stopped_by == "interval"
    assert timing.details["tick_ns"] == tick
    half_width = timing.summary.high_ns - timing.summary.median_ns
    assert half_width <= 0.01 * 960
    assert (timing.summary.count > 20, half_width > 0) == (tick > 0, tick > 0)
