"""The executions that are timed are the ones that are compared: what each is given, and what their results come to."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from random import SystemRandom
from time import monotonic_ns

import numpy as np

from cuprof.backends.contract import Draw, Runnable, Tally
from cuprof.family import Arrays, Tolerance
from cuprof.records import Check, Measure
from cuprof.worker.bench import Bench
from cuprof.worker.candidate import Candidate
from cuprof.worker.check import compare
from cuprof.worker.workload import UNSEEN_SETS

WANTED = 256
"""Executions of a trial that are compared, if that takes no longer than `MOST_SHARE` of what its samples took: one that
is wrong in one execution of fifty is found with a chance of 99.4 %."""
MOST_SHARE = 0.2
LEAST_NS = 5_000_000
"""For this long executions are compared in any case."""
AT_ONCE = 32
"""So many are put on a device before anybody waits for them."""
FIRST_TIMES_LONGER, HOST_TIMES_LONGER = 1.25, 1.8
KNOWN_RESULTS = 64
"""So many results a set of inputs are known again; a variant whose sums come in any order has ever new ones."""
LEAST_LONGER_NS = 1_500.0
"""By so much every first meeting with inputs takes longer than the second, before a variant is said to remember."""


@dataclass
class _Account:
    """What is known of one trial's executions.

    Attributes:
        in_place: the session compares; otherwise its outputs are fetched and compared here.
        right: digests of results that were compared and found right, by the set's number.
        first_wrong: message of the first result that was found wrong here.
    """

    tolerances: Sequence[Tolerance | None]
    in_place: bool
    dealt: Draw = field(default_factory=Draw)
    spent_ns: int = 0
    comparing_ns: int = 0
    compared: int = 0
    wrong: int = 0
    right: dict[int, set[bytes]] = field(default_factory=dict)
    first_wrong: str = ""


class Executions:
    """Deal each execution of a job's trials what it is given, and keep count of the results.

    Args:
        count: how many of the workload's sets the session has room for.
    """

    def __init__(self, bench: Bench, count: int) -> None:
        self.bench, self.count = bench, count
        self.compared_sets = min(count, bench.workload.compared)
        self._random = SystemRandom()  # no variant can seed or foresee it
        self._key = secrets.token_bytes(16)
        self._accounts: dict[int, _Account] = {}

    def enter(self, candidate: Candidate) -> None:
        """Begin to compare what a candidate does."""
        assert candidate.runnable is not None
        in_place = bool(self.count) and self.bench.session.expect(candidate.runnable, candidate.tolerances)
        self._accounts[candidate.index] = _Account(candidate.tolerances, in_place)

    def deal(self, index: int) -> Draw:
        """Return what a candidate's next execution is given."""
        account = self._accounts[index]
        number = self._random.randrange(self.compared_sets) if self.compared_sets else 0
        account.dealt = Draw(number, self._random.randrange(256), account.in_place and bool(self.compared_sets))
        return account.dealt

    def settle(self, index: int, runnable: Runnable, spent_ns: int) -> None:
        """Take what the last execution came to, where the session leaves that to us."""
        account, outputs = self._accounts[index], None
        account.spent_ns += spent_ns
        # Chosen only now, and by chance: nothing that a variant can find says which of its executions are looked at.
        share = MOST_SHARE * self._random.uniform(0.9, 1.0)
        if not account.in_place and self.compared_sets and account.comparing_ns <= share * account.spent_ns:
            outputs = self._fetch(account, runnable)
        if self.bench.on_host:  # what it leaves changed is what those sampled beside it would find
            self.bench.put_back_process()
        if outputs is not None:
            self._compare(account, outputs)

    def examine(self, candidate: Candidate) -> Tally:
        """Compare further executions until they are enough, and return what all have come to."""
        assert candidate.runnable is not None
        account, session = self._accounts[candidate.index], self.bench.session
        began, allowed_ns = monotonic_ns(), max(LEAST_NS, int(MOST_SHARE * account.spent_ns) - account.comparing_ns)
        known = session.tally(candidate.runnable).compared if account.in_place else account.compared
        at_once = 1
        while self.compared_sets and known < WANTED and (spent_ns := monotonic_ns() - began) < allowed_ns:
            draws = [
                Draw(self._random.randrange(self.compared_sets), self._random.randrange(256), True)
                for _ in range(min(at_once, WANTED - known))
            ]
            account.dealt = draws[-1]
            session.execute(candidate.runnable, *draws)
            known += len(draws)
            if account.in_place:  # as many as fit into what is left of the time
                each_ns = max(monotonic_ns() - began - spent_ns, 1) / len(draws)
                at_once = max(1, min(AT_ONCE, int((allowed_ns - (monotonic_ns() - began)) / each_ns)))
            else:  # outputs that are fetched are those of the last execution
                self._compare(account, self._fetch(account, candidate.runnable))
        if account.in_place:
            return session.tally(candidate.runnable)
        return Tally(account.compared, account.wrong, None)

    def first_wrong(self, candidate: Candidate) -> str:
        """Return what was wrong with the first wrong result, where that was looked at here."""
        return self._accounts[candidate.index].first_wrong

    def find_memory(self, candidate: Candidate) -> str:
        """Return how much longer a variant takes on inputs that it meets for the first time; empty where it does not.

        Every set that nobody was given so far is met twice, one execution after the other, and after it one that it has
        long known. Of few of them nothing is concluded: one disturbed execution would be enough. Nor where those on
        known inputs vary by as much.
        """
        assert candidate.runnable is not None
        unseen = range(self.bench.workload.compared, self.count)
        if len(unseen) < UNSEEN_SETS or not {Measure.COLD, Measure.HOT} & {*candidate.timings}:
            return ""
        runnable, session = candidate.runnable, self.bench.session
        readings = []
        for number in unseen:
            fill = self._random.randrange(256)
            sets = (number, number, self._random.randrange(self.compared_sets))
            readings.append(
                [session.read(runnable, Measure.COLD, 1, partial(Draw, of, fill)).duration_ns for of in sets]
            )
        factor = HOST_TIMES_LONGER if self.bench.on_host else FIRST_TIMES_LONGER
        known_ns = max(three for _, _, three in readings)
        first, again, known = (sum(each) / len(readings) for each in zip(*readings, strict=True))
        count = f"{len(readings)} sets of inputs took {first / 1e3:.2f} µs when it met them first"
        if all(one > factor * max(two, known_ns) + LEAST_LONGER_NS for one, two, _ in readings):
            return f"it remembers: {count} and {again / 1e3:.2f} µs at once after"
        if all(min(one, two) > factor * known_ns + LEAST_LONGER_NS for one, two, _ in readings):
            return f"it remembers: {count}, and the sets that it is compared on {known / 1e3:.2f} µs"
        return ""

    def _fetch(self, account: _Account, runnable: Runnable) -> Arrays:
        began = monotonic_ns()
        outputs = self.bench.session.fetch(runnable)
        account.comparing_ns += monotonic_ns() - began
        return outputs

    def _compare(self, account: _Account, outputs: Arrays) -> None:
        """Hold outputs against what is right; the same bytes on the same inputs are compared once."""
        began = monotonic_ns()
        right, digest = account.right.setdefault(account.dealt.inputs, set()), self._digest(outputs)
        account.compared += 1
        if digest not in right:
            found = self._check(account, outputs)
            if found.passed and len(right) < KNOWN_RESULTS:
                right.add(digest)
            if not found.passed:
                account.wrong += 1
                account.first_wrong = account.first_wrong or found.message
        account.comparing_ns += monotonic_ns() - began

    def _check(self, account: _Account, outputs: Arrays) -> Check:
        workload, number = self.bench.workload, account.dealt.inputs
        reference, tolerance = workload.sets[number].reference, account.tolerances[number]
        assert reference is not None
        assert tolerance is not None
        return compare(outputs, reference.open(), tolerance, workload.seed)

    def _digest(self, outputs: Arrays) -> bytes:
        """Return what tells results apart; with a key, as nobody is to make another result of the same digest."""
        digest = blake2b(key=self._key, digest_size=16)
        for name in sorted(outputs):
            digest.update(np.ascontiguousarray(outputs[name]).reshape(-1).view(np.uint8).data)
        return digest.digest()
