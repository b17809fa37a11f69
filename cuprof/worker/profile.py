"""The process that runs under a profiler: execute each trial of a task once, inside the profiler's mark.

    python -m cuprof.worker.profile OWNER BACKEND DEVICE TASKFILE

It opens the device and waits for the task file, which the owner writes. Everything was built and checked before; here
it comes from the build cache. A trial that fails is written to the progress file and the next one goes on, unless the
device context is gone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

import numpy as np

from cuprof.backends.contract import Backend, DeviceLostError, ReadingOptions, Runnable, Session, arena_bytes
from cuprof.backends.registry import open_backend
from cuprof.core.records import Trial
from cuprof.families import Family, Point, Program
from cuprof.families.candidate import extend
from cuprof.ncu.task import ProfilingTask, Step, mark, read_task, wait_for_task, write_progress
from cuprof.worker.problem import as_long_as


class Profiling:
    """Carry out one task; family, inputs and session are kept while the problem stays the same."""

    def __init__(self, task: ProfilingTask, progress: IO[str], backend: Backend[Runnable]) -> None:
        self.task, self.progress, self.backend = task, progress, backend
        self._opened: tuple[Point, Family, Session[Runnable]] | None = None

    def run(self) -> None:
        """Execute every trial of the task."""
        for trial in self.task.trials:
            write_progress(self.progress, trial.identity, Step.PREPARING)
            try:
                self._run_trial(trial)
            except DeviceLostError as error:
                write_progress(self.progress, trial.identity, Step.FAILED, str(error))
                raise
            except Exception as error:  # a process border: one trial's fault is that trial's message
                write_progress(self.progress, trial.identity, Step.FAILED, f"{type(error).__name__}: {error}")
            else:
                write_progress(self.progress, trial.identity, Step.DONE)

    def _run_trial(self, trial: Trial) -> None:
        family, session = self._open(trial.problem)
        variant = family.variant(trial.variant)
        program: Program | None = variant.make(trial.problem, trial.tunables) if variant.kind == "kernel" else None
        runnable = session.prepare(variant, trial.problem, trial.tunables, program, trial.source_text)
        for _ in range(max(self.task.warm_up, int(program is None))):
            session.poison(runnable)
            session.run(runnable)
        session.poison(runnable)
        write_progress(self.progress, trial.identity, Step.LAUNCHING)
        with mark(trial.identity):
            session.run(runnable)

    def _open(self, problem: Point) -> tuple[Family, Session[Runnable]]:
        if self._opened is None or self._opened[0] != problem:
            if self._opened is not None:
                self._opened[2].close()
                self._opened = None
            family = self.task.origin.load()
            signature = family.signature(problem)
            inputs = as_long_as(signature, family.generate(problem, np.random.default_rng(0)))
            if self.task.extension is not None:  # strangers' code, after the inputs have been made
                extend(family, self.task.extension)
            session = self.backend.open(signature, inputs, ReadingOptions(), self._scratch_bytes(family, problem))
            self._opened = (problem, family, session)
        return self._opened[1:]

    def _scratch_bytes(self, family: Family, problem: Point) -> int:
        """Return the largest scratch of the task's trials of this problem."""
        needed = 0
        for trial in self.task.trials:
            variant = family.variants.get(trial.variant)
            if trial.problem == problem and variant is not None and variant.kind == "kernel":
                needed = max(needed, arena_bytes(variant.make(trial.problem, trial.tunables)))
        return needed


def main(arguments: list[str]) -> int:
    """Carry out the task; return 1 where the device context was lost, or the owner ended without writing the task."""
    owner, name, device_index, path = arguments
    backend = open_backend(name, int(device_index))
    if not wait_for_task(Path(path), int(owner)):
        return 1
    task = read_task(Path(path))
    with Path(task.progress_path).open("a", encoding="utf-8") as progress:
        try:
            Profiling(task, progress, backend).run()
        except DeviceLostError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
