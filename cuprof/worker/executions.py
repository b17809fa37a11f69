"""Timed executions are the ones that are compared: choose the inputs of each, and keep count of its results."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from time import monotonic_ns

from cuprof.backends.contract import Draw, Runnable, Session, Tally
from cuprof.core.records import Check, Measure
from cuprof.worker.problem import Problem
from cuprof.worker.protection import Protection
from cuprof.worker.trial import Trial

WANTED = 240
"""Compare up to this many executions of a trial, within `MOST_SHARE` of its sampling time. A variant that is wrong in
one execution of fifty is found with a probability of 99.2 %."""
BEYOND = 8
"""After that, compare every Nth sample on average."""
AGAIN = 8
"""Repeat the previous set of inputs once in this many draws of code on the host, on average."""
TURN = 16
"""Give kernels another set of inputs after this many executions: once a round of the usual rotation. Inputs that stay
need not be copied again, which is a quarter of the device's time for axpy at 2^24."""
MOST_SHARE, IN_PLACE_SHARE = 0.2, 0.1
"""Fractions of the sampling time to spend on comparing. The second applies where the device compares every sample
already."""
LEAST_NS, LEAST_SLOW_NS = 2_500_000, 1_000_000
"""Compare executions for at least this long in any case. The second is enough where a device compares every sample and
`LEAST_NS` would not do for all that are wanted: of an execution of 0.1 ms it adds 10 to those sampled, not 25."""
AT_ONCE = 32
"""Enqueue at most this many executions on a device before waiting for them."""
SPOILT = 3
"""Spoil an element of a result and compute it again this many times; a spoilt byte may happen to be right."""
KNOWN_RESULTS = 256
"""Remember the checksums of at most this many right results for each set of inputs. A variant that sums in any order
keeps making new ones."""
_random = Random()
"""A generator of its own, which no variant seeds."""


@dataclass
class Results:
    """Compare results with the reference of their inputs, in the memory that holds them where the session can.

    Args:
        right: checksums of results found right, with their checks, by set number and by trial where it has a tolerance
            of its own.
    """

    session: Session[Runnable]
    problem: Problem
    right: dict[tuple[int | None, int], dict[tuple[int, ...], Check]] = field(default_factory=dict)
    _dealt: int = 0

    def turn(self, count: int) -> int:
        """Return which of the first `count` sets kernels get now; all kernels of a job get the same one for a while."""
        self._dealt += 1
        return self._dealt // TURN % count

    def check(self, trial: Trial) -> Check:
        """Compare the results of a trial's last execution, which was on the first set."""
        found, tolerance = None, trial.tolerances[0]
        if not self.problem.needs_host:
            found = self.session.check_in_place(trial.bound, tolerance, self.problem.seed)
        return found or self.compare(trial, 0)

    def compare(self, trial: Trial, number: int) -> Check:
        """Compare the results of a trial's last execution on a set; what has the checksum of a right one is right."""
        tolerances, checksum = trial.tolerances[number], self.session.checksum(trial.bound)
        own = trial.index if trial.variant.tolerance else None
        right = self.right.setdefault((own, number), {})
        if checksum is not None and checksum in right:
            return right[checksum]
        trial.looks += 1
        standard = self.problem.standards[number]
        check = self.problem.compare(self.session.fetch(trial.bound), standard, tolerances, trial.looks)
        if check.passed and checksum is not None and len(right) < KNOWN_RESULTS:
            right[checksum] = check
        return check


