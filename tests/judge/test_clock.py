"""What the trusted side's clock makes of requests that take as long as a candidate likes: they are invented here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuprof.config.model import MeasureConfig
from cuprof.core.records import Measure, State
from cuprof.judge.border.signals import SECOND, Ask
from cuprof.judge.border.suspect import MOST_STIRS, Lap
from cuprof.judge.clock import FEW_SETS, FRESH_DRAWS, Clock, Round
from cuprof.judge.examiner import FoundError
from cuprof.judge.sets import SPARE, Trips

COUNT, EXECUTION_NS, TRIP_NS, CHANGE_NS, FLUSH_NS = 256, 5_000.0, 30_000.0, 130_000.0, 85_000
LONG = 40
SLACK_NS = 350.0
"""docs/judging.md says how much of an execution may be hidden."""
Durations = Callable[[Sequence[int]], list[float]]


def honest(counts: Sequence[int]) -> list[float]:
    """Return what requests take: the first one has the device's change to the candidate."""
    return [CHANGE_NS * (number == 0) + TRIP_NS + count * EXECUTION_NS for number, count in enumerate(counts)]


def all_at_first(counts: Sequence[int]) -> list[float]:
    """Return what they take if the first one executes what all will ask for."""
    first, *others = honest([0] * len(counts))
    return [first + sum(counts) * EXECUTION_NS, *others]


def late_second(counts: Sequence[int]) -> list[float]:
    """Return what they take if the second one waits, so that the slope is nought."""
    first, *others = honest(counts)
    return [first, *[max(honest(counts))] * len(others)]


