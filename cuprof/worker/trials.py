"""Carry out one job: build, check and time the trials of one problem on one back end."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress

from cuprof.backends.contract import Backend, Runnable, Session
from cuprof.backends.device_state import StateMonitor
from cuprof.backends.registry import is_host
from cuprof.core.point import Point
from cuprof.families import Family, Program, Variant
from cuprof.plan.memory import arena_bytes
from cuprof.worker.bench import Bench, BeSeen
from cuprof.worker.candidate import Candidate, Enter
from cuprof.worker.energy_meter import EnergyMeter
from cuprof.worker.executions import Executions
from cuprof.worker.held import Held
from cuprof.worker.integrity import Integrity
from cuprof.worker.messages import Finished, Job, JobTrial
from cuprof.worker.method import reading_options
from cuprof.worker.opened import OPENED
from cuprof.worker.process_state import ProcessState
from cuprof.worker.rotation import Rotation
from cuprof.worker.rounds import Rounds
from cuprof.worker.status_page import NO_TRIAL, Phase
from cuprof.worker.workload import Workload


def make_ahead(
    family: Family, problem: Point, trials: Iterable[JobTrial], held: Held
) -> Iterator[tuple[Variant, Program, str]]:
    """Yield the programs of trials to compile ahead; errors are reported when the trial's own turn comes."""
    for trial in trials:
        with suppress(Exception):
            variant = family.variant(trial.variant)
            if variant.kind == "kernel":
                with OPENED.recorded(held.opened[trial.identity]):
                    program = variant.make(problem, trial.tunables)
                yield variant, program, trial.source_text


class TrialRunner:
    """Run the trials of one job, yielding each one's outcome as it is known.

    A trial that fails ends there; the others go on. After an error that loses the device context the generator stops,
    since nothing more can run in this process.

    Args:
        enter: called before every step of a trial with its index and the phase.
        begin: called once for each trial, before its own code is first run.
        integrity: what checks and times, as it was before the family was loaded.
        be_seen: has a trial that the host's own clock timed executed under the engine's.
        held: keeps the arrays for further blocks of the problem.
    """

    def __init__(
        self,
        backend: Backend[Runnable],
        workload: Workload,
        job: Job,
        enter: Enter,
        begin: Callable[[], None] = lambda: None,
        integrity: Integrity | None = None,
        be_seen: BeSeen = lambda *_: None,
        held: Held | None = None,
    ) -> None:
        self.backend, self.workload, self.job, self.enter, self.begin = backend, workload, job, enter, begin
        self.monitor = StateMonitor.find(backend.facts().uuid)
        self.be_seen, self.held = be_seen, held or Held()
        self.state, self.integrity = ProcessState(), integrity or Integrity()

    def run(self) -> Iterator[Finished]:
        """Yield a `Finished` for every trial of the job."""
        ready = yield from self._make_programs()
        if not is_host(self.backend.facts()):
            self._build(ready)
        opened = yield from self._open(ready)
        if opened is None:
            return
        key, session, stocked, ready = opened
        is_kept = False
        try:
            yield from self._run_rotations(session, stocked, ready)
            is_kept = self.job.is_block
        finally:
            if is_kept:
                self.held.keep(key, session, stocked)
            else:
                session.close()
            gc.unfreeze()

    def _make_programs(self) -> Generator[Finished, None, list[Candidate]]:
        """Answer those whose program cannot be made, and return the others."""
        family = self.workload.family
        candidates = [
            Candidate(index, trial, family.variant(trial.variant)) for index, trial in enumerate(self.job.trials)
        ]
        ready = []
        for candidate in candidates:
            failed = candidate.attempt(Phase.BUILD, self._make_program, self.enter)
            if failed:
                yield failed
            else:
                ready.append(candidate)
        return ready

    def _build(self, candidates: Sequence[Candidate]) -> None:
        """Begin to build side by side what was not built ahead of the job."""
        builds = [(c.variant, c.program, c.trial.source_text) for c in candidates if c.program]
        self.backend.build_ahead(self.workload.signature, builds)

    def _make_program(self, candidate: Candidate) -> None:
        if candidate.variant.kind == "kernel":
            candidate.opened |= self.held.opened.pop(candidate.trial.identity, set())
            with OPENED.recorded(candidate.opened):
                candidate.program = candidate.variant.make(self.job.problem, candidate.trial.tunables)

    def _open(
        self, ready: list[Candidate]
    ) -> Generator[Finished, None, tuple[tuple[object, ...], Session[Runnable], int, list[Candidate]] | None]:
        """Return the session with its key, its number of stocked sets, and the candidates with room in it.

        Candidates that need more scratch than available are answered.
        """
        options = reading_options(self.job.measure)
        while ready:
            arena = max(arena_bytes(candidate.program) for candidate in ready)
            self.enter(NO_TRIAL, Phase.INPUTS)
            key, session = (id(self.backend), id(self.workload), options, arena), None
            try:
                if kept := self.held.take(key):
                    session, stocked = kept
                    session.restore_inputs(self.workload.inputs)
                    return key, session, stocked, ready
                session = self.backend.open(self.workload.signature, self.workload.inputs, options, arena)
                stocked = session.stock(self.workload.sets)
                session.watch_inputs()
                return key, session, stocked, ready
            except Exception as error:  # those that want most scratch cannot run; without them the others may
                if session is not None:
                    with suppress(Exception):  # a lost context refuses this too, and its error is the one that counts
                        session.close()
                for candidate in ready:
                    if arena_bytes(candidate.program) == arena:
                        yield candidate.fail(Phase.INPUTS, error)
                ready = [candidate for candidate in ready if arena_bytes(candidate.program) < arena]
        return None

    def _run_rotations(
        self, session: Session[Runnable], stocked: int, candidates: Sequence[Candidate]
    ) -> Iterator[Finished]:
        """Give the candidates to the device a few at a time; those that a rotation leaves to themselves go next."""
        facts = self.backend.facts()
        bench = Bench(
            self.job,
            self.workload,
            session,
            self.enter,
            stocked,
            is_host(facts),
            self.state,
            self.integrity,
            self.be_seen if self.backend.spec.is_host else None,
            int(facts.details.get("last_level_cache_bytes") or 0),
        )
        executions = Executions(bench, stocked)
        rounds = Rounds(bench, self.backend, self.monitor, executions, self.held)
        energy = EnergyMeter(bench, self.backend, self.monitor)
        self.integrity.watch(bench, executions, rounds)
        size = self.job.measure.rotation if self.job.measure.interleave else 1
        waiting = deque(candidates[start : start + size] for start in range(0, len(candidates), size))
        while waiting:
            rotation = Rotation(bench, rounds, energy, waiting.popleft(), self.begin)
            if is_host(facts):  # no compiler takes part in times of the host: a rotation is built before it is timed
                self._build(rotation.candidates)
            for finished in rotation.run():
                yield finished
                if finished.lost:
                    return
            for candidate in rotation.candidates:
                candidate.release()
            session.put_back()
            waiting.extendleft([candidate] for candidate in reversed(rotation.apart))
