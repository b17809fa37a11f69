"""Time a stranger's executions by the trusted side's clock: the slope between two numbers of them."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cuprof.core.records import Measure, Sample, State, Timing
from cuprof.judge.border.signals import SECOND, Ask
from cuprof.judge.border.suspect import START_LIMIT_S, Lap, Suspect
from cuprof.judge.examiner import Examiner, FoundError
from cuprof.judge.sets import SPARE, Sets, Trips
from cuprof.statistics.median import summarise
from cuprof.worker.messages import Job
from cuprof.worker.stopping import StoppingRule

RESPONSES = 15
LOOK_SLACK, LOOK_SLACK_NS = 2.0, 20_000
"""Reading results may take this much longer than where nothing had been executed, else it counts as the executions'."""
ROUND_TRIP_SLACK, ROUND_TRIP_SLACK_NS = 1.25, {"cuda": 15_000.0, "host": 50_000.0}
"""A slope may take out no more than a round trip took before the stranger's code was there, with so much for code that
the caches lost."""
ALIKE, ALIKE_NS = {"graph": 1.25, "direct": 2.0, "host": 1.5}, {"cuda": (35_000.0, 10_000.0), "host": (150_000.0,)}
"""An execution by itself may take this much longer than one of many, with so much for each of the requests that follow
one another; on a device the first one takes its change to the process, which varies. Where two are worked on at once,
one takes twice as long."""
FEW_SETS = 16
"""Of fewer sets a time is the whole one less a round trip: what a slope may leave out would be much of an execution."""
BUSY_HOST = "the host was busy with other work"
TOO_BUSY = f"{BUSY_HOST}, so that nothing tells whether it remembers results; judge it again on a quieter machine"
MOST_LAPS = 12
"""Ask this often for executions that nothing disturbs, on a machine that others use too."""
FRESH_TRIES, FRESH_DRAWS = 6, 4
"""Compare a request on new contents with others this often; draw them so often where others have the processors."""
REMEMBERS, REMEMBERS_NS = {"graph": (1.5, 1.5), "direct": (1.75, 1.75), "host": (1.3, 2.0)}, 20_000.0
"""A request on new contents may cost this much more (CPU time, duration) than on known ones, in one of `FRESH_TRIES`
timings: others may use the machine, launches vary (by up to 1.35 on an H200, in a graph by 1.18), and CPU time can be
wasted side by side."""
CROWDED_NS = 150_000
"""A flush takes longer by more than this while another process works on the device, which changes between the two: by
0.27 ms for short kernels, 2.4 ms for a long one (an H200)."""
LOOKS = 3
LATE = (
    "; the right result is there a moment later: the call leaves work on a stream or in a thread. Launch on the "
    "current stream, make it wait for yours (event.record, wait_event), or join the thread"
)


class Round(NamedTuple):
    """One sample.

    Args:
        whole: of all executions that follow one another.
        ones: of the requests for one of them, which follow one another; none where one is all.
    """

    whole: Lap
    ones: tuple[Lap, ...]
    slope_ns: float
    is_sound: bool


