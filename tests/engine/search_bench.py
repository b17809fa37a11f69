"""A search whose trials are answered at once, by a formula and noise, for the tests of its parts."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuprof.config.model import LimitsConfig, MeasureConfig, SearchConfig, SweepConfig
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts, Measure, Outcome, Sample, State, Timing, Trial
from cuprof.engine.executor import Executor, Result
from cuprof.engine.planning import Prepared, find_whole_space
from cuprof.engine.search import SearchScheduler
from cuprof.families.origin import load_family
from cuprof.plan import Selection, plan
from cuprof.results.earlier import EarlierRun
from cuprof.statistics.median import summarise
from cuprof.worker.messages import Built, Job, WorkerSettings
from cuprof.worker.method import methods
from tests.engine.conftest import FAMILIES

FOLDER = FAMILIES / "searchable"
BEST = Point(width=64, height=2, unroll=4)
COLD = Measure.COLD


class SearchBench:
    """A search whose trials are answered at once: by the family's own formula, and noise."""

    def __init__(
        self, sizes: Sequence[int] = (64,), earlier: Sequence[EarlierRun] = (), counting: Any = None, **settings: Any
    ) -> None:
        family = load_family(FOLDER)
        spec = importlib.util.spec_from_file_location("searchable", FOLDER / "family.py")
        assert spec is not None
        assert spec.loader is not None
        self.source = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.source)
        self.config = SweepConfig(
            experiment="",
            family="searchable",
            measure=MeasureConfig(modes=("cold",)),
            search=SearchConfig(**{"name": "surrogate", "seed": 1, **settings}),
        )
        device = {"cpu": DeviceFacts("cpu", 0, "it")}
        tune = find_whole_space(family, self.config)
        planned = plan(family, Selection(problem={"n": tuple(sizes)}, tune=tune), device)
        by_backend = {"cpu": methods(self.config.measure, "cpu")}
        self.prepared = Prepared(self.config, family, planned, device, by_backend, "hash")
        self.trials = planned.trials
        self.by_identity = {trial.identity: trial for trial in self.trials}
        self.notes: list[str] = []
        self.now_s = 0.0
        self.search = self.open(earlier, counting)
        self.executors = [
            Executor(WorkerSettings(), LimitsConfig(), devices={"cpu": DeviceFacts("cpu", index, "it")})
            for index in range(2)
        ]
        self.jobs: list[Job] = []
        self.building: list[set[str]] = []
        """What was to be built beside each job."""
        self.given_to: list[int] = []
        self.random: Any = np.random.default_rng(1)

    def open(self, earlier: Sequence[EarlierRun] = (), counting: Any = None, executors: int = 1) -> SearchScheduler:
        """Return the search."""
        read_clock = lambda: self.now_s  # noqa: E731
        given = self.prepared, self.trials, earlier, 7, self.notes.append, read_clock, executors, counting
        return SearchScheduler(*given)

    def takes_builds(self, identity: str) -> int:
        """Return how often a build is asked for, or waited for, before it is done."""
        return 0

    def time_ns(self, trial: Trial) -> float:
        return float(self.source.wait_us(trial.tunables)) * 1e3 * (1 + trial.problem.n / 1e3)

    def answer(self, job: Job, identity: str) -> Outcome:
        trial = self.by_identity[identity]
        self.now_s += 0.1
        if trial.tunables.unroll == 8 and trial.tunables.height == 16:
            return Outcome(identity, State.LAUNCH_ERROR, "too many registers", duration_ns=10**8)
        noise = np.exp(0.01 * self.random.standard_normal(job.measure.min_samples))
        samples = tuple(Sample(number, self.time_ns(trial) * each) for number, each in enumerate(noise))
        timing = Timing(COLD, job.methods[COLD], samples, summarise(samples, 0.95), "samples", rotation="r")
        return Outcome(identity, State.OK, timings=(timing,), duration_ns=10**8)

    def run(self) -> list[Outcome]:
        """Answer the executors in turn until the search is done."""
        outcomes = []
        waited = Counter[str]()
        while not self.search.done:
            for executor in self.executors:
                batch = self.search.ask(executor)
                if batch is None:
                    continue
                asked = {trial.identity for job in batch.build for trial in job.trials}
                asked -= executor.built | executor.building
                executor.building |= asked
                waited.update(executor.building)
                built = [each for each in executor.building if waited[each] > self.takes_builds(each)]
                executor.take_built(Built(tuple(built)))
                if batch.job is None:
                    self.now_s += 0.1
                    continue
                self.jobs.append(batch.job)
                self.building.append(asked)
                self.given_to.append(id(executor))
                for each in batch.job.trials:
                    outcome = self.answer(batch.job, each.identity)
                    outcomes.append(outcome)
                    self.search.tell(executor, Result(batch, outcome))
                executor.built.difference_update(each.identity for each in batch.job.trials)
        return outcomes


class NoNoise:
    """Answer as a generator of random numbers that draws zeros."""

    def standard_normal(self, count: int) -> np.ndarray:
        return np.zeros(count)


def earlier(trial: Trial, ns: float, **details: Any) -> EarlierRun:
    method = methods(MeasureConfig(modes=("cold",)), "cpu")[COLD]
    known = {"device": "it", "sweep_id": 3, "state": State.OK, "method": method, "energy_j": None}
    known |= {"started_at": 1e9, "duration_ns": 10**8, "is_expected_wrong": False}
    known |= {"samples": 20, "high_ns": ns, "confidence": 0.95}
    of_trial = {"identity": trial.identity, "variant": trial.variant, "problem": trial.problem}
    return EarlierRun(
        **{**known, **of_trial, "tunables": trial.tunables, "median_ns": ns, "circumstances": (1,), **details}
    )


class Widths:
    """Answer as counters do, of which there is one here: a trial's width."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self.known, self.collected = known, list[str]()
        self.places: list[int] = []

    def read(self, identities: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return what is stored: nothing."""
        return {identity: {} for identity in identities[:0]}

    def collect(self, trials: Sequence[Trial], outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, float]]:
        """Return the counters of right trials, each of which is asked for once."""
        assert {trial.identity for trial in trials} == set(outcomes)
        self.collected += outcomes
        self.places += [trial.device.index for trial in trials if trial.device]
        return {trial.identity: {"a__b.sum": float(trial.tunables.width)} for trial in trials}
