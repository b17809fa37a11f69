"""The bench on which the trials of one job are checked: a session with their arrays, and the reference results."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import cycle
from time import monotonic_ns

import numpy as np

from cuprof.backends.contract import (
    POISON_BYTE,
    SECOND_POISON_BYTE,
    DeviceLostError,
    Draw,
    Runnable,
    Session,
)
from cuprof.core.errors import BuildError, TamperedError
from cuprof.core.records import Check, Measure, State
from cuprof.core.text import list_first
from cuprof.families import Arrays
from cuprof.families.includes import relocate
from cuprof.plan.memory import signature_bytes
from cuprof.worker.candidate import Candidate, Enter
from cuprof.worker.check import tells_wrong
from cuprof.worker.integrity import Integrity
from cuprof.worker.messages import Finished, Job
from cuprof.worker.opened import OPENED
from cuprof.worker.process_state import ProcessState
from cuprof.worker.status_page import Phase
from cuprof.worker.workload import Workload

LATE = (
    "; the right result is there a moment later: the call leaves work on a stream or in a thread. Launch on the "
    "current stream (the default one), make it wait for yours (event.record, wait_event), or join the thread"
)
LATE_LOOKS = 3
"""Check a wrong result this many more times before ruling out that it merely arrives late."""
ENOUGH_COMPARED = 1
"""After this many right timed executions, skip the final check. The first of them ran on inputs that differ from the
check's."""
KNOWN_RESULTS = 256
"""Remember at most this many distinct results for each set of inputs. A variant that sums in any order keeps making new
ones."""
MOST_FETCHED = 32 << 20
"""Copy at most this many bytes of outputs from a device for the late comparison, which each trial needs anew."""
MOST_KEPT = 3
"""Keep at most this many results of earlier executions under the engine's clock, beside the last one."""

BeSeen = Callable[[int, float, Callable[[int, bool], float], bool], None]
"""Has a trial executed under the engine's clock. It takes the trial's index, its claimed time in nanoseconds, a
function that executes it (see `Execute`), and whether there is only a single execution to see."""


