"""Time a stranger's executions by the trusted side's clock: the slope between two numbers of them."""

from __future__ import annotations

import secrets
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from cuprof.core.records import Measure, Sample, State, Timing
from cuprof.judge.border.suspect import Lap, Suspect
from cuprof.judge.examiner import Examiner, FoundError
from cuprof.judge.sets import Sets
from cuprof.statistics.median import summarise
from cuprof.worker.messages import Job
from cuprof.worker.method import stopping_rule

RESPONSES = 15
LOOK_SLACK, LOOK_SLACK_NS = 2.0, 20_000
"""Reading results may take this much longer than where nothing had been executed, else it counts as the executions'."""
ROUND_TRIP_SLACK, ROUND_TRIP_SLACK_NS = 1.25, {"cuda": 15_000.0, "host": 50_000.0}
"""A slope may take out no more than a round trip took before the stranger's code was there, with so much for code that
the caches lost."""
ALIKE, ALIKE_NS = 2.0, {"cuda": 20_000.0, "host": 100_000.0}
"""An execution by itself may take this much longer than one of many."""
BUSY_HOST = "the host was busy with other work"
MOST_LAPS = 12
"""Ask this often for executions that nothing disturbs, on a machine that others use too."""
FRESH_TRIES = 6
REMEMBERS, REMEMBERS_NS = {"cuda": 2.0, "host": 1.3}, 20_000.0
"""A request on new contents may take this much longer than those on contents that have come up, in one of `FRESH_TRIES`
timings at least: others may use the machine, and a device that has rested has other clocks."""
LATE = (
    "; the right result is there a moment later: the call leaves work on a stream or in a thread. Launch on the "
    "current stream, make it wait for yours (event.record, wait_event), or join the thread"
)


class Round(NamedTuple):
    """One sample: a request for many executions, and one for one of them unless many are one."""

    many: Lap
    one: Lap | None
    slope_ns: float
    is_sound: bool