@dataclass
class Clock:
    """The clock of one trial.

    Args:
        limit_s: of one request.

    Attributes:
        trips: of requests before the stranger's code was there.
        most_look_ns: what reading results may take.
        is_graph: executions are captured as a graph.
        draw: contents that were new to the process when they were given last, with some to spare.
        is_cold: the process has waited since its last request while results were compared.
        checked_ns: how long all of these comparisons took.
        most_flush_ns: what a flush takes while nothing else works on the device.
        crowded: of each flush since the last `is_crowded`, whether it took longer.
        alone_ns: of an execution by itself on contents that a stranger had not met, if it takes longer than it may.
    """

    job: Job
    sets: Sets
    suspect: Suspect
    examiner: Examiner
    limit_s: float
    is_graph: bool = False
    is_cold: bool = False
    checked_ns: int = 0
    crowded: list[bool] = field(default_factory=list)
    alone_ns: float = 0.0

    @property
    def way(self) -> str:
        """Return how executions reach the device, "graph" or "direct"; or "host"."""
        return "host" if self.sets.kind == "host" else "graph" if self.is_graph else "direct"

    def set(self) -> None:
        """Find out how long requests take of themselves."""
        self.sets.draw_early(0)
        trips, requests, flushes_ns = [], len(self._counts(self.sets.task.count)), []
        for _ in range(RESPONSES):
            flushes_ns.append(self.sets.flush(self.job.measure.flush))
            trips.append(self.suspect.clock(Ask.NULL, [0] * requests, START_LIMIT_S, self.sets.look))
        trips = [laps for laps in trips if all(lap.is_sound for lap in laps)] or trips
        whole = [_add(laps) for laps in trips]
        ones = zip(*([lap.duration_ns for lap in laps[: max(requests - 1, 1)]] for laps in trips), strict=True)
        self.trips = Trips(
            tuple(float(statistics.median(each)) for each in ones),
            float(statistics.median(each.duration_ns for each in whole)),
        )
        self.most_flush_ns = statistics.median(flushes_ns) + CROWDED_NS
        self.most_look_ns = LOOK_SLACK * statistics.median(each.look_ns for each in whole) + LOOK_SLACK_NS

    def is_crowded(self) -> bool:
        """Return whether something works on the device now, or did so at most flushes since the last time.

        Inputs are written before a flush and the clock runs after it, so a process that waits has nothing to do.
        """
        if not self.suspect.spins:
            return False
        crowded, self.crowded = self.crowded, []
        return 2 * sum(crowded) > len(crowded) or self.is_shared()

    def is_shared(self) -> bool:
        """Return whether another process works on the device now; after a rest the first look takes longer."""
        return min(self.sets.flush("none") for _ in range(LOOKS)) > self.most_flush_ns

    def execute(self, *counts: int) -> list[Lap]:
        """Send requests one right after another, each for this number of executions."""
        self.sets.draw_early(_count_rows(counts))
        self.sets.memory.wait()
        laps = self.suspect.clock(Ask.EXECUTE, counts, self.limit_s, self.sets.look)
        if not self.sets.was_there():
            raise FoundError("results change after the call has returned" + LATE)
        return laps

    def _counts(self, count: int) -> tuple[int, ...]:
        """Return the requests that follow one another.

        A device needs a time that varies to change from one process to another. The first request takes it, so the
        slope is that of the other two.
        """
        return (1, 1, count) if self.suspect.spins and count > 1 else (count,)

    def time(self, measure: Measure) -> Timing:
        """Return the timing of a measure; the caches are emptied for the cold one.

        An execution on contents that never were there before must not take longer than those that count. On the host
        that compares which time it used of the processors. Where it does, all is timed anew, in case the host was busy.

        Raises:
            FoundError: it always does, or others had the processors nearly always.
        """
        config, count = self.job.measure, self.sets.count
        flush = config.flush if measure is Measure.COLD else "none"
        if self.job.extension is None:
            self.set()
            self.sets.pool.trips = self.trips
        quiet = 0
        for _ in range(FRESH_TRIES):
            new, rounds, reason = self._sample(count, flush)
            quiet += new.is_quiet
            counted = _keep_sound(rounds)  # those that the time comes from: it may make others slow and unsound
            known = [statistics.median(each) for each in zip(*(each.whole.costs_ns for each in counted), strict=True)]
            compared = [*zip(new.costs_ns, known, REMEMBERS[self.way], strict=True)]
            if all(new_ns <= factor * met_ns + REMEMBERS_NS for new_ns, met_ns, factor in compared):
                break
        else:
            if quiet >= FRESH_TRIES / 2:
                new_ns, met_ns, _ = max(compared, key=lambda each: each[0] / (each[1] * each[2]))
                found = f"{new_ns / count / 1e3:.2f} µs on inputs that are new, {met_ns / count / 1e3:.2f} µs on others"
                raise FoundError(f"it remembers results: an execution takes {found}", State.IMPLAUSIBLE)
            if self.job.extension is not None:
                raise FoundError(TOO_BUSY, State.SKIPPED)
        if self.job.extension is not None and count > 1:
            self.alone_ns = self._time_alone(_find_middle(rounds), count, flush)
        self._read((count,), flush)  # so that all rows have results
        self.examiner.check_known()
        return self._conclude(measure, rounds, reason)

    def _sample(self, count: int, flush: str) -> tuple[Lap, list[Round], str]:
        """Return a first request on new contents, the rounds that count, and why they are enough.

        As much time again as they may take is free for comparing results.
        """
        rule, rounds = StoppingRule(self.job.measure), list[Round]()
        free_ns = self.checked_ns + rule.max_ns
        laps_ns, last_look, reason = 0, 0, None
        settled = time.monotonic() + self.job.measure.settle_seconds
        new, is_first = self._read_new(count, flush), True
        while reason is None:
            began = time.perf_counter_ns() - self.checked_ns
            round_ = self._read_round(count, flush)
            is_warm, is_first = time.monotonic() >= settled and not is_first, False
            if not is_warm:
                continue
            rounds.append(round_)
            laps_ns += time.perf_counter_ns() - self.checked_ns - began
            spent_ns = laps_ns + max(self.checked_ns - free_ns, 0.0)
            if rule.is_due(len(rounds), spent_ns, last_look):
                last_look = len(rounds)
                sound = [max(each.slope_ns, 0.0) for each in rounds if each.is_sound]
                reason = rule.reason(sound, len(rounds) - len(sound), spent_ns, 0.0)
        return new, rounds, reason

    def _read_round(self, count: int, flush: str) -> Round:
        if len(counts := self._counts(count)) > 1:
            *ones, many = laps = self._read(counts, flush)
            return Round(_add(laps), tuple(ones), self._find_slope(many, ones[-1].duration_ns, count), True)
        wanted = [count, 1] if count > 1 else [count]
        by_count = {each: self._read((each,), flush)[0] for each in sorted(wanted, key=lambda _: secrets.randbits(32))}
        many = by_count.pop(count)
        if (single := by_count.get(1)) is None:
            return Round(many, (), self._find_slope(many, 0.0, count), many.is_sound)
        slope_ns = self._find_slope(many, self._count_ns(single), count)
        return Round(many, (single,), slope_ns, many.is_sound and single.is_sound)

    def _find_slope(self, many: Lap, one_ns: float, count: int) -> float:
        """Return the time of one of many executions, from requests for all of them and for one."""
        if count >= FEW_SETS:
            return (self._count_ns(many) - one_ns) / (count - 1)
        baselines = self.sets.pool.trips  # of a moment ago: a stranger's own are older, which would scatter its times
        trips = baselines if any(baselines.ones_ns) else self.trips
        return (self._count_ns(many) - trips.ones_ns[0 if count == 1 else -1]) / count

    def _count_ns(self, lap: Lap) -> float:
        """Return the time of a lap, with what reading its results took beyond what that usually takes."""
        return lap.duration_ns + max(lap.look_ns - self.most_look_ns, 0.0)

    def _read(self, counts: tuple[int, ...], flush: str, most: int = MOST_LAPS) -> list[Lap]:
        """Execute these numbers of times, on contents in a new order; check a result now and then.

        Args:
            most: how often to try if others disturb it.
        """
        if self.is_cold and self.sets.count > 1:
            self._lap((self.sets.count,), flush)
        for _ in range(most):
            laps = self._lap(counts, flush)
            if all(lap.is_sound for lap in laps):
                break
        with self._checking():
            self.is_cold = self.examiner.check_some(max(counts))
        return laps

    def _read_new(self, count: int, flush: str) -> Lap:
        """Return first requests on new contents as one, if possible with nothing that others delayed.

        Some on contents that it has met come first: after a rest, or while others drew, caches and clocks are not what
        they are in between.
        """
        counts, draws, is_due = self._counts(count), 0, True
        while is_due:
            self.draw = self.sets.take(count)
            self.sets.repeat(count)
            self._lap(counts, flush)
            self.is_cold = False
            self.sets.have(self.draw, count)
            new = _add(self._read(counts, flush, most=1))  # the second time would meet them again
            draws += 1
            is_due = not new.is_quiet and (draws < FRESH_DRAWS or new.is_stirred)
        if self.job.extension is not None:
            with self._checking():
                self.examiner.check_new(count)
            self.is_cold = True
        return new

    def _time_alone(self, middle_ns: float, count: int, flush: str) -> float:
        """Return the time of an execution by itself; 0 if it is as short as one of many.

        Its contents are new, and its results are checked before others can take their place: nothing else tells that it
        was executed when it was asked for.
        """
        counts = (1, SECOND) if self.suspect.spins else (1,)
        sound, others = list[float](), list[float]()
        for tries in range(FRESH_DRAWS):
            if tries:
                self.draw = self.sets.take(count)
            for first in range(count, count + SPARE[self.sets.kind], len(counts)):
                self.sets.repeat(count)
                self._lap((count,), flush)
                self.sets.have(self.draw.cut(first, len(counts)), len(counts))
                laps = self._lap(counts, flush)
                with self._checking():
                    self.examiner.check_new(len(counts))
                if any(lap.is_stirred for lap in laps):  # it may have been executed before; there are few of them
                    continue
                is_sound = all(lap.is_sound for lap in laps)
                (sound if is_sound else others).append(self._find_longer(map(self._count_ns, laps), middle_ns))
                if 0.0 in sound:
                    break
            if sound:
                break
        self.sets.have(self.draw, count)
        return min(sound or others)

    def _find_longer(self, ones_ns: Iterable[float], middle_ns: float) -> float:
        """Return the time of an execution by itself, from requests that follow one another; 0 if it is as short.

        Args:
            ones_ns: how long the requests took.
            middle_ns: the time of one of many executions.
        """
        factor, slack_ns = ALIKE[self.way], ALIKE_NS[self.sets.kind]
        trips = zip(self.trips.ones_ns, self.sets.pool.trips.ones_ns, slack_ns, strict=False)
        longest_ns = 0.0
        for one_ns, (own_ns, baselines_ns, more_ns) in zip(ones_ns, trips, strict=False):
            trip_ns = max(own_ns, baselines_ns)
            if one_ns > factor * middle_ns + ROUND_TRIP_SLACK * trip_ns + more_ns:  # several were worked on at once
                longest_ns = max(longest_ns, one_ns - trip_ns)
        return longest_ns

    @contextmanager
    def _checking(self) -> Iterator[None]:
        """Add what a block takes to the time of comparing results."""
        began = time.perf_counter_ns()
        yield
        self.checked_ns += time.perf_counter_ns() - began

    def _lap(self, counts: tuple[int, ...], flush: str) -> list[Lap]:
        self.sets.give(_count_rows(counts))
        self.crowded.append(self.sets.flush(flush) > self.most_flush_ns)
        return self.execute(*counts)

    def _conclude(self, measure: Measure, rounds: list[Round], reason: str) -> Timing:
        """Return the timing, held to the time that the requests took as a whole."""
        count, kind = self.sets.count, self.sets.kind
        most_ns = ROUND_TRIP_SLACK * max(self.trips.whole_ns, self.sets.pool.trips.whole_ns) + ROUND_TRIP_SLACK_NS[kind]
        sound, middle_ns = _keep_sound(rounds), _find_middle(rounds)
        whole_ns = statistics.median(self._count_ns(each.whole) for each in sound)
        executions, shift_ns = sum(self._counts(count)), 0.0
        if count > 1:
            shift_ns = max((whole_ns - most_ns) / executions - middle_ns, 0.0)
            ones_ns = (min(map(self._count_ns, each)) for each in zip(*(each.ones for each in sound), strict=True))
            shift_ns = max(shift_ns, max(self._find_longer(ones_ns, middle_ns), self.alone_ns) - middle_ns)
        if middle_ns + shift_ns <= 0:  # others used the device while round trips were timed: leave none out
            shift_ns = whole_ns / executions - middle_ns
        times_ns = [each.slope_ns + shift_ns for each in rounds]
        counted = [each.is_sound and time_ns > 0 for each, time_ns in zip(rounds, times_ns, strict=True)]
        samples = tuple(
            Sample(number, max(time_ns, 1.0), None, "" if counts or not any(counted) else BUSY_HOST)
            for number, (time_ns, counts) in enumerate(zip(times_ns, counted, strict=True))
        )
        details: dict[str, Any] = {
            "batch": count,
            "round_trip_ns": round(self.trips.ones_ns[0]),
            "launches_included": not self.is_graph and self.job.backend == "cuda",
            "held_to_requests": shift_ns > 0,
        }
        summary = summarise(samples, self.job.measure.confidence)
        return Timing(measure, self.job.methods[measure], samples, summary, reason, details)


def _count_rows(counts: Sequence[int]) -> int:
    """Return on how many of the first sets requests execute."""
    return max(*counts, 2 * (SECOND in counts))


def _keep_sound(rounds: list[Round]) -> list[Round]:
    """Return the rounds that count: the sound ones, all where none is."""
    return [each for each in rounds if each.is_sound] or rounds


def _find_middle(rounds: list[Round]) -> float:
    """Return the time of one of many executions."""
    return statistics.median(each.slope_ns for each in _keep_sound(rounds))


def _add(laps: Sequence[Lap]) -> Lap:
    """Return requests that follow one another as one."""
    if len(laps) == 1:
        return laps[0]
    return Lap(sum(lap.duration_ns for lap in laps), laps[-1].look_ns)