@dataclass(frozen=True)
class Bench:
    """State shared by the candidates of a job.

    Args:
        session: holds the workload's inputs and detects changes to them.
        enter: called before every step.
        stocked: how many of the workload's sets of inputs the session writes anew before executions.
        on_host: the device is the host's own processor.
        state: the process as it was before any variant's code ran.
        integrity: the checking and timing code, as it was then.
        be_seen: has executions timed by another process's clock; None if only the device's own clock can time them.
        cache_bytes: size of the host's last-level cache, if the host is the device.
        key: the key of the digests.
        right: digests of right results with their checks, by candidate index and set number. The index is None for
            candidates without a tolerance of their own.
    """

    job: Job
    workload: Workload
    session: Session[Runnable]
    enter: Enter
    stocked: int = 0
    on_host: bool = False
    state: ProcessState = field(default_factory=ProcessState)
    integrity: Integrity = field(default_factory=Integrity)
    be_seen: BeSeen | None = None
    cache_bytes: int = 0
    key: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    right: dict[tuple[int | None, int], dict[bytes, Check]] = field(default_factory=dict)

    def prepare(self, candidate: Candidate) -> None:
        """Build the candidate and bind it to the session's arrays; from then on its own code may run."""
        self.integrity.hide()
        variant = candidate.variant
        try:
            with OPENED.recorded(candidate.opened if candidate.program is None else set()):
                candidate.runnable = self.session.prepare(
                    variant, self.job.problem, candidate.trial.tunables, candidate.program, candidate.trial.source_text
                )
        except BuildError as error:
            where = variant.source, self.workload.family.folder
            raise BuildError(relocate(str(error), *where), relocate(error.log, *where)) from error

    def check(self, candidate: Candidate) -> None:
        """Run the candidate on poisoned arrays and compare with the reference; damage that it does is put right."""
        if not candidate.tolerances:
            candidate.tolerances = self.workload.held_to(candidate.variant)
        assert candidate.runnable is not None
        byte = SECOND_POISON_BYTE if candidate.check else POISON_BYTE
        started = monotonic_ns()
        if self.stocked:
            self.session.execute(candidate.runnable, Draw(0, byte))
        else:
            self.session.poison(candidate.runnable, byte)
            self.session.run(candidate.runnable)
        candidate.check_ns = monotonic_ns() - started
        check = self._compare(candidate)
        if not check.passed:
            check = replace(check, message=check.message + self.find_lateness(candidate))
        candidate.check = check
        self.blame_for_damage(candidate)

    def blame_for_damage(self, candidate: Candidate) -> None:
        """Fail the candidate's check if it wrote to memory that is not its own, and repair the damage."""
        check, damage = candidate.check, self.find_damage()
        if damage:
            assert check is not None
            self.restore_inputs()
            wrong = "" if check.passed else f"{check.message}; "
            message = f"{wrong}{damage}; the variants after it were given restored inputs"
            candidate.check = replace(check, passed=False, error=float("inf"), message=message)

    def _compare(self, candidate: Candidate) -> Check:
        """Compare the current outputs with the reference for the first set of inputs."""
        assert candidate.runnable is not None
        found = None
        if not self.workload.needs_host:
            tolerance = candidate.tolerances[0]
            assert tolerance is not None
            found = self.session.check_in_place(candidate.runnable, tolerance, self.workload.seed)
        return found or self.judge(candidate, self.session.fetch(candidate.runnable), 0)

    def judge(self, candidate: Candidate, outputs: Arrays, number: int) -> Check:
        """Return whether results on a set of inputs are right; the same bytes are compared once.

        Args:
            number: of the set.
        """
        tolerances = candidate.tolerances[number]
        assert tolerances is not None
        own = candidate.index if candidate.variant.tolerance else None
        right, digest = self.right.setdefault((own, number), {}), self._digest(outputs)
        if digest not in right:
            candidate.looks += 1
            check = self.workload.judge(outputs, number, tolerances, candidate.looks)
            if not check.passed or len(right) >= KNOWN_RESULTS:
                return check
            right[digest] = check
        return right[digest]

    @property
    def looks_late(self) -> bool:
        """Return whether results on sets without a reference are compared: where that takes little."""
        size = sum(spec.nbytes for spec in self.workload.signature.outputs.values())
        return self.workload.looks_late and (self.on_host or size <= MOST_FETCHED)

    def judge_unseen(self, candidate: Candidate, outputs: Arrays, number: int) -> Check:
        """Return whether results are right on a set without a reference; see `Workload.judge_unseen`.

        Raises:
            TamperedError: somebody has replaced what would say so.
        """
        if replaced := self.find_replaced(candidate):
            raise TamperedError(list_first(replaced, 3))
        candidate.looks += 1
        return self.workload.judge_unseen(outputs, number, candidate.variant, candidate.looks)

    def _digest(self, outputs: Arrays) -> bytes:
        """Return a digest of results, keyed so that a variant cannot forge another result with the same digest."""
        digest = blake2b(key=self.key, digest_size=16)
        for name in sorted(outputs):
            digest.update(np.ascontiguousarray(outputs[name]).reshape(-1).view(np.uint8).data)
        return digest.digest()

    def find_lateness(self, candidate: Candidate) -> str:
        """Return the message for a call that is right only after a full wait, or an empty string."""
        if candidate.runnable is None or not candidate.calls_host:
            return ""
        self.restore_inputs()
        self.session.poison(candidate.runnable, SECOND_POISON_BYTE)
        self.session.run(candidate.runnable)
        if self._compare(candidate).passed:  # wrong now and then, and not too late
            return ""
        for _ in range(LATE_LOOKS):  # on a busy host a thread is later than others
            self.session.wait()
            if self._compare(candidate).passed:
                return LATE
        return ""

    def recheck(self, candidate: Candidate, compared: int = 0) -> Finished:
        """Check once more, after any timing: a variant that is right only the first time is wrong.

        Args:
            compared: executions since then that were right; if there are any, only look for damage.
        """
        again = self.check if compared < ENOUGH_COMPARED else self.blame_for_damage
        failed = candidate.attempt(Phase.CHECK, again, self.enter)
        if failed:
            return failed
        if candidate.check is not None and not candidate.check.passed:
            when = "before timing, wrong after it" if candidate.timings else "at first, wrong the second time"
            message = f"right {when}: {candidate.check.message}"
            return candidate.finish(State.WRONG_RESULT, message, phase="recheck")
        return candidate.finish(State.OK)

    def show(self, candidate: Candidate) -> None:
        """Execute a candidate that has been timed under the engine's clock too, where it was timed by the host's."""
        medians = [
            timing.summary.median_ns for measure, timing in candidate.timings.items() if measure != Measure.TOTAL
        ]
        if self.be_seen is None or not medians or candidate.runnable is None or candidate.was_seen(max(medians)):
            return
        found: list[tuple[int, Arrays]] = []
        turns = cycle(range(max(self.stocked, 1)))  # never the inputs of the last time
        self.be_seen(candidate.index, max(medians), partial(self._execute, candidate.runnable, turns, found), False)
        for number, outputs in found:
            check = self.judge(candidate, outputs, number)
            if not check.passed:
                candidate.check = check
                return

    def _execute(
        self, runnable: Runnable, turns: Iterator[int], found: list[tuple[int, Arrays]], count: int, only_write: bool
    ) -> float:
        """Execute right after writing inputs and outputs, fetch the results, and return the ns of our own clock.

        No result is there yet, no variant can have worked ahead, and work postponed until the results are fetched falls
        within the engine's time. One result, chosen after its execution, is kept for comparison.
        """
        kept, own_ns = list[tuple[int, Arrays]](), 0.0
        for place in range(count):
            number = next(turns)
            self.session.restore_inputs(self.workload.sets[number].inputs)
            self.session.poison(runnable)
            if not only_write:
                own_ns += self.session.clocked(runnable)
            outputs = self.session.fetch(runnable)
            if secrets.randbelow(place + 1) == 0:  # each of them with the same chance
                kept = [(number, outputs)] if number < self.workload.compared else []
        if not only_write:
            found[:] = [*found[-MOST_KEPT:], *kept]
        return own_ns

    @property
    def fits_caches(self) -> bool:
        """Return whether the arrays fill at most half of the last-level cache."""
        return 0 < 2 * signature_bytes(self.workload.signature) <= self.cache_bytes

    def restores(self, candidate: Candidate) -> bool:
        """Return whether an execution changes data that must be restored for the next one."""
        return bool(self.workload.family.in_place or (candidate.program and candidate.program.setup))

    def put_back(self, candidate: Candidate, *, sampled: bool = False) -> None:
        """Undo a candidate's changes to process and device, except device settings known to be its own.

        Args:
            sampled: called after one of its samples: undo only changes that could affect its neighbours.

        Raises:
            DeviceLostError: a change cannot be undone, or results are no longer compared correctly, so this process
                must not time other variants.
        """
        if candidate.calls_host or not sampled:
            changed = self.session.put_back(settings=not candidate.changes_settings)
            candidate.changes_settings |= changed and not sampled  # it has company until its rotation is over
        if self.on_host or not sampled:
            left = self.state.put_back()
            if left:
                raise DeviceLostError(f"it changed state of the process that cannot be restored: {', '.join(left)}")
        if candidate.calls_host and not sampled and not tells_wrong():
            raise DeviceLostError(
                "it changed the comparison in memory: a wrong result now passes, or a right one fails"
            )

    def find_replaced(self, *candidates: Candidate) -> tuple[str, ...]:
        """Return what of the judge any of these has replaced, put back; a kernel's own code runs elsewhere."""
        return self.integrity.mend() if any(candidate.calls_host for candidate in candidates) else ()

    def find_damage(self) -> str:
        """Return the damage outside a variant's own memory, as the end of a sentence, or an empty string."""
        overwritten = self.session.damaged_inputs()
        overrun = self.session.overrun_arrays()
        done = [f"overwrites its input {', '.join(overwritten)}"] if overwritten else []
        done += [f"writes outside its {', '.join(overrun)}"] if overrun else []
        return f"it {' and '.join(done)}" if done else ""

    def mend_damage(self) -> bool:
        """Repair the damage of a variant that raised, and return whether there was any."""
        if not self.find_damage():
            return False
        self.restore_inputs()
        return True

    def restore_inputs(self) -> None:
        """Write the first inputs again, since a variant has overwritten them."""
        self.session.restore_inputs(self.workload.inputs)