@dataclass
class Clock:
    """The clock of one trial.

    Args:
        limit_s: of one request.

    Attributes:
        round_trip_ns: of a request before the stranger's code was there.
        most_look_ns: what reading results may take.
        is_graph: executions are captured as a graph.
        is_cold: the process has waited since its last request while results were compared.
        checked_ns: how long all of these comparisons took.
    """

    job: Job
    sets: Sets
    suspect: Suspect
    examiner: Examiner
    limit_s: float
    is_graph: bool = False
    is_cold: bool = False
    checked_ns: int = 0

    def set(self) -> None:
        """Find out how long a request takes of itself."""
        self.sets.draw_early(0)
        trips = []
        for _ in range(RESPONSES):
            self.sets.flush(self.job.measure.flush)
            trips.append(self.suspect.respond(self.sets.look))
        trips = [each for each in trips if each.is_sound] or trips
        self.round_trip_ns = float(statistics.median(each.duration_ns for each in trips))
        self.most_look_ns = LOOK_SLACK * statistics.median(each.look_ns for each in trips) + LOOK_SLACK_NS

    def execute(self, count: int) -> Lap:
        """Execute on the first sets."""
        self.sets.draw_early(count)
        self.sets.memory.wait()
        lap = self.suspect.execute(count, self.limit_s, self.sets.look)
        if not self.sets.was_there():
            raise FoundError("results change after the call has returned" + LATE)
        return lap

    def time(self, measure: Measure) -> Timing:
        """Return the timing of a measure; the caches are emptied for the cold one.

        An execution on contents that never were there before must not take longer than those that count. On the host
        that compares which time it used of the processors. Where it does, all is timed anew, in case the host was busy.

        Raises:
            FoundError: it always does.
        """
        config, count = self.job.measure, self.sets.count
        flush = config.flush if measure is Measure.COLD else "none"
        if self.job.extension is None:
            self.set()
            self.sets.pool.round_trip_ns = self.round_trip_ns
        for _ in range(FRESH_TRIES):
            new_ns, rounds, reason = self._sample(count, flush)
            met_ns = statistics.median(each.many.cost_ns for each in rounds)
            if new_ns <= REMEMBERS[self.sets.kind] * met_ns + REMEMBERS_NS:
                break
        else:
            found = f"{new_ns / count / 1e3:.2f} µs on inputs that are new, {met_ns / count / 1e3:.2f} µs on others"
            raise FoundError(f"it remembers results: an execution takes {found}", State.IMPLAUSIBLE)
        self._read(count, flush)  # so that all rows have results
        self.examiner.check_known()
        return self._conclude(measure, rounds, reason)

    def _sample(self, count: int, flush: str) -> tuple[float, list[Round], str]:
        """Return the cost of a first request on new contents, the rounds that count, and why they are enough.

        As much time again as they may take is free for comparing results.
        """
        rule, rounds = stopping_rule(self.job.measure), list[Round]()
        free_ns = self.checked_ns + rule.max_ns
        laps_ns, last_look, reason = 0, 0, None
        settled = time.monotonic() + self.job.measure.settle_seconds
        new_ns, is_first = self._read_new(count, flush), True
        while reason is None:
            began = time.perf_counter_ns() - self.checked_ns
            wanted = [count, 1] if count > 1 else [count]
            laps = {each: self._read(each, flush) for each in sorted(wanted, key=lambda _: secrets.randbits(32))}
            is_warm, is_first = time.monotonic() >= settled and not is_first, False
            if not is_warm:
                continue
            rounds.append(self._make_round(laps.pop(count), laps.get(1), count))
            laps_ns += time.perf_counter_ns() - self.checked_ns - began
            spent_ns = laps_ns + max(self.checked_ns - free_ns, 0.0)
            if rule.is_due(len(rounds), spent_ns, last_look):
                last_look = len(rounds)
                sound = [max(each.slope_ns, 0.0) for each in rounds if each.is_sound]
                reason = rule.reason(sound, len(rounds) - len(sound), spent_ns, 0.0)
        return new_ns, rounds, reason

    def _make_round(self, many: Lap, one: Lap | None, count: int) -> Round:
        if one is None:
            return Round(many, None, self._count_ns(many) - self.round_trip_ns, many.is_sound)
        slope_ns = (self._count_ns(many) - self._count_ns(one)) / (count - 1)
        return Round(many, one, slope_ns, many.is_sound and one.is_sound)

    def _count_ns(self, lap: Lap) -> float:
        """Return the time of a lap, with what reading its results took beyond what that usually takes."""
        return lap.duration_ns + max(lap.look_ns - self.most_look_ns, 0.0)

    def _read(self, count: int, flush: str, most: int = MOST_LAPS) -> Lap:
        """Execute this number of times, on contents in a new order; check a result now and then.

        Args:
            most: how often to try if others disturb it.
        """
        if self.is_cold and self.sets.count > 1:
            self._lap(self.sets.count, flush)
        for _ in range(most):
            lap = self._lap(count, flush)
            if lap.is_sound:
                break
        began = time.perf_counter_ns()
        self.is_cold = self.examiner.check_some(count)
        self.checked_ns += time.perf_counter_ns() - began
        return lap

    def _read_new(self, count: int, flush: str) -> float:
        """Return the cost of a first request on new contents.

        One on contents that it has met comes first: after a rest, or while others drew, caches and clocks are not what
        they are in between.
        """
        draw = self.sets.take(count)
        self.sets.repeat(count)
        self._lap(count, flush)
        self.is_cold = False
        self.sets.have(draw, count)
        return self._read(count, flush, most=1).cost_ns  # the second one would meet them again

    def _lap(self, count: int, flush: str) -> Lap:
        self.sets.give(count)
        self.sets.flush(flush)
        return self.execute(count)

    def _conclude(self, measure: Measure, rounds: list[Round], reason: str) -> Timing:
        """Return the timing, held to the time that the requests took as a whole."""
        count, longest_ns = self.sets.count, max(self.round_trip_ns, self.sets.pool.round_trip_ns)
        most_ns = ROUND_TRIP_SLACK * longest_ns + ROUND_TRIP_SLACK_NS[self.sets.kind]
        middle_ns = statistics.median(
            [each.slope_ns for each in rounds if each.is_sound] or [each.slope_ns for each in rounds]
        )
        shift_ns = 0.0
        many = [self._count_ns(each.many) for each in rounds if each.many.is_sound]
        ones = [self._count_ns(each.one) for each in rounds if each.one is not None and each.one.is_sound]
        if many and ones:
            shift_ns = max((statistics.median(many) - most_ns) / count - middle_ns, 0.0)
            if (
                min(ones) - most_ns > ALIKE * middle_ns + ALIKE_NS[self.sets.kind]
            ):  # several were worked on side by side
                shift_ns = max(shift_ns, min(ones) - most_ns - middle_ns)
        samples = tuple(
            Sample(
                number,
                max(each.slope_ns + shift_ns, 1.0),
                None,
                "" if each.is_sound and each.slope_ns + shift_ns > 0 else BUSY_HOST,
            )
            for number, each in enumerate(rounds)
        )
        if all(sample.excluded for sample in samples):
            samples = tuple(replace(sample, excluded="") for sample in samples)
        details: dict[str, Any] = {
            "batch": count,
            "round_trip_ns": round(self.round_trip_ns),
            "launches_included": not self.is_graph and self.job.backend == "cuda",
            "held_to_requests": shift_ns > 0,
        }
        summary = summarise(samples, self.job.measure.confidence)
        return Timing(measure, self.job.methods[measure], samples, summary, reason, details)
