"""Timed executions are the ones that are compared: choose the inputs of each, and keep count of its results."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from time import monotonic_ns

from cuprof.backends.contract import Draw, Runnable, Tally
from cuprof.core.records import Check, Measure
from cuprof.families import Arrays
from cuprof.worker.bench import Bench
from cuprof.worker.candidate import Candidate
from cuprof.worker.seal import Seal

WANTED = 240
"""Compare up to this many executions of a trial, within `MOST_SHARE` of its sampling time. A variant that is wrong in
one execution of fifty is found with a probability of 99.2 %."""
BEYOND = 8
"""After that, compare every Nth sample on average."""
AGAIN = 8
"""Repeat the previous set of inputs once in this many draws, on average."""
MOST_SHARE, IN_PLACE_SHARE = 0.2, 0.1
"""Fractions of the sampling time to spend on comparing. The second applies where the device compares every sample
already."""
LEAST_NS = 5_000_000
"""Compare executions for at least this long in any case."""
POOL_BYTES = 4096
"""Draw random bytes from the system in blocks of this size, at a tenth of the cost of single ones."""
AT_ONCE = 32
"""Enqueue at most this many executions on a device before waiting for them."""
SPOILT = 3
"""Spoil an element of a result and compute it again this many times; a spoilt byte may happen to be right."""
TIMES_LONGER, LEAST_LONGER_NS = 1.25, 1_500.0
"""A variant remembers its inputs if each first meeting takes longer than a repeat by this factor and this much time,"""
MEETINGS = 7
"""this many times in a row. A first meeting is compared with the median and with repeats right after it, and the
message shows the repeats. Up to a quarter of the median's samples may be first meetings. On simulated hosts this
accuses up to 5 in 100,000 honest variants."""
TIMES_AHEAD = 2.0
"""A variant works ahead if it takes this many times as long when the clock starts as soon as its inputs are written.
Freshly written memory must leave the caches first, so honest variants are slower too. If the arrays fit half of the
cache, they stay there and `TIMES_LONGER` is enough."""
TIMES_KEPT = 4.0
"""A variant keeps its last result if it takes this many times as long on other inputs as on the previous ones, with as
much written before both. Honest code differs too, since a processor predicts branches that it has just taken: sorting
the same few thousand numbers again takes a third of the time."""
MOST_LUCKY = 1
"""Tolerate this many quick executions among these; a thread may have been lucky."""
LONGEST_NS = 1e9
"""Skip the memory test for kernels slower than this: a variant remembers in order to be fast."""


@dataclass
class _Account:
    """The executions of one trial so far.

    Attributes:
        in_place: the session compares; otherwise its outputs are fetched and compared here.
        compared_on: sets of inputs that it was compared on; the check compared the first.
        verdicts: whether each result compared here was right; sealed, since they are within a variant's reach.
        first_wrong: message of the first wrong result found here.
        unseen: results on inputs first met after timing, with the number of the set.
    """

    candidate: Candidate
    in_place: bool
    dealt: Draw = field(default_factory=Draw)
    spent_ns: int = 0
    comparing_ns: int = 0
    dealt_count: int = 0
    dealt_to_compare: int = 0
    compared_on: set[int] = field(default_factory=lambda: {0})
    verdicts: list[bool] = field(default_factory=list)
    seal: Seal = field(default_factory=Seal)
    first_wrong: str = ""
    unseen: list[tuple[int, Arrays]] = field(default_factory=list)


class Executions:
    """Choose the inputs of each execution of a job's trials, and keep count of the results.

    Args:
        count: how many of the workload's sets the session has room for.
    """

    def __init__(self, bench: Bench, count: int) -> None:
        self.bench, self.count = bench, count
        self.compared_sets = min(count, bench.workload.compared)
        self._bytes = iter(b"")
        self._looked_at = bench.workload.compared + secrets.randbelow(max(count - bench.workload.compared, 1))
        """The one set without a reference whose results are compared. Only one, since a reference may take long."""
        self._accounts: dict[int, _Account] = {}

    def enter(self, candidate: Candidate) -> None:
        """Start comparing a candidate's executions."""
        assert candidate.runnable is not None
        on_device = bool(self.count) and not self.bench.workload.needs_host
        in_place = on_device and self.bench.session.expect(candidate.runnable, candidate.tolerances)
        self._accounts[candidate.index] = _Account(candidate, in_place)

    def deal(self, index: int) -> Draw:
        """Return the inputs and fill for a candidate's next execution."""
        account = self._accounts[index]
        # What is fetched is chosen after its execution (`settle`): no variant can find which executions are looked at.
        compare = account.in_place and bool(self.compared_sets) and self._is_due(account)
        return self._draw(account, compare=compare)

    def _is_due(self, account: _Account) -> bool:
        return account.dealt_to_compare < WANTED or self._byte() % BEYOND == 0

    def _draw(self, account: _Account, *, compare: bool) -> Draw:
        """Draw a set of inputs, preferring sets not yet compared, so that all are met even if few comparisons fit.

        The same set seldom comes twice in a row, which would help a variant that keeps its last result. It sometimes
        does, which catches a variant that counts on a different one.
        """
        missing = [number for number in range(self.compared_sets) if number not in account.compared_on]
        sets = missing if missing and (compare or not account.in_place) else range(max(self.compared_sets, 1))
        again = self._byte() % AGAIN == 0
        sets = [number for number in sets if (number == account.dealt.inputs) is again] or sets
        account.dealt = Draw(sets[self._byte() % len(sets)], self._byte(), compare)
        if compare:
            self._note(account)
        return account.dealt

    def _note(self, account: _Account) -> None:
        account.dealt_to_compare += 1
        account.compared_on.add(account.dealt.inputs)

    def _byte(self) -> int:
        """Return a random byte that no variant can foresee, or choose by a seed."""
        byte = next(self._bytes, None)
        if byte is None:
            self._bytes = iter(secrets.token_bytes(POOL_BYTES))
            byte = next(self._bytes)
        return byte

    def settle(self, index: int, runnable: Runnable, spent_ns: int) -> None:
        """Process the result of the last execution, unless the session compares it itself."""
        account, outputs = self._accounts[index], None
        account.spent_ns += spent_ns
        account.dealt_count += 1
        if self.compared_sets and not account.in_place:
            share = MOST_SHARE * (1 - self._byte() / 2560)  # a little by chance, so that no variant can foresee it
            if account.comparing_ns <= share * account.spent_ns and self._is_due(account):
                self._note(account)
                outputs = self._fetch(account, runnable)
        self.bench.put_back(account.candidate, sampled=True)
        if outputs is not None:
            self._compare(account, outputs)

    def examine(self, candidate: Candidate) -> Tally:
        """Compare further executions until there are enough, and return the count of all.

        Raises:
            TamperedError: the recorded verdicts have been changed since.
        """
        assert candidate.runnable is not None
        account, session = self._accounts[candidate.index], self.bench.session
        share = IN_PLACE_SHARE if account.in_place else MOST_SHARE
        began, allowed_ns = monotonic_ns(), max(LEAST_NS, int(share * account.spent_ns) - account.comparing_ns)
        known = session.tally(candidate.runnable).compared if account.in_place else len(account.verdicts)
        at_once = 1
        while self.compared_sets and known < WANTED:
            spent_ns = monotonic_ns() - began
            next_ns = account.spent_ns // max(account.dealt_count, 1)
            if spent_ns + next_ns >= allowed_ns and len(account.compared_on) == self.compared_sets:
                break
            draws = [self._draw(account, compare=True) for _ in range(min(at_once, WANTED - known))]
            session.execute(candidate.runnable, *draws)
            known += len(draws)
            if account.in_place:  # as many as fit into what is left of the time
                each_ns = max(monotonic_ns() - began - spent_ns, 1) / len(draws)
                at_once = max(1, min(AT_ONCE, int((allowed_ns - (monotonic_ns() - began)) / each_ns)))
            else:  # outputs that are fetched are those of the last execution
                self._compare(account, self._fetch(account, candidate.runnable))
        if account.in_place:
            return session.tally(candidate.runnable)
        account.seal.verify(map(_encode, account.verdicts), "Executions.verdicts")
        return Tally(len(account.verdicts), account.verdicts.count(False))

    def find_skipping(self, candidate: Candidate) -> str:
        """Return an error if a variant skips work because its result is already there, or an empty string.

        One element of the result is spoilt first. A variant that returns early leaves it spoilt.
        """
        account, session, runnable = self._accounts[candidate.index], self.bench.session, candidate.runnable
        assert runnable is not None
        if Measure.HOT not in candidate.timings or self.bench.restores(candidate):
            return ""
        for _ in range(SPOILT):
            session.execute(runnable, self._draw(account, compare=False))
            session.spoil(runnable, self._byte() / 256, self._byte())
            session.run(runnable)
            check = self._check(account, session.fetch(runnable))
            if not check.passed:
                return f"it skips the work when its result is already there, as in back-to-back runs: {check.message}"
        return ""

    def first_wrong(self, candidate: Candidate) -> str:
        """Return the message of the first wrong result, if it was compared here."""
        return self._accounts[candidate.index].first_wrong

    def find_memory(self, candidate: Candidate) -> str:
        """Return a message if a variant takes longer on inputs that it never met, or an empty string.

        On the host, for further inputs, the clock starts as soon as they are written. In other cold samples the caches
        are flushed in between, and a thread of the variant could do its work then. A variant that does no work on
        unknown inputs takes no longer, so those results must be compared, too (`find_unseen_wrong`).
        """
        number = self.bench.workload.compared
        usual = candidate.timings.get(Measure.COLD) or candidate.timings.get(Measure.HOT)
        if usual is None or usual.summary.median_ns > LONGEST_NS:
            return ""
        usual_ns = usual.summary.median_ns
        if found := self._find_longer(candidate, number, Measure.COLD, TIMES_LONGER, usual_ns):
            first, known = found
            return (
                f"it remembers: {MEETINGS} new sets of inputs took {first / 1e3:.2f} µs, "
                f"known ones {known / 1e3:.2f} µs"
            )
        times = TIMES_LONGER if self.bench.fits_caches else TIMES_AHEAD
        if self.bench.on_host and (
            found := self._find_longer(candidate, number + 1, Measure.HOT, times, usual_ns, MOST_LUCKY)
        ):
            at_once, later = found
            return (
                f"it works ahead: {MEETINGS} executions took {at_once / 1e3:.2f} µs when the clock started as soon as "
                f"their inputs were there, {later / 1e3:.2f} µs when it started later"
            )
        return self._find_last_kept(candidate)

    def find_unseen_wrong(self, candidate: Candidate) -> str:
        """Return the message of a wrong result on inputs first met after timing, or an empty string.

        Raises:
            TamperedError: a variant has replaced the code that compares.
        """
        for number, outputs in self._accounts[candidate.index].unseen if self.bench.looks_late else ():
            if number != self._looked_at:
                continue
            check = self.bench.judge_unseen(candidate, outputs, number)
            if not check.passed:
                return check.message
        return ""

    def _find_last_kept(self, candidate: Candidate) -> str:
        """Return the message for a variant that reuses its last result, or an empty string."""
        bench, runnable, timing = self.bench, candidate.runnable, candidate.timings.get(Measure.HOT)
        assert runnable is not None
        if timing is None or timing.details["batch"] == 1 or self.compared_sets < 2 or bench.be_seen is None:
            return ""
        if bench.restores(candidate):
            return ""
        known, pairs = 0, list[tuple[float, float]]()
        bench.session.execute(runnable, Draw(known, self._byte()))
        while len(pairs) < MEETINGS:
            again_ns, known = self._clocked(runnable, known), (known + 1) % self.compared_sets
            other_ns = self._clocked(runnable, known)
            if other_ns <= TIMES_KEPT * again_ns + LEAST_LONGER_NS:
                return ""
            pairs.append((again_ns, other_ns))
        again, other = (sum(each) / len(pairs) for each in zip(*pairs, strict=True))
        return (
            f"it keeps its last result: {MEETINGS} executions took {again / 1e3:.2f} µs on the inputs of the one "
            f"before, {other / 1e3:.2f} µs on others"
        )

    def _clocked(self, runnable: Runnable, number: int) -> float:
        """Return the time of an execution on a set, on the outputs that the last one left."""
        self.bench.session.restore_inputs(self.bench.workload.sets[number].inputs)
        return self.bench.session.clocked(runnable)

    def _find_longer(
        self, candidate: Candidate, number: int, measure: Measure, times: float, usual_ns: float, exceptions: int = 0
    ) -> tuple[float, float] | None:
        """Return the mean times in ns on sets that were never met, and on known ones; None where they are alike.

        Where one took longer than usual, all that the variant is compared on are given once more. One disturbed
        execution would be enough to look like memory: others are drawn until more than these exceptions say otherwise.
        """
        assert candidate.runnable is not None
        if self.count <= number:
            return None
        bench, pairs = self.bench, list[tuple[float, float]]()
        account, sets = self._accounts[candidate.index], range(self.compared_sets)
        searched = bench.job.isolated and candidate.calls_host  # those that lie ready may have been found, and solved
        while len(pairs) < MEETINGS:
            if pairs or searched:
                bench.session.restock(number, bench.workload.redraw(number))
                account.unseen = [each for each in account.unseen if each[0] != number]
                self._read_known(candidate.runnable)  # what was drawn has emptied the caches of the host's own code
            first_ns = self._read(candidate.runnable, number, measure)
            outputs = self._fetch(account, candidate.runnable) if bench.looks_late else {}
            known_ns = usual_ns
            if first_ns > times * usual_ns + LEAST_LONGER_NS:
                known_ns = sum(self._read_known(candidate.runnable, each) for each in sets) / len(sets)
            if first_ns > times * known_ns + LEAST_LONGER_NS:
                pairs.append((first_ns, known_ns))
                continue
            account.unseen.append((number, outputs))
            if not exceptions:
                return None
            exceptions -= 1
        first, known = (sum(each) / len(pairs) for each in zip(*pairs, strict=True))
        return first, known

    def _read_known(self, runnable: Runnable, number: int | None = None) -> float:
        number = self._byte() % self.compared_sets if number is None else number
        return self._read(runnable, number, Measure.COLD)

    def _read(self, runnable: Runnable, number: int, measure: Measure) -> float:
        """Return the time of an execution on a set."""
        frame = self.bench.session.begin(runnable, measure, 1, lambda: Draw(number, self._byte()))
        return frame.reading().duration_ns

    def _fetch(self, account: _Account, runnable: Runnable) -> Arrays:
        began = monotonic_ns()
        outputs = self.bench.session.fetch(runnable)
        account.comparing_ns += monotonic_ns() - began
        return outputs

    def _compare(self, account: _Account, outputs: Arrays) -> None:
        """Compare outputs with the reference and record the verdict."""
        began = monotonic_ns()
        found = self._check(account, outputs)
        account.verdicts.append(found.passed)
        account.seal.add(_encode(found.passed))
        if not found.passed:
            account.first_wrong = account.first_wrong or found.message
        account.comparing_ns += monotonic_ns() - began

    def _check(self, account: _Account, outputs: Arrays) -> Check:
        return self.bench.judge(account.candidate, outputs, account.dealt.inputs)


def _encode(is_right: bool) -> bytes:
    return b"\1" if is_right else b"\0"
