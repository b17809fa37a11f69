"""The family of tricks, swept through real workers by the engine alone: the command line would take seconds more."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from benchmarks import trick_sweeps
from benchmarks.space import copy_project
from benchmarks.trick_records import BASELINES, Level, Shown, Trick, load_records
from benchmarks.trick_sweeps import Bench, Judgement, read_shown
from cuprof.config.model import DeviceConfig, LimitsConfig, MeasureConfig, SweepConfig
from cuprof.core.project import Project
from cuprof.engine.calibration import Calibrator
from cuprof.engine.observer import Observer
from cuprof.engine.running import run_sweep
from tests.forked_workers import load_ahead

N = 2**16
SAMPLES = 12
TRUE, BESIDE = 0.1, (0.05, 20.0)
"""Shares of an honest time that are told apart on a host whose pace changes: a hundredth or less is what tricks gain by
not doing the work, and a hundred times as long takes the honest variant that is there to show settings left changed."""


class QuickBench(Bench):
    """Sweep within this process, without the calibration, which decides nothing here."""

    def sweep(
        self, variants: Sequence[str], n: int | None = None, samples: int | None = None, *, isolate: bool = False
    ) -> dict[str, Shown]:
        """Sweep variants of a new project, in one worker process or in one each; return what is shown of each."""
        count = samples or self.samples
        measure = MeasureConfig(
            modes=("cold",),
            target=1e-5,
            min_samples=count,
            max_samples=count,
            max_seconds=30,
            patience_seconds=30,
            warmup=1,
            settle_seconds=0.0,
            flush="clean",
        )
        config = SweepConfig(
            experiment="",
            family="tricks",
            baseline=BASELINES[self.backend],
            variants=tuple(variants),
            problem={"n": (n or self.n,)},
            measure=measure,
            limits=LimitsConfig(build_s=60, check_s=60, trial_s=120, isolate=isolate),
            device=DeviceConfig(backends=(self.backend,)),
            command_line="a test",
        )
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(Calibrator, "calibrate", lambda *_: None)
            load_ahead("scipy.fft")  # else each worker takes a third of its time to import it with the family
            project = Project(copy_project(Path(folder) / "project"))
            run_sweep(config, project, Observer())
            return read_shown(project.root / "db" / "cuprof.sqlite")

    def judge(self, tricks: Sequence[Trick], alone: Mapping[str, Shown]) -> list[Judgement]:
        """Sweep tricks beside honest variants, and tell what came of all, whatever else the host does."""
        if tricks[0].level is Level.ADVERSARIES:
            return super().judge(tricks, alone)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(trick_sweeps.TRUE_SHARE, self.backend, TRUE)  # type: ignore[misc]
            patch.setitem(trick_sweeps.NEIGHBOUR_BAND, self.backend, BESIDE)  # type: ignore[misc]
            return super().judge(tricks, alone)


@cache
def sweep_honest(backend: str, n: int | None = None) -> dict[str, Shown]:
    """Return what is shown of all honest variants of a back end, once a test process."""
    return QuickBench(backend, N, SAMPLES).sweep_honest(n)


@cache
def judge_harmless(backend: str) -> dict[str, Judgement]:
    """Return what came of all tricks of a back end that are harmless to each other, from one sweep."""
    tricks = [trick for trick in load_records(backend)[backend] if trick.is_harmless]
    judged = QuickBench(backend, N, SAMPLES).judge(tricks, sweep_honest(backend))
    return {each.trick.variant: each for each in judged}


@pytest.fixture
def honest() -> Callable[[str], dict[str, Shown]]:
    """Return back end → what is shown of its honest variants."""
    return sweep_honest


@pytest.fixture
def judge() -> Callable[[str, Trick], Judgement]:
    """Return (back end, trick) → what came of it beside honest variants."""

    def judge_one(backend: str, trick: Trick) -> Judgement:
        if trick.is_harmless:
            found = judge_harmless(backend)[trick.variant]
            if found.is_caught or not trick.caught:
                return found
            # Once more, alone: what others on this machine do may make an execution on known inputs as long as a first
            # meeting, and then the variant is given the benefit of the doubt.
        (found,) = QuickBench(backend, N, SAMPLES).judge([trick], sweep_honest(backend, trick.n))
        return found

    return judge_one