class Executions:
    """Choose the inputs of each execution of one trial, and keep count of the results.

    Attributes:
        compared_sets: how many sets of inputs executions get whose results are compared.
        is_fetched: the result of the execution dealt last is compared on the host, so no other may follow before that.
        first_wrong: message of the first wrong result found on the host.
    """

    def __init__(self, trial: Trial, results: Results, protection: Protection) -> None:
        self.trial, self.results, self.protection = trial, results, protection
        self.session, self.problem = results.session, results.problem
        self.compared_sets = self.session.stocked
        on_device = bool(self.compared_sets) and not self.problem.needs_host
        self.tally = self.session.expect(trial.bound, trial.tolerances) if on_device else None
        self.in_place = self.tally is not None
        self.is_fetched, self.first_wrong = False, ""
        self._last = Draw()
        self._spent_ns = self._comparing_ns = 0
        self._dealt = self._to_compare = 0
        self._compared_on = {0}
        self._verdicts: list[bool] = []

    def deal(self) -> Draw:
        """Return the inputs and fill for the trial's next execution."""
        is_due = bool(self.compared_sets) and (self._to_compare < WANTED or _random.randrange(BEYOND) == 0)
        if not self.in_place:
            is_due = is_due and self._comparing_ns <= MOST_SHARE * self._spent_ns
        self._dealt += 1
        self.is_fetched = is_due and not self.in_place
        return self._draw(compare=is_due)

    def settle(self, spent_ns: int) -> None:
        """Process the result of the last execution, unless the session compares it itself."""
        self._spent_ns += spent_ns
        if self.is_fetched:
            self._compare()
        self.protection.after_run(self.trial)

    def examine(self) -> Tally:
        """Compare further executions until there are enough, and return the count of all."""
        share = IN_PLACE_SHARE if self.in_place else MOST_SHARE
        began, share_ns = monotonic_ns(), int(share * self._spent_ns) - self._comparing_ns
        allowed_ns = max(LEAST_NS, share_ns)
        runnable, at_once = self.trial.bound, 1
        known = self.tally().compared if self.tally else len(self._verdicts)
        while self.compared_sets and known < WANTED:
            spent_ns = monotonic_ns() - began
            next_ns = self._spent_ns // max(self._dealt, 1)
            if spent_ns + next_ns >= allowed_ns and len(self._compared_on) == self.compared_sets:
                break
            draws = [self._draw(compare=True, is_last_chance=True) for _ in range(min(at_once, WANTED - known))]
            self.session.execute(runnable, *draws)
            known += len(draws)
            if self.in_place:  # as many as fit into what is left of the time
                each_ns = max(monotonic_ns() - began - spent_ns, 1) / len(draws)
                is_enough = (WANTED - known) * each_ns <= LEAST_NS
                allowed_ns = max(LEAST_NS if is_enough else LEAST_SLOW_NS, share_ns)
                at_once = max(1, min(AT_ONCE, int((allowed_ns - (monotonic_ns() - began)) / each_ns)))
            else:  # outputs that are fetched are those of the last execution
                self._compare()
        if self.tally:
            return self.tally()
        return Tally(len(self._verdicts), self._verdicts.count(False))

    def find_skipping(self) -> str:
        """Return an error if a variant skips work because its result is already there, or an empty string.

        One element of the result is spoilt first. A variant that returns early leaves it spoilt.
        """
        if Measure.HOT not in self.trial.timings or self.protection.restores(self.trial):
            return ""
        runnable = self.trial.bound
        for _ in range(SPOILT):
            draw = self._draw(compare=False)
            self.session.execute(runnable, draw)
            self.session.spoil(runnable, _random.random(), _random.getrandbits(8))
            self.session.run(runnable)
            check = self.results.compare(self.trial, draw.inputs)
            if not check.passed:
                return f"it skips the work when its result is already there, as in back-to-back runs: {check.message}"
        return ""

    def _draw(self, *, compare: bool, is_last_chance: bool = False) -> Draw:
        """Draw the next execution's inputs and fill.

        Code on the host gets its inputs written anew each time, and sets not yet compared first. The same set seldom
        comes twice in a row, which would help a variant that keeps its last result. It sometimes does, which catches a
        variant that counts on a different one.

        Args:
            is_last_chance: no sampling follows, in which all sets would be met.
        """
        is_host, sets = self.trial.calls_host, [*range(max(self.compared_sets, 1))]
        missing = [number for number in sets if number not in self._compared_on]
        if is_host:
            sets = missing if missing and (compare or not self.in_place) else sets
            again = _random.randrange(AGAIN) == 0
            number = _random.choice([each for each in sets if (each == self._last.inputs) is again] or sets)
        else:
            number = missing[0] if missing and is_last_chance else self.results.turn(len(sets))
        self._last = Draw(number, _random.getrandbits(8), compare and self.in_place, is_host)
        if self._last.compare:
            self._note()
        return self._last

    def _note(self) -> None:
        """Count the last execution as one that is compared."""
        self._to_compare += 1
        self._compared_on.add(self._last.inputs)

    def _compare(self) -> None:
        """Compare the last execution's result on the host and record the verdict."""
        began = monotonic_ns()
        self._note()
        found = self.results.compare(self.trial, self._last.inputs)
        self._verdicts.append(found.passed)
        self.first_wrong = self.first_wrong or found.message
        self._comparing_ns += monotonic_ns() - began
        self.is_fetched = False
