"""Carry out one job: build, check and time the trials of one problem on one back end."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cuprof.backends.contract import Backend, Runnable, Session, arena_bytes
from cuprof.backends.registry import is_host
from cuprof.builds.pool import MOST_PROCESSES
from cuprof.core.point import Point
from cuprof.families import Program, Variant
from cuprof.worker.messages import Finished, Job, JobTrial
from cuprof.worker.method import reading_options
from cuprof.worker.opened import recorded
from cuprof.worker.problem import Problem
from cuprof.worker.rotation import Rotations
from cuprof.worker.status_page import NO_TRIAL, Phase, StatusPage
from cuprof.worker.trial import Trial

FOLLOWING_S = 0.05
"""Once something is built, wait for this long until a rotation is full."""


@dataclass
class Held:
    """What stays of a job for the next one. To open a session takes most of a second where inputs are large.

    Attributes:
        programs: by a trial's identity, the program that was made ahead, and the files that were opened for it.
        session: the arrays of this block of trials, or of the last one, under a key.
    """

    programs: dict[str, tuple[Program, set[str]]] = field(default_factory=dict)
    session: tuple[tuple[object, ...], Session[Runnable]] | None = None

    def take(self, key: tuple[object, ...]) -> Session[Runnable] | None:
        """Return the session that was kept under this key; any other one is closed."""
        kept, self.session = self.session, None
        if kept is not None and kept[0] == key:
            return kept[1]
        if kept is not None:
            kept[1].close()
        return None

    def close(self) -> None:
        """Close the kept session."""
        self.take(())


def make_program(variant: Variant, problem: Point, asked: JobTrial) -> tuple[Program, set[str]]:
    """Return the program of a kernel's trial, and the data files that were opened for it."""
    opened: set[str] = set()
    with recorded(opened):
        return variant.make(problem, asked.tunables), opened


class JobRun:
    """Run the trials of one job, yielding each one's outcome as it is known.

    A trial that fails ends there; the others go on. After an error that loses the device context the generator stops,
    since nothing more can run in this process.

    Args:
        page: says what the process does, before each step.
        held: keeps the arrays for further blocks of the problem.
    """

    def __init__(self, backend: Backend[Runnable], problem: Problem, job: Job, page: StatusPage, held: Held) -> None:
        self.backend, self.problem, self.job, self.page, self.held = backend, problem, job, page, held
        self._builds: dict[int, list[Future[Any]]] = {}
        self.on_host = is_host(backend.facts())

    def run(self) -> Iterator[Finished]:
        """Yield a `Finished` for every trial of the job."""
        ready = yield from self._make_programs()
        if not self.on_host:
            self._build(ready)
        opened = yield from self._open(ready)
        if opened is None:
            return
        is_kept = False
        try:
            for finished in self._run_rotations(*opened):
                yield finished
                if finished.lost:  # nothing more can run
                    return
            is_kept = self.job.is_block
        finally:
            if not is_kept:
                self.held.close()

    def _make_programs(self) -> Generator[Finished, None, list[Trial]]:
        """Answer those whose program cannot be made, and return the others."""
        family = self.problem.family
        ready = []
        for index, asked in enumerate(self.job.trials):
            trial = Trial(index, asked, family.variant(asked.variant))
            if failed := trial.attempt(self.page, Phase.BUILD, self._make_program):
                yield failed
            else:
                ready.append(trial)
        return ready

    def _make_program(self, trial: Trial) -> None:
        if trial.variant.kind == "kernel":
            made = self.held.programs.pop(trial.asked.identity, None)
            trial.program, trial.opened = made or make_program(trial.variant, self.job.problem, trial.asked)

    def _build(self, trials: Sequence[Trial]) -> None:
        """Begin to build side by side what was not built ahead of the job."""
        programs = {each.index: (each.variant, each.program, each.asked.source_text) for each in trials if each.program}
        begun = self.backend.build_ahead(self.problem.signature, [*programs.values()])
        self._builds |= dict(zip(programs, begun, strict=True))

    def _take_built(self, waiting: list[Trial], size: int) -> list[Trial]:
        """Remove and return the next rotation: built trials first, so that the device does not wait for the rest."""
        give_up = math.inf
        while True:
            running = {
                each.index: [build for build in self._builds.get(each.index, ()) if not build.done()]
                for each in waiting[: size + MOST_PROCESSES]  # builds begin in this order: later ones wait for these
            }
            chosen = [trial for trial in waiting[: len(running)] if not running[trial.index]][:size]
            if chosen and (len(chosen) == min(size, len(waiting)) or time.monotonic() > give_up):
                break
            if chosen:
                give_up = min(give_up, time.monotonic() + FOLLOWING_S)
            else:
                self.page.enter(waiting[0].index, Phase.BUILD)
            builds = [build for builds in running.values() for build in builds]
            wait(builds, FOLLOWING_S / 4 if chosen else None, FIRST_COMPLETED)
        for trial in chosen:
            waiting.remove(trial)
        return chosen

    def _open(self, ready: list[Trial]) -> Generator[Finished, None, tuple[Session[Runnable], list[Trial]] | None]:
        """Return the session, which is held, and the trials with room in it.

        Trials that need more scratch than available are answered.
        """
        options = reading_options(self.job.measure)
        while ready:
            arena = max(arena_bytes(trial.program) for trial in ready)
            self.page.enter(NO_TRIAL, Phase.INPUTS)
            key, session = (id(self.backend), id(self.problem), options, arena), None
            try:
                if session := self.held.take(key):
                    session.restore_inputs()
                else:
                    session = self.backend.open(self.problem.signature, self.problem.sets[0], options, arena)
                    session.unread = self.problem.unread
                    session.stock(self.problem.sets, [standard.expected for standard in self.problem.standards])
                self.held.session = key, session
                return session, ready
            except Exception as error:  # those that want most scratch cannot run; without them the others may
                if session is not None:
                    with suppress(Exception):  # a lost context refuses this too, and its error is the one that counts
                        session.close()
                for trial in ready:
                    if arena_bytes(trial.program) == arena:
                        yield trial.fail(Phase.INPUTS, error)
                ready = [trial for trial in ready if arena_bytes(trial.program) < arena]
        return None

    def _run_rotations(self, session: Session[Runnable], trials: Sequence[Trial]) -> Iterator[Finished]:
        """Give the trials to the device a few at a time; those that a rotation leaves to themselves go next."""
        rotations = Rotations(self.problem, self.job, session, self.page)
        size = self.job.measure.rotation if self.job.measure.interleave else 1
        waiting, apart = list(trials), deque[Trial]()
        while waiting or apart:
            rotation = [apart.popleft()] if apart else self._take_built(waiting, size)
            if self.on_host:  # no compiler takes part in times of the host: a rotation is built before it is timed
                self._build(rotation)
            yield from rotations.run(rotation)
            for trial in rotation:
                trial.release()
            session.put_back()
            apart.extend(rotations.apart)
