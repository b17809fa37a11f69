"""Check the trials of a selection without timing them, and profile those that are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cuprof.config.model import SweepConfig
from cuprof.core.project import Project
from cuprof.core.records import CounterValue, StoredTrial, Trial
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.devices import open_executors
from cuprof.engine.observer import Observer
from cuprof.engine.planning import prepare
from cuprof.engine.profiling import CollectResult, Profiling
from cuprof.engine.recorder import Recorder
from cuprof.engine.running import Run, SweepResult
from cuprof.ncu import BACKENDS
from cuprof.ncu.collector import Collector
from cuprof.results.counters import read_newest_counters
from cuprof.store.store import Store


@dataclass(frozen=True)
class ProfilingResult:
    """The result of checking and profiling the trials of a selection.

    Attributes:
        counters: identity → metric → value: everything now stored for these trials under the requested conditions,
            including earlier collections.
    """

    trials: tuple[Trial, ...]
    collected: CollectResult
    counters: Mapping[str, Mapping[str, CounterValue]]
    exit_code: int


def profile_selection(
    config: SweepConfig, project: Project, collector: Collector, observer: Observer
) -> ProfilingResult:
    """Check the trials of a selection, profile the right ones, and store the results.

    Raises:
        UsageError: the selection cannot be carried out; nothing has been stored.
        ProfilerError: the profiler cannot work here; results stored until then stay.
        KeyboardInterrupt: after the sweep has been marked as interrupted.
    """
    with Store.open(config.store.url or project.database_url) as store:
        collector.check()  # what cannot work is found before anything is built and checked
        trials, outcomes, checked = check_trials(config, project, store, observer, BACKENDS)
        sweep_id, state = checked.sweep_id, "interrupted"
        try:
            profiling = Profiling(collector, store, sweep_id, observer, DeviceLocks(observer.note).hold)
            collected = profiling.collect(trials, outcomes, config.retry)
            state = "finished"
        finally:  # the checks have finished the sweep already; its end is that of the collection
            store.finish_sweep(sweep_id, state)
        with store.snapshot() as connection:
            identities = [trial.identity for trial in trials]
            counters = read_newest_counters(connection, identities, collector.setting.request.conditions)
    return ProfilingResult(trials, collected, counters, max(collected.exit_code, checked.exit_code))


def check_trials(
    config: SweepConfig, project: Project, store: Store, observer: Observer, backends: tuple[str, ...]
) -> tuple[tuple[Trial, ...], dict[str, StoredTrial], SweepResult]:
    """Check the trials of a selection on the named back ends that have not been checked yet.

    This also builds every program, so the build cache has it afterwards.

    Returns:
        Every planned trial, also those that were not checked; the stored outcomes of the checks, by identity; and the
        sweep that they were enlisted in and checked by. Raises what `run_sweep` does.
    """
    with open_executors(config) as executors:
        prepared = prepare(config, project, executors, timed=False)
        planned = prepared.plan.trials
        wanted = tuple(trial for trial in planned if trial.backend in backends)
        part = replace(prepared, plan=replace(prepared.plan, trials=wanted))
        result = Run(Recorder(part, project, store, executors, observer)).run()
    return planned, part.stored(store), result
