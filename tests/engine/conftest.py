"""Sweeps through real worker processes, in a project that holds the family of faults."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.config.model import LimitsConfig, MeasureConfig, SweepConfig
from cuprof.core.project import Project
from cuprof.core.records import DeviceFacts, Outcome, Trial
from cuprof.engine.calibration import Calibrator
from cuprof.engine.checking import check_trials
from cuprof.engine.devices import find_devices
from cuprof.engine.executor import Executor
from cuprof.engine.measurement import Measurement
from cuprof.engine.observer import Observer
from cuprof.engine.running import SweepResult, run_sweep
from cuprof.results.queries import query
from cuprof.store.store import Store
from cuprof.worker.messages import JobTrial, WorkerSettings
from cuprof.worker.status_page import Phase

FAMILIES = Path(__file__).parents[1] / "data" / "families"
QUICK = MeasureConfig(
    modes=("cold",),
    target=0.5,
    min_samples=3,
    max_samples=6,
    patience_seconds=600.0,
    warmup=1,
    settle_seconds=0.0,
    flush="none",
)
PATIENT = LimitsConfig(build_s=100.0, check_s=100.0, trial_s=150.0)
SHORT = LimitsConfig(build_s=2.0, check_s=2.0, trial_s=60.0)
"""For what never ends; on a busy host all else may take longer."""


@dataclass
class Listener(Observer):
    """Keep what the engine tells."""

    planned: int | None = 0
    reused: int = 0
    elsewhere: int = 0
    begun: list[tuple[str, str]] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ended: int | None = None
    on_finished: Callable[[Trial], None] | None = None

    def started(self, planned: int | None, stored: Collection[str]) -> None:
        self.planned, self.reused = planned, len(stored)

    def trial_started(self, trial: Trial, phase: str) -> None:
        self.begun.append((trial.variant, phase))

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        assert trial.identity == outcome.identity
        assert trial.label not in self.outcomes, "a trial ends once"
        self.outcomes[trial.label] = outcome
        if self.on_finished:
            self.on_finished(trial)

    def done_elsewhere(self, count: int) -> None:
        self.elsewhere += count

    def note(self, text: str) -> None:
        self.notes.append(text)

    def finished(self, sweep_id: int) -> None:
        self.ended = sweep_id

    def of(self, variant: str) -> Outcome:
        """Return the outcome of the only trial of a variant."""
        (found,) = (
            outcome for label, outcome in self.outcomes.items() if label.partition("/")[2].split()[0] == variant
        )
        return found


@dataclass
class Bench:
    """A project to sweep in."""

    project: Project

    @property
    def database(self) -> Path:
        return self.project.root / "db" / "cuprof.sqlite"

    @property
    def place(self) -> str:
        """Return what a sweep notes first where it makes the database."""
        return f"results are stored in {self.database}"

    @property
    def family_file(self) -> Path:
        return self.project.root / "kernels" / "faulty" / "family.py"

    def config(self, *variants: str, **changes: Any) -> SweepConfig:
        given = {"family": "faulty", "experiment": "", "measure": QUICK, "limits": PATIENT, "command_line": "a test"}
        return SweepConfig(variants=variants or ("sound_first",), **{**given, **changes})

    def sweep(self, *variants: str, listener: Listener | None = None, **changes: Any) -> tuple[SweepResult, Listener]:
        """Run a sweep of those variants; changes are of the configuration."""
        heard = listener or Listener()
        return run_sweep(self.config(*variants, **changes), self.project, heard), heard

    def check(self, *variants: str, listener: Listener | None = None) -> Listener:
        """Check those variants, as a collection does before it profiles; nothing is timed."""
        heard = listener or Listener()
        with Store.open(self.project.database_url) as store:
            check_trials(self.config(*variants), self.project, store, heard, backends=("cpu",))
        return heard

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with Store.open(self.project.database_url, create=False, read_only=True) as store:
            return list(query(store.url, sql).itertuples(index=False, name=None))


@contextmanager
def short_limits(is_endless: Callable[[JobTrial, Phase, bool], bool]) -> Iterator[None]:
    """Hold those trials to `SHORT` limits that a function names by their phase and whether they run alone."""
    take_turn = Measurement._take_turn

    def watch_turn(measurement: Measurement, trials: Sequence[JobTrial]) -> Iterator[Outcome]:
        workers, limits, watch = measurement.workers, measurement.workers.limits, measurement.workers.watch
        of_trial: Any = SimpleNamespace(**vars(limits))

        def choose(trial: JobTrial, phase: Phase) -> None:
            is_short = is_endless(trial, phase, measurement._is_alone)
            vars(of_trial).update(vars(SHORT if is_short else limits))
            watch(trial, phase)

        workers.limits, workers.watch = of_trial, choose
        try:
            yield from take_turn(measurement, trials)
        finally:
            workers.limits, workers.watch = limits, watch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Measurement, "_take_turn", watch_turn)
        yield


@contextmanager
def bench_in(root: Path) -> Iterator[Bench]:
    (root / "kernels").mkdir(parents=True)
    (root / "cuprof.toml").touch()
    shutil.copytree(FAMILIES / "faulty", root / "kernels" / "faulty", ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        # The bandwidth of the host's memory takes seconds to measure and decides nothing here.
        patch.setattr(Calibrator, "calibrate", lambda *_: None)
        yield Bench(Project(root))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Return a project with the family of faults, in a folder with a space and an umlaut in its name."""
    with bench_in(tmp_path / "my prüf") as made:
        yield made


@pytest.fixture(scope="module")
def shared_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Return one project for a whole module."""
    with bench_in(tmp_path_factory.mktemp("faults") / "my prüf") as made:
        yield made


@pytest.fixture
def make_listener() -> type[Listener]:
    """Return the class of what keeps all that the engine tells."""
    return Listener


@pytest.fixture
def make_cards(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what gives sweeps executors, each with a processor of its own that seems to be no host's."""

    def make(count: int, executor: type[Executor] = Executor) -> None:
        def make_executors(config: SweepConfig) -> list[Executor]:
            return [executor(WorkerSettings(), config.limits) for _ in range(count)]

        def enroll(config: SweepConfig, executors: list[Executor], backends: tuple[str, ...]) -> list[str]:
            (facts,) = find_devices(config, executors[0], ("cpu",)).values()
            assert isinstance(facts, DeviceFacts)
            for index, each in enumerate(executors):
                each.devices = {"cpu": replace(facts, index=index, uuid=f"{index:032x}")}
            return []

        monkeypatch.setattr("cuprof.engine.devices.make_executors", make_executors)
        monkeypatch.setattr("cuprof.engine.planning.enroll", enroll)
        monkeypatch.setattr(Executor, "is_host", lambda self, backend: False)
        monkeypatch.setattr(Executor, "builds_ahead", lambda self, backend: False)
        monkeypatch.setattr("cuprof.engine.device_lock.is_host", lambda device: False)

    return make


@pytest.fixture
def built_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the CPU's variants seem to be compiled ahead of a device that is no host, by 64 cores."""
    monkeypatch.setattr("cuprof.engine.executor.is_host", lambda device: False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
