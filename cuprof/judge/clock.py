"""Time a stranger's executions by the trusted side's clock: the slope between two numbers of them."""

from __future__ import annotations

import secrets
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any

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
FRESH_TRIES, MOST_FRESH_TRIES = 6, 24
REMEMBERS, REMEMBERS_NS = {"cuda": 2.0, "host": 1.3}, 20_000.0
"""A request on new contents may take this much longer than one on contents that have come up, and one of `FRESH_TRIES`
times it must: others may use the machine, and a device that has rested has other clocks."""
LATE = (
    "; the right result is there a moment later: the call leaves work on a stream or in a thread. Launch on the "
    "current stream, make it wait for yours (event.record, wait_event), or join the thread"
)


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
    """

    job: Job
    sets: Sets
    suspect: Suspect
    examiner: Examiner
    limit_s: float
    is_graph: bool = False
    is_cold: bool = False

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
        """Return the timing of a measure; the caches are emptied for the cold one."""
        config, rule = self.job.measure, stopping_rule(self.job.measure)
        flush = config.flush if measure is Measure.COLD else "none"
        count = self.sets.count
        low = min(count - 1, 1)
        times: dict[int, list[float]] = {low: [], count: []}
        slopes: list[tuple[float, bool]] = []
        spent_ns, last_look, reason, number = 0, 0, None, 0
        if self.job.extension is None:
            self.set()
        settled = time.monotonic() + config.settle_seconds
        new, met_ns = self._read_new(count, flush), list[float]()
        while reason is None:
            began = time.perf_counter_ns()
            counts = sorted({low, count} - {0}, key=lambda _: secrets.randbits(32))
            laps = {each: self._read(each, flush) for each in counts}
            for each, lap in laps.items():
                times[each] += [self._count_ns(lap)] if lap.is_sound else []
            met_ns.append(laps[count].cost_ns)
            base_ns = self._count_ns(laps[low]) if low else self.round_trip_ns
            slope_ns = (self._count_ns(laps[count]) - base_ns) / (count - low)
            slopes.append((slope_ns, all(lap.is_sound for lap in laps.values())))
            number += 1
            if time.monotonic() < settled or number == 1:
                slopes.clear()
                continue
            spent_ns += time.perf_counter_ns() - began
            if rule.is_due(len(slopes), spent_ns, last_look):
                last_look = len(slopes)
                sound = [max(each, 0.0) for each, is_sound in slopes if is_sound]
                reason = rule.reason(sound, len(slopes) - len(sound), spent_ns, 0.0)
        self._require_alike(count, flush, new, statistics.median(met_ns))
        self._read(count, flush)  # so that all rows have results
        self.examiner.check_known()
        return self._conclude(measure, slopes, times, count, reason)

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
        self.is_cold = self.examiner.check_some(count)
        return lap

    def _read_new(self, count: int, flush: str) -> Lap:
        """Return a first request on new contents.

        One on contents that it has met comes first: after a rest, or while others drew, caches and clocks are not what
        they are in between.
        """
        draw = self.sets.take(count)
        self.sets.repeat(count)
        self._lap(count, flush)
        self.is_cold = False
        self.sets.have(draw, count)
        return self._read(count, flush, most=1)  # the second one would meet them again

    def _lap(self, count: int, flush: str) -> Lap:
        self.sets.give()
        self.sets.flush(flush)
        return self.execute(count)

    def _require_alike(self, count: int, flush: str, new: Lap, met_ns: float) -> None:
        """Raise if executions on contents that never were there before always take longer than those on others.

        On the host that counts which a process used of the processors, since others use them too. Where the host is so
        busy that we wait ourselves, caches are cold for every request: more of them must take longer.

        Args:
            new: the first request on the contents that the others had.
        """
        tries = sound = 0
        while new.cost_ns > REMEMBERS[self.sets.kind] * met_ns + REMEMBERS_NS:
            tries, sound = tries + 1, sound + new.is_sound
            if sound > FRESH_TRIES or tries > MOST_FRESH_TRIES:
                new_us, met_us = new.cost_ns / count / 1e3, met_ns / count / 1e3
                found = f"{new_us:.2f} µs on inputs that are new, {met_us:.2f} µs on others"
                raise FoundError(f"it remembers results: an execution takes {found}", State.IMPLAUSIBLE)
            new = self._read_new(count, flush)

    def _conclude(
        self, measure: Measure, slopes: list[tuple[float, bool]], times: dict[int, list[float]], count: int, reason: str
    ) -> Timing:
        """Return the timing, held to the time that the requests took as a whole."""
        pool = self.sets.pool
        if self.job.extension is None:
            pool.round_trip_ns = self.round_trip_ns
        longest_ns = max(self.round_trip_ns, pool.round_trip_ns)
        most_ns = ROUND_TRIP_SLACK * longest_ns + ROUND_TRIP_SLACK_NS[self.sets.kind]
        middle_ns = statistics.median([each for each, is_sound in slopes if is_sound] or [each for each, _ in slopes])
        bounds = [(statistics.median(taken) - most_ns) / each for each, taken in times.items() if each > 1 and taken]
        alone_ns = min(times.get(1, ()), default=0.0) - most_ns
        if (
            count > 1 and alone_ns > ALIKE * middle_ns + ALIKE_NS[self.sets.kind]
        ):  # the sets were worked on side by side
            bounds.append(alone_ns)
        shift_ns = max(max(bounds, default=0.0) - middle_ns, 0.0)
        samples = tuple(
            Sample(number, max(each + shift_ns, 1.0), None, "" if is_sound and each + shift_ns > 0 else BUSY_HOST)
            for number, (each, is_sound) in enumerate(slopes)
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