def side_by_side(counts: Sequence[int]) -> list[float]:
    """Return what they take if 64 executions take no longer than one, which takes long."""
    return honest([-(-count // 64) * LONG for count in counts])


def empty_unless_checked(counts: Sequence[int]) -> list[float]:
    """Return what they take if one alone is left out where other requests will find its results."""
    return honest([LONG] * 2) if SECOND in counts else side_by_side([each * (each > 1) for each in counts])


def make_clock(durations: Durations, round_trip: Durations = honest, scatter_ns: float = 0.0) -> Clock:
    rng = np.random.default_rng(7)

    def laps(counts: Sequence[int], take: Durations) -> list[Lap]:
        return [Lap(int(each + rng.normal(0, scatter_ns * (number == 0)))) for number, each in enumerate(take(counts))]

    config = MeasureConfig(
        modes=("cold",), settle_seconds=0.0, min_samples=20, max_samples=40, max_seconds=1e3, patience_seconds=1e3
    )
    none: Any = lambda *_, **__: None  # noqa: E731
    suspect = SimpleNamespace(
        spins=True,
        clock=lambda ask, counts, limit_s, look: laps(counts, durations if ask == Ask.EXECUTE else round_trip),
    )
    sets = SimpleNamespace(
        kind="cuda",
        count=COUNT,
        task=SimpleNamespace(count=COUNT),
        pool=SimpleNamespace(trips=Trips()),
        memory=SimpleNamespace(wait=none),
        was_there=lambda: True,
        flush=lambda how: FLUSH_NS,
        take=lambda count: SimpleNamespace(cut=none),
        **dict.fromkeys(("look", "draw_early", "repeat", "have", "give"), none),
    )
    job = SimpleNamespace(measure=config, methods={Measure.COLD: "method"}, extension=None, backend="cuda")
    examiner = SimpleNamespace(check_some=lambda count: False, check_known=none, check_new=none)
    clock = Clock(job, sets, suspect, examiner, 1.0)  # type: ignore[arg-type]
    clock.set()
    return clock


def find_median(*words: Any, **settings: float) -> float:
    return make_clock(*words, **settings).time(Measure.COLD).summary.median_ns


def test_it_is_the_slope() -> None:
    assert find_median(honest) == pytest.approx(EXECUTION_NS, abs=1)


def test_how_long_the_device_takes_to_change_does_not_matter() -> None:
    timing = make_clock(honest, scatter_ns=20_000.0).time(Measure.COLD)
    assert timing.summary.high_ns - timing.summary.low_ns < 2


@pytest.mark.parametrize("cheat", [all_at_first, late_second], ids=lambda cheat: cheat.__name__)
def test_time_that_is_shifted_between_requests_counts(cheat: Durations) -> None:
    timing = make_clock(cheat).time(Measure.COLD)
    assert timing.summary.median_ns > EXECUTION_NS - SLACK_NS
    assert timing.details["held_to_requests"]


def test_executions_side_by_side_count_as_one_alone() -> None:
    assert find_median(side_by_side) > 0.5 * LONG * EXECUTION_NS


def test_short_executions_side_by_side_in_a_graph_count_as_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "LONG", 6)
    clock = make_clock(side_by_side)
    clock.is_graph = True
    assert clock.time(Measure.COLD).summary.median_ns == pytest.approx(6 * EXECUTION_NS)


def test_one_alone_that_is_left_out_where_nothing_tells_hides_nothing() -> None:
    clock = make_clock(empty_unless_checked)
    assert clock.time(Measure.COLD).summary.median_ns < 0.5 * LONG * EXECUTION_NS
    clock.job.extension = "a stranger's"  # type: ignore[misc, assignment]
    assert clock.time(Measure.COLD).summary.median_ns == pytest.approx(LONG * EXECUTION_NS)


def test_two_at_once_count_as_one_alone() -> None:
    clock = make_clock(honest)
    clock.sets.kind, clock.suspect.spins = "host", False
    long_ns, rounds = 4_000_000, list[Round]()
    for _ in range(20):
        one, many = Lap(long_ns), Lap(COUNT // 2 * long_ns)
        rounds.append(Round(many, (one,), (many.duration_ns - one.duration_ns) / (COUNT - 1), True))
    assert clock._conclude(Measure.COLD, rounds, "enough").summary.median_ns > 0.9 * long_ns


def test_one_alone_that_was_remembered_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for one alone takes as long as its trip where its contents have been met."""
    clock, long_ns = make_clock(honest), 4_000_000
    clock.sets.kind, clock.suspect.spins, clock.job.extension = "host", False, "a stranger's"  # type: ignore[misc, assignment]
    had: list[Any] = []

    def lap(counts: tuple[int, ...], flush: str) -> list[Lap]:
        is_new = bool(had) and had[-1] == "by itself"
        return [Lap(COUNT // 8 * long_ns if counts[0] > 1 else long_ns if is_new else 30_000)]

    monkeypatch.setattr(clock, "_lap", lap)
    monkeypatch.setattr(clock.sets, "take", lambda count: SimpleNamespace(cut=lambda first, count: "by itself"))
    monkeypatch.setattr(clock.sets, "have", lambda draw, count: had.append(draw))
    monkeypatch.setattr(clock.sets, "repeat", lambda count: had.append("met"))
    assert clock.time(Measure.COLD).summary.median_ns > 0.9 * long_ns


def test_one_alone_that_went_on_before_it_was_asked_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take no time then; where others have the processors, no lap is sound."""
    clock, long_ns, asked = make_clock(honest), 4_000_000, list[int]()
    clock.sets.kind, clock.suspect.spins, clock.job.extension = "host", False, "a stranger's"  # type: ignore[misc, assignment]

    def lap(counts: tuple[int, ...], flush: str) -> list[Lap]:
        asked.extend(counts)
        is_stirred = asked.count(1) == 2
        return [Lap(30_000 if is_stirred else long_ns, is_sound=False, is_stirred=is_stirred)]

    monkeypatch.setattr(clock, "_lap", lap)
    clock.draw = clock.sets.take(COUNT)
    assert clock._time_alone(long_ns / 8, COUNT, "none") > 0.9 * long_ns


def test_more_executions_alone_are_asked_for_than_may_be_disturbed_by_its_own_processes() -> None:
    assert FRESH_DRAWS * SPARE["host"] > MOST_STIRS


@pytest.mark.parametrize("count", [1, 2, FEW_SETS - 1])
@pytest.mark.parametrize("kind", ["cuda", "host"])
def test_of_few_sets_the_round_trip_is_taken_out_and_no_delay(kind: str, count: int) -> None:
    def delayed(counts: Sequence[int]) -> list[float]:
        return [each + 20_000 * (many == 1) for each, many in zip(honest(counts), counts, strict=True)]

    for durations in (honest, delayed) if count > 1 else (honest,):
        clock = make_clock(durations)
        clock.sets.count, clock.sets.kind, clock.suspect.spins = count, kind, kind == "cuda"
        assert clock.time(Measure.COLD).summary.median_ns == pytest.approx(EXECUTION_NS, abs=1)


@pytest.mark.parametrize("count", [1, COUNT])
def test_where_round_trips_were_disturbed_none_is_left_out(count: int) -> None:
    clock = make_clock(
        late_second if count > 1 else honest, lambda counts: [each + 2_000_000 for each in honest(counts)]
    )
    clock.sets.count = count
    whole_ns = sum(late_second([1, 1, count])) / (count + 2) if count > 1 else TRIP_NS + CHANGE_NS + EXECUTION_NS
    timing = clock.time(Measure.COLD)
    assert timing.summary.median_ns == pytest.approx(whole_ns, rel=0.01)
    assert timing.details["held_to_requests"]


@pytest.mark.parametrize("cpu_ns", [2_000_000, None], ids=["while other threads waste processors", "plainly"])
def test_results_that_are_remembered_are_found(monkeypatch: pytest.MonkeyPatch, cpu_ns: int | None) -> None:
    clock = make_clock(honest)
    clock.sets.kind, clock.suspect.spins = "host", False
    known = Lap(1_000_000, 0, cpu_ns)
    monkeypatch.setattr(clock, "_lap", lambda counts, flush: [known])
    clock.time(Measure.COLD)
    monkeypatch.setattr(clock, "_read_new", lambda count, flush: Lap(2_100_000, 0, cpu_ns))
    with pytest.raises(FoundError, match=r"it remembers results: an execution takes 8\.20 µs on inputs that are new"):
        clock.time(Measure.COLD)


def test_slow_rounds_that_do_not_count_hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = make_clock(honest)
    clock.sets.kind, clock.suspect.spins = "host", False
    monkeypatch.setattr(clock, "_lap", lambda counts, flush: [Lap(1_000_000)])
    clock.time(Measure.COLD)
    laps = cycle([*[Lap(2_100_000, is_sound=False)] * 3, *[Lap(1_000_000)] * 2])
    monkeypatch.setattr(
        clock, "_read_round", lambda count, flush: Round(lap := next(laps), (lap,), 4000.0, lap.is_sound)
    )
    monkeypatch.setattr(clock, "_read_new", lambda count, flush: Lap(2_100_000))
    with pytest.raises(FoundError, match=r"it remembers results: .* 8\.20 µs on inputs that are new, 3\.91 µs"):
        clock.time(Measure.COLD)


def test_where_others_had_the_processors_nobody_is_accused_and_nobody_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = make_clock(honest)
    clock.sets.kind, clock.suspect.spins = "host", False
    monkeypatch.setattr(clock, "_lap", lambda counts, flush: [Lap(1_000_000)])
    monkeypatch.setattr(clock, "_read_new", lambda count, flush: Lap(2_100_000, 0, None, is_quiet=False))
    clock.time(Measure.COLD)  # the family's own
    clock.job.extension = "a stranger's"  # type: ignore[misc, assignment]
    with pytest.raises(FoundError, match=r"the host was busy with other work, .* judge it again") as raised:
        clock.time(Measure.COLD)
    assert raised.value.state is State.SKIPPED


def test_new_contents_are_drawn_again_where_a_thread_waited_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, taken = make_clock(honest), list[int]()
    laps = iter([Lap(1_000_000), Lap(9_000_000, is_quiet=False), Lap(1_000_000), Lap(1_100_000)])
    monkeypatch.setattr(clock.sets, "take", taken.append)
    monkeypatch.setattr(clock, "_counts", lambda count: (count,))
    monkeypatch.setattr(clock, "_lap", lambda counts, flush: [next(laps)])
    assert clock._read_new(COUNT, "none").duration_ns == 1_100_000
    assert len(taken) == 2


def test_new_contents_are_drawn_again_where_the_process_went_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = make_clock(honest)
    busy, stirred = (Lap(1_000_000 + each, is_quiet=False, is_stirred=each > 1) for each in (1, 2))
    laps = iter([*[busy] * (FRESH_DRAWS - 1), stirred, busy])
    monkeypatch.setattr(clock, "_counts", lambda count: (count,))
    monkeypatch.setattr(clock, "_lap", lambda counts, flush: [])
    monkeypatch.setattr(clock, "_read", lambda counts, flush, most: [next(laps)])
    assert clock._read_new(COUNT, "none") == busy
    assert not list(laps)


@pytest.mark.parametrize(
    ("during", "afterwards", "expected"),
    [(85_000, 8_000, False), (360_000, 8_000, True), (85_000, 275_000, True), (200_000, 200_000, False)],
    ids=["idle", "while inputs were written", "afterwards", "a little slow"],
)
def test_what_works_on_the_device_while_nothing_is_asked_is_found(
    monkeypatch: pytest.MonkeyPatch, during: int, afterwards: int, expected: bool
) -> None:
    clock = make_clock(honest)
    clock.job.extension = "a file"  # type: ignore[misc,assignment]
    monkeypatch.setattr(clock.sets, "flush", lambda how: during)
    clock.time(Measure.COLD)
    monkeypatch.setattr(clock.sets, "flush", lambda how: afterwards)
    assert clock.is_crowded() is expected
    monkeypatch.setattr(clock.sets, "flush", lambda how: 8_000)
    assert not clock.is_crowded()  # each turn counts by itself


def test_a_few_crowded_flushes_are_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, flushes = make_clock(honest), cycle([FLUSH_NS, FLUSH_NS, 30 * FLUSH_NS])
    clock.job.extension = "a file"  # type: ignore[misc,assignment]
    monkeypatch.setattr(clock.sets, "flush", lambda how: next(flushes))
    clock.time(Measure.COLD)
    assert not clock.is_crowded()
