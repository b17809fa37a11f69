"""A few candidates that share the device: checked one by one, timed in rounds, and checked again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from cuprof.core.errors import TamperedError
from cuprof.core.records import DOUBT, Measure, State, Timing
from cuprof.core.text import list_first
from cuprof.worker.bench import Bench
from cuprof.worker.candidate import Candidate
from cuprof.worker.energy_meter import EnergyMeter
from cuprof.worker.messages import Finished
from cuprof.worker.rounds import Rounds
from cuprof.worker.seal import Seal
from cuprof.worker.status_page import Phase

Step = Callable[[Sequence[Candidate]], Iterable[Candidate]]
"""A step runs some candidates side by side and yields each as soon as it is done."""


class Rotation:
    """Answer a few candidates, except those whose samples do not count.

    Args:
        energy: measures the energy of an execution.
        begin: called once for each candidate, before its own code is first run.

    Attributes:
        apart: once `run` has ended, the candidates to start again, each by itself. They change settings of the device,
            or an unknown one among them has damaged the shared arrays.
    """

    def __init__(
        self,
        bench: Bench,
        rounds: Rounds,
        energy: EnergyMeter,
        candidates: Sequence[Candidate],
        begin: Callable[[], None],
    ) -> None:
        self.bench, self.rounds, self.energy, self.candidates, self.begin = bench, rounds, energy, candidates, begin
        self.apart: list[Candidate] = []
        self._seals: dict[tuple[int, Measure], Seal] = {}

    def run(self) -> Iterator[Finished]:
        """Yield a `Finished` for each candidate that can be answered; after one that is lost, nothing more can run."""
        right: list[Candidate] = []
        for candidate in self.candidates:
            needs_own = candidate.changes_settings
            finished = self._check(candidate)
            if candidate.check is not None:
                self.rounds.stay_warm()
            finished = self._put_back(candidate) or finished
            replaced = self.bench.find_replaced(candidate)
            if replaced:
                yield _tampered(candidate, replaced)
                return
            if finished is None:
                (right if candidate.changes_settings == needs_own else self.apart).append(candidate)
                continue
            yield finished
            if finished.lost:
                return
            if finished.outcome.state is not State.WRONG_RESULT:  # after that one, the check itself has put it right
                self.bench.mend_damage()  # done before it raised, and not to be laid at the next one's door
        measures = [measure for measure in self.bench.job.methods if measure in self.rounds.backend.spec.measures]
        yield from self._time(right, measures) if measures else map(self._recheck, right)

    def _check(self, candidate: Candidate) -> Finished | None:
        """Build and check the candidate; return how it failed, or None."""
        if not candidate.begun:
            candidate.begun = True
            self.begin()
        bench = self.bench
        failed = candidate.attempt(Phase.BUILD, bench.prepare, bench.enter) or candidate.attempt(
            Phase.CHECK, bench.check, bench.enter
        )
        if failed:
            return failed
        if candidate.check and not candidate.check.passed:
            return candidate.finish(State.WRONG_RESULT, candidate.check.message, phase="check")
        return candidate.attempt(Phase.CHECK, self.rounds.executions.enter, bench.enter)

    def _recheck(self, candidate: Candidate) -> Finished:
        """Answer a candidate that is not timed."""
        finished = self.bench.recheck(candidate)
        replaced = self.bench.find_replaced(candidate)
        return _tampered(candidate, replaced) if replaced else finished

    def _put_back(self, candidate: Candidate) -> Finished | None:
        """Undo the candidate's changes; return its answer if that fails."""
        return candidate.attempt(Phase.CHECK, self.bench.put_back, self.bench.enter)

    def _time(self, candidates: Sequence[Candidate], measures: Sequence[Measure]) -> Iterator[Finished]:
        """Take each measure of all candidates side by side, and answer each candidate after its last one."""
        steps: list[Step] = [partial(self._sample, measure) for measure in measures]
        if self.bench.job.measure.energy and self.rounds.backend.spec.heeds("energy"):
            steps[1:1] = [partial(self._meter, measures[0]), *([iter] if len(measures) == 1 else [])]
        going = {candidate.index: candidate for candidate in candidates}
        for number, step in enumerate(steps, 1):
            done: set[int] = set()
            while left := [candidate for candidate in going.values() if candidate.index not in done]:
                try:
                    for candidate in step(left):
                        done.add(candidate.index)
                        if number < len(steps):
                            continue
                        self.rounds.attend(candidate.index)
                        replaced = self.bench.find_replaced(*going.values())
                        if replaced:
                            yield from self._find_tamperer(list(going.values()), replaced)
                            return
                        damage = self.bench.find_damage()
                        if damage:
                            yield from self._find_culprit(list(going.values()), damage)
                            return
                        finished = self._examine(candidate, is_last=len(going) == 1)
                        finished = self._put_back(candidate) or finished
                        self._verify(candidate)
                        if replaced := self.bench.find_replaced(*going.values()):  # not to be laid at the next one's
                            yield from self._find_tamperer(list(going.values()), replaced)
                            return
                        del going[candidate.index]
                        yield finished
                        if finished.lost:
                            return
                except TamperedError as error:
                    yield from self._find_tamperer(list(going.values()), [str(error)])
                    return
                except Exception as error:  # whatever a variant raises costs its own trial alone
                    finished = going.pop(self.rounds.current).fail(Phase.TIME, error)
                    yield finished
                    if finished.lost:
                        return
                    if self.bench.mend_damage():
                        self.apart += going.values()
                        return

    def _sample(self, measure: Measure, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """Yield each candidate once its timing is known; it counts, whatever happens to its neighbours."""
        for candidate, timing in self.rounds.sample(candidates, measure):
            candidate.timings[measure] = timing
            seal = self._seals[candidate.index, measure] = Seal()
            seal.add(_encode(timing))
            yield candidate

    def _meter(self, measure: Measure, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """Yield each candidate once its energy is recorded beside its timing.

        No other work comes between two of them, so one step of the counter ends one and begins the next.
        """
        for candidate in candidates:
            self.rounds.attend(candidate.index)
            candidate.timings[measure] = self.energy.add(candidate, candidate.timings[measure])
            self.rounds.keep_warm()
            yield candidate

    def _verify(self, candidate: Candidate) -> None:
        """Raise `TamperedError` if the times to report differ from the times measured."""
        for measure, timing in candidate.timings.items():
            self._seals[candidate.index, measure].verify([_encode(timing)], "Candidate.timings")

    def _examine(self, candidate: Candidate, *, is_last: bool) -> Finished:
        """Answer a candidate by the comparison of its timed executions and a last check.

        Args:
            is_last: it is the last one timed in this rotation.
        """
        executions, runnable = self.rounds.executions, candidate.runnable
        assert runnable is not None
        tally = executions.examine(candidate)
        for measure, timing in candidate.timings.items():
            candidate.timings[measure] = replace(timing, details={**timing.details, "compared": tally.compared})
        if tally.wrong:
            first = executions.first_wrong(candidate)
            message = f"wrong in {tally.wrong} of {tally.compared} executions that were compared"
            message += f": {first}" if first else ""
            candidate.timings = {}
            return candidate.finish(State.WRONG_RESULT, message + self.bench.find_lateness(candidate), phase="time")
        if skipping := executions.find_skipping(candidate):
            candidate.timings = {}
            return candidate.finish(State.WRONG_RESULT, skipping, phase="time")
        memory = executions.find_memory(candidate)
        if wrong := executions.find_unseen_wrong(candidate):
            candidate.timings = {}
            message = f"wrong on inputs that it first met after timing: {wrong}"
            return candidate.finish(State.WRONG_RESULT, message, phase="time")
        doubts = [memory] + [str(timing.details.get(DOUBT) or "") for timing in candidate.timings.values()]
        doubt = next(filter(None, doubts), "")
        if (
            not doubt and candidate.program is None and self.bench.job.isolated and is_last
        ):  # records may slow what follows
            doubt = self.bench.session.find_outside(runnable)
        if doubt:
            return candidate.finish(State.IMPLAUSIBLE, doubt, phase="time")
        return self._show(candidate) or self.bench.recheck(candidate, tally.compared)

    def _show(self, candidate: Candidate) -> Finished | None:
        """Let the engine's clock see the candidate; return how it failed, or None."""
        failed, check = candidate.attempt(Phase.TIME, self.bench.show, self.bench.enter), candidate.check
        if failed or check is None or check.passed:
            return failed
        candidate.timings = {}
        return candidate.finish(State.WRONG_RESULT, f"wrong under the engine's clock: {check.message}", phase="time")

    def _find_tamperer(self, candidates: Sequence[Candidate], replaced: Sequence[str]) -> Iterator[Finished]:
        """Answer the one candidate that can have replaced something; of several, leave each to itself."""
        if len(candidates) > 1:
            self.apart += candidates
        else:
            yield _tampered(candidates[0], replaced)

    def _find_culprit(self, candidates: Sequence[Candidate], damage: str) -> Iterator[Finished]:
        """Answer the one candidate that can have done the damage; of several, leave each to a rotation of its own."""
        self.bench.restore_inputs()
        if len(candidates) > 1:
            self.apart += candidates
            return
        (culprit,) = candidates
        assert culprit.check is not None
        culprit.timings = {}
        message = f"{damage} while it is timed"
        culprit.check = replace(culprit.check, passed=False, error=float("inf"), message=message)
        yield culprit.finish(State.WRONG_RESULT, message, phase="time")


def _encode(timing: Timing) -> bytes:
    """Return the durations of a timing as bytes."""
    durations = [sample.duration_ns for sample in timing.samples]
    return struct.pack(f"<{len(durations)}d", *durations) + repr(timing.summary).encode()


def _tampered(candidate: Candidate, replaced: Sequence[str]) -> Finished:
    """Return the answer to a candidate that replaced what judges it; its process is believed no more."""
    candidate.timings = {}
    message = f"it replaced {list_first(replaced, 3)}, which checks and times it"
    finished = candidate.finish(State.IMPLAUSIBLE, message, phase="check")
    return replace(finished, lost=True)
