"""The process that runs under Nsight Compute: execute each trial of a job once, inside a range with its identity.

    python -m cuprof.worker.profile JOBFILE

Everything was built and checked before; here it comes from the build cache. A trial that fails is written to the
progress file and the next one goes on, unless the device context is gone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from cuprof.backends.contract import DeviceLostError, ReadingOptions
from cuprof.backends.cuda.backend import CudaBackend
from cuprof.backends.cuda.session import CudaSession
from cuprof.family import Family, Point, Program
from cuprof.family.fingerprint import source_text
from cuprof.family.loader import load_family
from cuprof.ncu.head_start import read_device_index, wait_for_job
from cuprof.ncu.job import Job, JobTrial, Phase, ProgressWriter, range_name, read_job, trial_points
from cuprof.plan.memory import arena_bytes


class Profiling:
    """Carry out one job; inputs and session are kept while the problem stays the same."""

    def __init__(self, job: Job, progress: ProgressWriter, backend: CudaBackend) -> None:
        self.job, self.progress, self.backend = job, progress, backend
        self._families: dict[str, Family] = {}
        self._session: tuple[tuple[str, Point], CudaSession] | None = None

    def run(self) -> None:
        """Execute every trial of the job."""
        for trial in self.job.trials:
            self.progress.write(trial.identity, Phase.PREPARING)
            try:
                self._run_trial(trial)
            except DeviceLostError as error:
                self.progress.write(trial.identity, Phase.FAILED, str(error))
                raise
            except Exception as error:  # a process border: one trial's fault is that trial's message
                self.progress.write(trial.identity, Phase.FAILED, f"{type(error).__name__}: {error}")
            else:
                self.progress.write(trial.identity, Phase.DONE)

    def _run_trial(self, trial: JobTrial) -> None:
        problem, tunables = trial_points(trial)
        family = self._family(trial.family_folder)
        variant = family.variant(trial.variant)
        program: Program | None = variant.make(problem, tunables) if variant.kind == "kernel" else None
        session = self._open(family, trial, problem)
        text = source_text(family, variant) if program is not None else ""
        runnable = session.prepare(variant, problem, tunables, program, text)
        session.poison(runnable)
        for _ in range(max(self.job.warm_up, int(program is None))):
            session.run(runnable)
        self.progress.write(trial.identity, Phase.LAUNCHING)
        with named_range(range_name(trial.identity)):
            session.run(runnable)

    def _family(self, folder: str) -> Family:
        if folder not in self._families:
            self._families[folder] = load_family(Path(folder))
        return self._families[folder]

    def _open(self, family: Family, trial: JobTrial, problem: Point) -> CudaSession:
        key = (trial.family_folder, problem)
        if self._session is None or self._session[0] != key:
            if self._session is not None:
                self._session[1].close()
            signature = family.signature(problem)
            inputs = family.generate(problem, np.random.default_rng(self.job.seed))
            session = self.backend.open(signature, inputs, ReadingOptions(), self._scratch_bytes(family, key))
            self._session = (key, session)
        return self._session[1]

    def _scratch_bytes(self, family: Family, key: tuple[str, Point]) -> int:
        """Return the largest scratch of the job's trials of this problem."""
        needed = 0
        for trial in self.job.trials:
            problem, tunables = trial_points(trial)
            variant = family.variants.get(trial.variant)
            if (trial.family_folder, problem) == key and variant is not None and variant.kind == "kernel":
                program = variant.make(problem, tunables)
                needed = max(needed, arena_bytes(program))
        return needed


@contextmanager
def named_range(name: str) -> Iterator[None]:
    """Open an NVTX push/pop range of this thread in the default domain."""
    from cupy.cuda import nvtx

    nvtx.RangePush(name)
    try:
        yield
    finally:
        nvtx.RangePop()


def main(arguments: list[str]) -> int:
    """Run the job in the file named by the first argument, waiting until it is there.

    Return 1 where the device context was lost, or nobody is left to write the file.
    """
    path = Path(arguments[0])
    index = read_device_index(path)
    backend = None if index is None else CudaBackend(index)
    if not wait_for_job(path):
        return 1
    job = read_job(path)
    if backend is None or backend.index != job.device_index:
        backend = CudaBackend(job.device_index)
    with ProgressWriter(job.progress_path) as progress:
        try:
            Profiling(job, progress, backend).run()
        except DeviceLostError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
