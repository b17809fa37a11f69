"""Blocks of one problem that follow one another find their arrays where they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cuprof.backends.contract import ReadingOptions
from cuprof.backends.cpu import processor
from cuprof.backends.cpu.backend import CpuBackend, CpuSession
from cuprof.config.model import MeasureConfig
from cuprof.core.records import Measure, State
from cuprof.families import Arrays, Point, Signature
from cuprof.families.origin import Folder
from cuprof.worker.job import Held, JobRun
from cuprof.worker.messages import Job, JobTrial
from cuprof.worker.problem import Problem
from tests.worker.pages import Page
from tests.worker.twice import make_twice

N = 64
QUICK = MeasureConfig(modes=("cold",), target=0.5, min_samples=3, max_samples=3, warmup=1, settle_seconds=0.0)
JOB = Job(
    Folder(Path()), "cpu", Point(n=N), (JobTrial("0" * 32, "twice", Point(), ""),), 3, QUICK, {Measure.COLD: "m" * 16},
    is_block=True,
)  # fmt: skip


class Watched(CpuBackend):
    """Keep count of the sessions that are opened and closed."""

    def __init__(self) -> None:
        super().__init__(1)
        self.opened: list[CpuSession] = []
        self.closed: list[CpuSession] = []

    def open(self, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int = 0) -> CpuSession:
        self.opened.append(super().open(signature, inputs, options, scratch_bytes))
        return self.opened[-1]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Watched:
    watched, close = Watched(), CpuSession.close

    def closing(session: CpuSession) -> None:
        watched.closed.append(session)
        close(session)

    monkeypatch.setattr(processor, "cache_bytes", lambda: 1 << 16)
    monkeypatch.setattr(CpuSession, "close", closing)
    return watched


@pytest.fixture
def run(backend: Watched) -> Callable[..., State]:
    """Return what runs a job with what was held after the one before, and says how its one trial ended."""
    held = Held()
    places: list[int] = []
    family = make_twice(N)

    @family.cpu("twice")
    def twice(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
        """Doubles."""
        places.append(inputs["x"].ctypes.data)
        return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])

    problems = {seed: Problem.make(family, replace(JOB, seed=seed)) for seed in (3, 4)}

    def run_job(job: Job, *, spoil: bool = False) -> State:
        if spoil:
            backend.opened[-1].inputs["x"][:] = 0
        (finished,) = JobRun(backend, problems[job.seed], job, Page(), held).run()  # type: ignore[arg-type]
        return finished.outcome.state

    return run_job


def test_the_next_block_finds_its_arrays_where_they_were_with_inputs_written_anew(
    run: Callable[..., State], backend: Watched
) -> None:
    assert run(JOB) is State.OK
    assert run(JOB, spoil=True) is State.OK
    assert (len(backend.opened), backend.closed) == (1, [])


@pytest.mark.parametrize("other", [{"seed": 4}, {"measure": replace(QUICK, flush="dirty")}, {"is_block": False}])
def test_another_problem_or_way_of_reading_has_a_session_of_its_own(
    run: Callable[..., State], backend: Watched, other: dict[str, object]
) -> None:
    run(JOB)
    assert run(replace(JOB, **other)) is State.OK  # type: ignore[arg-type]
    run(JOB)
    first, *others = backend.opened
    assert first in backend.closed
    assert len(others) == (1 if other == {"is_block": False} else 2)
    assert len(backend.closed) == len(others)


def test_who_is_no_block_leaves_nothing_open(run: Callable[..., State], backend: Watched) -> None:
    run(replace(JOB, is_block=False))
    assert backend.closed == backend.opened
