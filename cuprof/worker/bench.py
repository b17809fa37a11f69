"""Where the trials of one job are checked: the session that holds their arrays, and what is right for them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cuprof.backends.contract import POISON_BYTE, SECOND_POISON_BYTE, Runnable, Session
from cuprof.records import State
from cuprof.worker.candidate import Candidate, Enter
from cuprof.worker.check import check_tolerance, compare
from cuprof.worker.messages import Finished, Job
from cuprof.worker.status_page import Phase
from cuprof.worker.workload import Workload, read_only


@dataclass(frozen=True)
class Bench:
    """What the candidates of a job have in common.

    Args:
        session: holds the workload's inputs, and watches them.
        enter: told of every step before it is taken.
    """

    job: Job
    workload: Workload
    session: Session[Runnable]
    enter: Enter

    def prepare(self, candidate: Candidate) -> None:
        """Build the candidate and bind it to the session's arrays."""
        candidate.runnable = self.session.prepare(
            candidate.variant,
            self.job.problem,
            candidate.trial.tunables,
            candidate.program,
            candidate.trial.source_text,
        )

    def check(self, candidate: Candidate) -> None:
        """Run the candidate on poisoned arrays and compare with the reference; damage that it does is put right."""
        assert candidate.runnable is not None
        self.session.poison(candidate.runnable, SECOND_POISON_BYTE if candidate.check else POISON_BYTE)
        self.session.run(candidate.runnable)
        tolerance = self.workload.tolerance
        own = candidate.variant.tolerance
        if own is not None:
            with read_only(self.workload.inputs):
                tolerance = own(self.job.problem, self.workload.inputs, self.workload.reference)
            check_tolerance(tolerance, f"the tolerance of {candidate.variant.name}")
        reference, seed = self.workload.reference, self.workload.seed
        check = self.session.check_in_place(candidate.runnable, reference, tolerance, seed) or compare(
            self.session.fetch(candidate.runnable), reference, tolerance, seed
        )
        candidate.check = check
        damage = self.find_damage()
        if damage:
            self.restore_inputs()
            wrong = "" if check.passed else f"{check.message}; "
            message = f"{wrong}{damage}; the variants after it were given the inputs anew"
            candidate.check = replace(check, passed=False, error=float("inf"), message=message)

    def recheck(self, candidate: Candidate) -> Finished:
        """Check once more, after timing where there is any: a variant that is right only the first time is wrong."""
        failed = candidate.attempt(Phase.CHECK, self.check, self.enter)
        if failed:
            return failed
        if candidate.check is not None and not candidate.check.passed:
            when = "before timing, wrong after it" if candidate.timings else "at first, wrong the second time"
            message = f"right {when}: {candidate.check.message}"
            return candidate.finish(State.WRONG_RESULT, message, phase="recheck")
        return candidate.finish(State.OK)

    def find_damage(self) -> str:
        """Return what was done to memory that is not a variant's to write, as the end of a sentence, or nothing."""
        overwritten = self.session.damaged_inputs()
        overrun = self.session.overrun_arrays()
        done = [f"overwrites its input {', '.join(overwritten)}"] if overwritten else []
        done += [f"writes outside its {', '.join(overrun)}"] if overrun else []
        return f"it {' and '.join(done)}" if done else ""

    def mend_damage(self) -> bool:
        """Put right what a variant did before it raised, if anything, and return whether there was any."""
        if not self.find_damage():
            return False
        self.restore_inputs()
        return True

    def restore_inputs(self) -> None:
        """Give the session the inputs that the job's seed makes, since a variant has overwritten them."""
        fresh = self.workload.family.generate(self.job.problem, np.random.default_rng(self.job.seed))
        self.session.restore_inputs(fresh)
