"""Time executions by the engine's own clock, which nothing in the worker's process can change."""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter_ns

from cuprof.core.records import Measure, Outcome, State
from cuprof.worker.messages import Execute, Executed, Finished, Ready

LEAST_NS = 1_000_000
"""Keep executing for at least this long before trusting the engine's clock: an answer costs a tenth of that. Longer is
no better, since a busy host takes the processor away for some milliseconds now and then."""
ROUNDS, MOST_ROUNDS = 3, 200
"""Look this many times and keep the shortest; look up to the maximum while that contradicts the worker."""
SHARP, SHARPENING_NS = 1.2, 50_000_000
"""Keep looking for this long while the two shortest looks of a kind differ by more than this factor: on a busy host few
looks are undisturbed."""
MOST_EXECUTIONS = 1 << 20
LITTLE = 0.05
"""One look is enough if writing inputs and outputs takes at most this fraction of an execution."""
TIMES_LONGER, LONGER_NS = 2.0, 3_000.0
"""An execution right after its inputs were written may take this much longer than the worker claims, both for its
samples and for these very executions."""
SEVERAL, TIMES_LONGER_OF_SEVERAL = 1.5, 5.0
"""A variant that keeps more than `SEVERAL` cores busy leaves inputs in their caches, and threads waiting for more work.
That slows the writes that follow by up to three executions of 18 µs (four cores, Numba). Such a variant may seem to
take this many times as long as its samples, and these very executions are not compared."""


class Witness:
    """Have the trials of one job executed, and record how long that takes.

    Inputs and outputs are written before each execution, since a variant could otherwise return early when its result
    is already there. The results are fetched after it. The time for both is measured separately and subtracted.
    """

    def __init__(self) -> None:
        self._claimed_ns: dict[int, float] = {}
        self._own_ns: dict[int, float] = {}
        self._busy_ns: dict[int, tuple[int, int]] = {}
        self._seen_ns: dict[int, float] = {}
        self._index, self._count, self._rounds, self._started = -1, 0, 0, 0
        self._only_write, self._least_ns = False, [[math.inf] * 2, [math.inf] * 2]
        self._began, self._once = 0, False

    def answer(self, message: Ready | Executed) -> Execute:
        """Return the worker's next task: a number of executions, or none."""
        now = perf_counter_ns()
        if isinstance(message, Ready):
            self._index, self._count, self._rounds = message.index, 1, 0
            self._claimed_ns[message.index] = message.claimed_ns
            self._own_ns[message.index] = self._seen_ns[message.index] = math.inf
            self._busy_ns[message.index] = 0, 1
            self._only_write, self._least_ns = False, [[math.inf] * 2, [math.inf] * 2]
            self._began, self._once = now, message.once
        else:
            elapsed_ns = now - self._started
            if self._once:
                self._own_ns[self._index], self._seen_ns[self._index] = message.own_ns, float(elapsed_ns)
                return Execute(0)
            if self._only_write or elapsed_ns >= LEAST_NS or self._count >= MOST_EXECUTIONS:
                least_ns = self._least_ns[self._only_write]
                least_ns[:] = sorted([*least_ns, elapsed_ns / self._count])[:2]
                if not self._only_write:
                    self._own_ns[self._index] = min(self._own_ns[self._index], message.own_ns / self._count)
                    busy_ns, lasted_ns = self._busy_ns[self._index]
                    self._busy_ns[self._index] = busy_ns + message.busy_ns, lasted_ns + elapsed_ns
                else:
                    self._rounds += 1
                    self._seen_ns[self._index] = max(self._least_ns[False][0] - self._least_ns[True][0], 0.0)
                self._only_write = not self._only_write
            else:
                wanted = math.ceil(1.2 * self._count * LEAST_NS / max(elapsed_ns, 1))
                self._count = min(wanted, 64 * self._count, MOST_EXECUTIONS)
            if not self._wants_more(now):
                return Execute(0)
        self._started = perf_counter_ns()
        return Execute(self._count, self._only_write)

    def judge(self, finished: Finished) -> Outcome:
        """Return a trial's outcome: implausible where it took longer than it says, or was not to be seen."""
        outcome = finished.outcome
        claimed = [timing.summary.median_ns for timing in outcome.timings if timing.measure is not Measure.TOTAL]
        if outcome.state is not State.OK or not claimed:
            return outcome
        self._claimed_ns[finished.index] = max(claimed)
        if math.isinf(self._seen_ns.get(finished.index, math.inf)):
            return replace(
                outcome, state=State.IMPLAUSIBLE, message="its time could not be seen from outside its process"
            )
        if not self._contradicts(finished.index):
            return outcome
        message = (
            f"two clocks disagree: {self._said_ns(finished.index) / 1e3:.4g} µs by its own process, "
            f"{self._seen_ns[finished.index] / 1e3:.4g} µs by the engine's clock"
        )
        return replace(outcome, state=State.IMPLAUSIBLE, message=message)

    def _wants_more(self, now: int) -> bool:
        if self._contradicts(self._index):
            return self._rounds < MOST_ROUNDS
        writing_ns = self._least_ns[True][0]
        # Writing that seems to take longer than it does makes an execution seem shorter, by this at most.
        if self._rounds and writing_ns <= LITTLE * self._claimed_ns[self._index]:
            return False
        is_sharp = all(second <= SHARP * first for first, second in self._least_ns)
        return self._rounds < ROUNDS or (not is_sharp and now - self._began < SHARPENING_NS)

    def _contradicts(self, index: int) -> bool:
        times = TIMES_LONGER_OF_SEVERAL if self._has_several(index) else TIMES_LONGER
        return self._seen_ns[index] > times * self._said_ns(index) + LONGER_NS

    def _said_ns(self, index: int) -> float:
        """Return an execution's time by the worker's account: the smaller of its samples' and these executions'."""
        if self._has_several(index):
            return self._claimed_ns[index]
        return min(self._claimed_ns[index], self._own_ns[index])

    def _has_several(self, index: int) -> bool:
        """Return whether it keeps several cores busy, the writing ahead of each execution counted in."""
        busy_ns, lasted_ns = self._busy_ns[index]
        return busy_ns > SEVERAL * lasted_ns
