"""Trials as the jobs of workers: which of them are measured together, and what blocks of one problem share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from cuprof.core.point import Point
from cuprof.core.records import Trial
from cuprof.engine.planning import Prepared
from cuprof.worker.messages import Job, JobTrial


def list_jobs(prepared: Prepared, trials: Sequence[Trial], seed: int) -> Iterator[Job]:
    """Yield a job for each problem and back end, in the order of the plan.

    If the configuration isolates variants, each one that runs its own code in the worker has a job of its own.
    """
    for problem, of_problem in groupby(trials, key=lambda trial: trial.problem):
        members = list(of_problem)
        for backend in dict.fromkeys(trial.backend for trial in members):
            yield from make_jobs(prepared, problem, [trial for trial in members if trial.backend == backend], seed)


def make_jobs(prepared: Prepared, problem: Point, trials: Sequence[Trial], seed: int) -> Iterator[Job]:
    """Yield the job, or where variants are isolated the jobs, of trials of one problem on one back end."""
    isolate = prepared.config.limits.isolate
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(process_key(trial, isolate=isolate)[2], []).append(trial)
    for process, members in groups.items():
        backend = members[0].backend
        yield Job(
            origin=prepared.family.origin,
            backend=backend,
            problem=problem,
            trials=tuple(_job_trial(trial) for trial in members),
            seed=seed,
            measure=prepared.config.measure,
            methods=prepared.methods[backend],
            extension=prepared.extension,
            isolated=bool(process),
            code=prepared.family.code,
        )


def find_references(prepared: Prepared) -> dict[tuple[Point, str], JobTrial]:
    """Return problem and back end → the trial that blocks share: the baseline's default one, or its first, or any."""
    family = prepared.family
    baseline = prepared.config.baseline or family.get_baseline()
    usual = Point((each.name, each.default) for each in family.variant(baseline).tunables)
    found: dict[tuple[Point, str], tuple[int, Trial]] = {}
    for trial in prepared.plan.trials:
        if trial.unavailable is None and trial.expected != "wrong":
            key = job_key(trial)
            rank = (trial.tunables == usual) + 1 if trial.variant == baseline else 0
            if key not in found or rank > found[key][0]:
                found[key] = (rank, trial)
    return {key: _job_trial(trial) for key, (_, trial) in found.items()}


def job_key(each: Trial | Job) -> tuple[Point, str]:
    """Return what trials of one job have in common: problem and back end."""
    return each.problem, each.backend


def process_key(trial: Trial, *, isolate: bool) -> tuple[Point, str, str]:
    """Return what trials of one job have in common; an isolated variant shares its worker's process with no other."""
    return trial.problem, trial.backend, trial.variant if isolate and trial.kind != "kernel" else ""


def _job_trial(trial: Trial) -> JobTrial:
    return JobTrial(trial.identity, trial.variant, trial.tunables, trial.source_text)
