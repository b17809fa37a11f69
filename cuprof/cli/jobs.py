"""Several sweeps of one command, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cuprof.cli.main import explain_full
from cuprof.cli.output import print_message
from cuprof.config import SweepConfig
from cuprof.config.composer import Composer
from cuprof.config.overrides import split_jobs
from cuprof.core.errors import CuprofError
from cuprof.core.project import Project

Task = Callable[[SweepConfig, Project], int]
"""A command's work on a composed configuration; it returns the exit code."""
SLOW_IMPORTS = ("cupy", "torch")
"""Modules that variants on a GPU often need and that take seconds to import, in the order of use."""


def compose_jobs(composer: Composer, command_line: str) -> dict[str, SweepConfig]:
    """Return the settings of each job → its configuration, so that nothing runs where one does not compose."""
    with composer.explaining():
        composed, loader = composer.compose(several=True), composer.hydra.config_loader
        found = {}
        for job in split_jobs(composed.hydra.overrides.task, loader):
            one = loader.load_sweep_config(composed, job)
            found[" ".join(job)] = composer.build(one, command_line)
        return found


def run_jobs(jobs: Mapping[str, SweepConfig], task: Task, project: Project) -> int:
    """Run each job, also after one that failed; return the largest exit code."""
    codes = []
    for number, (settings, config) in enumerate(jobs.items()):
        print_message(f"job {number}: {settings or 'as configured'}")
        if number + 1 < len(jobs):
            from cuprof.engine.launch import prestart_for_next_job

            prestart_for_next_job(SLOW_IMPORTS if "cuda" in config.device.backends else ())
        try:
            codes.append(task(config, project))
        except Exception as error:
            explained = error if isinstance(error, CuprofError) else explain_full(error)
            if explained is None:
                raise
            print_message(f"error: {explained}")
            codes.append(explained.exit_code)
    return max(codes)
