"""Trials as the jobs of workers: which of them are measured together, and what blocks of one problem share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from cuprof.config.model import MeasureConfig
from cuprof.core.point import Point
from cuprof.core.records import Trial
from cuprof.engine.planning import Prepared
from cuprof.worker.messages import Job, JobTrial
from cuprof.worker.method import methods


def list_jobs(
    prepared: Prepared,
    trials: Iterable[Trial],
    measure: MeasureConfig | None = None,
    *,
    together: bool = False,
) -> list[Job]:
    """Return a job for each problem and back end, in the order of the trials.

    If the configuration isolates variants, each one that runs its own code in the worker has a job of its own.

    Args:
        measure: how to time them, in place of the configuration's way.
        together: isolate none, so that all can be compared side by side.
    """
    isolates = prepared.config.limits.isolate and not together
    groups: dict[tuple[Point, str, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[trial.problem, trial.backend, trial.variant if isolates and trial.kind != "kernel" else ""].append(trial)
    return [
        Job(
            origin=prepared.family.origin,
            backend=backend,
            problem=problem,
            trials=tuple(map(_job_trial, members)),
            seed=prepared.seed,
            measure=measure or prepared.config.measure,
            methods=methods(measure, backend) if measure else prepared.methods[backend],
            extension=prepared.extension,
            isolated=bool(process),
            code=prepared.family.code,
        )
        for (problem, backend, process), members in groups.items()
    ]


def find_references(prepared: Prepared) -> dict[tuple[Point, str], JobTrial]:
    """Return problem and back end → the trial that blocks share: the baseline's default one, or its first, or any."""
    family = prepared.family
    baseline = prepared.config.baseline or family.get_baseline()
    usual = Point((each.name, each.default) for each in family.variant(baseline).tunables)
    found: dict[tuple[Point, str], list[Trial]] = defaultdict(list)
    for trial in prepared.plan.trials:
        if trial.unavailable is None and trial.expected != "wrong":
            found[job_key(trial)].append(trial)

    def rank(trial: Trial) -> tuple[bool, bool]:
        return trial.variant == baseline, trial.variant == baseline and trial.tunables == usual

    return {key: _job_trial(max(trials, key=rank)) for key, trials in found.items()}


def job_key(each: Trial | Job) -> tuple[Point, str]:
    """Return what trials of one job have in common: problem and back end."""
    return each.problem, each.backend


def _job_trial(trial: Trial) -> JobTrial:
    return JobTrial(trial.identity, trial.variant, trial.tunables, trial.source_text)
