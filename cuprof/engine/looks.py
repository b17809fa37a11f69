"""How a search looks at trials: first with few samples each, then with more at the promising ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cuprof.backends.registry import get_spec, is_host
from cuprof.config.model import MeasureConfig, SweepConfig
from cuprof.core.point import Point
from cuprof.core.records import Trial
from cuprof.engine.jobs import job_key, make_jobs
from cuprof.engine.planning import Prepared
from cuprof.worker.messages import Job
from cuprof.worker.method import methods

FIRST, SECOND = 0, 1
FEW: dict[str, Any] = {"min_samples": 5, "max_samples": 5, "max_seconds": 0.05, "patience_seconds": 0.5}
MORE: dict[str, Any] = {"min_samples": 20, "max_samples": 60, "max_seconds": 0.25, "patience_seconds": 2.0}
"""Few samples separate most configurations from the best; the remaining ones deserve more."""
BRIEF: dict[str, Any] = {"warmup": 1, "settle_seconds": 0.05, "energy_seconds": 0.2}
LEAST_READY = 2
"""Time a job's kernels once this many are compiled, and defer the rest. That keeps the processor's cores busiest:
device idle time costs more than choosing with less information."""


def list_measures(config: SweepConfig) -> list[MeasureConfig]:
    """Return how the trials of a first and of a second look are timed, by the first of the sweep's measures."""
    shared = {**BRIEF, "modes": config.measure.modes[:1], "energy": "energy" in config.search.factors}
    return [replace(config.measure, **shared, **samples) for samples in (FEW, MORE)]


class Looks:
    """Make the jobs of a search.

    Args:
        trials: all that may be tried.
        seed: of the inputs; all looks share them.
        profiles: whether trials are run under a profiler between jobs.

    Attributes:
        builds_ahead: whether sources of one job are compiled side by side, before any is timed.
        builds_meanwhile: whether something may be compiled while others are timed; on the host it would take part in
            the times.
    """

    def __init__(self, prepared: Prepared, trials: Sequence[Trial], seed: int, *, profiles: bool = False) -> None:
        self.prepared, self.seed, self.profiles = prepared, seed, profiles
        self.measures = list_measures(prepared.config)
        self.builds_ahead = all(get_spec(trial.backend).builds_ahead for trial in trials)
        self.builds_meanwhile = self.builds_ahead and not any(is_host(trial.device) for trial in trials)

    def make(self, trials: Sequence[Trial], look: int) -> list[Job]:
        """Return jobs of these trials: one of each problem and back end, more where variants are isolated.

        Args:
            look: `FIRST` or `SECOND`.
        """
        together: dict[tuple[Point, str], list[Trial]] = defaultdict(list)
        for trial in trials:
            together[job_key(trial)].append(trial)
        measure = self.measures[look]
        least_built = LEAST_READY if self.builds_meanwhile and look == FIRST else 0
        return [
            replace(
                job,
                measure=measure,
                methods=methods(measure, backend),
                is_block=self._keeps_arrays(members[0]),
                least_built=0 if job.isolated else least_built,  # whose worker ends with the job
            )
            for (problem, backend), members in together.items()
            for job in make_jobs(self.prepared, problem, members, self.seed)
        ]

    def _keeps_arrays(self, trial: Trial) -> bool:
        """Return whether arrays stay on the device for the next job; a profiled process needs its memory, too."""
        return not self.profiles and not is_host(trial.device)
