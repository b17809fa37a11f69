"""Several jobs of one command, run by a launcher of Hydra's.

Launchers return no exit codes and go on past failed jobs, so every job leaves a small file (`JobRecords`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.types import HydraContext

from cuprof.cli.main import explain_full
from cuprof.cli.output import print_message
from cuprof.cli.stream import guarded_output
from cuprof.config import SweepConfig
from cuprof.config.composer import Composer, build
from cuprof.config.explain import explain
from cuprof.config.overrides import split_jobs
from cuprof.core.errors import CuprofError
from cuprof.core.interrupts import INTERRUPTED, heard, stop_with_parent
from cuprof.core.project import Project
from cuprof.store.processes import this_host

Task = Callable[[SweepConfig, Project], int]
"""A command's work on a composed configuration: a module-level function that returns the exit code."""
SLOW_IMPORTS = ("cupy", "torch")
"""Modules that variants on a GPU often need and that take seconds to import, in the order of use."""
STOPPED = "stopped"
STOP_LIMIT_S = 1.2
"""How long jobs that were asked to stop may take to mark their sweeps before their launcher ends them."""


def run_jobs(composer: Composer, task: Task, command_line: str) -> int:
    """Compose every job, so that nothing runs where one does not compose; launch them; return the largest exit code."""
    project = composer.project
    records = JobRecords(project.jobs / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{os.getpid()}")
    with composer.explaining():
        composed, loader = composer.compose(records.folder), composer.hydra.config_loader
        jobs = split_jobs(composed.hydra.overrides.task, loader)
        for job in jobs:
            loader.load_sweep_config(composed, job)
        # Launchers keep their jobs' arguments there, which may hold a password.
        Path(composed.hydra.sweep.dir).mkdir(mode=0o700, parents=True, exist_ok=True)
    work = HydraJob(task, project, composer.arguments.axes, command_line, records, len(jobs))
    with heard(before_stopping=records.stop_others):
        _launch(work, composer, composed, jobs)
    return records.exit_code(len(jobs))


def _launch(work: HydraJob, composer: Composer, composed: Any, jobs: Sequence[Sequence[str]]) -> None:
    with composer.explaining():
        context = HydraContext(config_loader=composer.hydra.config_loader, callbacks=Callbacks(composed))
        launcher = Plugins.instance().instantiate_launcher(hydra_context=context, task_function=work, config=composed)
        try:
            done = launcher.launch(jobs, initial_job_idx=0)
        except Exception as error:
            if lost := work.records.explain(error):
                raise lost from None
            raise
    for each in done:
        _ = each.return_value  # raises what a job has raised


@dataclass(frozen=True)
class HydraJob:
    """The task function that a launcher calls, in this process or in another; picklable.

    Errors end here: they become one line and the job's record, so that further jobs go on.
    """

    task: Task
    project: Project
    axes: Mapping[str, list[Any]]
    command_line: str
    records: JobRecords
    jobs: int
    launcher: int = field(default_factory=os.getpid)

    def __call__(self, composed: Any) -> None:
        if os.getpid() != self.launcher:
            stop_with_parent()
        with heard(), guarded_output():  # a launcher's process has none yet
            self._run(composed)

    def _run(self, composed: Any) -> None:
        if self.records.are_stopped:
            raise KeyboardInterrupt
        runtime = HydraConfig.get()
        number = int(runtime.job.num)
        self.records.note(number, None)
        print_message(f"job {number}: {' '.join(runtime.overrides.task) or 'as configured'}")
        try:
            experiment = str(runtime.runtime.choices.get("experiment") or "")
            config = build(composed, self.axes, experiment, self.command_line)
            if number + 1 < self.jobs and os.getpid() == self.launcher:
                from cuprof.engine.launch import prestart_for_next_job

                prestart_for_next_job(SLOW_IMPORTS if "cuda" in config.device.backends else ())
            self.records.note(number, self.task(config, self.project))
        except KeyboardInterrupt:
            self.records.note(number, INTERRUPTED)
            raise
        except Exception as error:
            explained = explain(error) or explain_full(error)
            self.records.note(number, explained.exit_code if explained else 1)
            if explained is None:
                raise
            print_message(f"error: {explained}")


@dataclass(frozen=True)
class JobRecords:
    """Keep the exit code of every job.

    Jobs of a launcher run in other processes, perhaps on other hosts, so each writes `<number>.json` into a shared
    folder; a job that began and did not end counts as failed.

    Attributes:
        folder: where the files go.
    """

    folder: Path

    def note(self, number: int, exit_code: int | None) -> None:
        """Note a job's exit code, or None when it begins."""
        folder = self.folder / "outcomes"
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{number}.draft"
        record = {"job": number, "exit_code": exit_code, "pid": os.getpid(), "host": this_host()}
        draft.write_text(json.dumps(record), encoding="utf-8")
        draft.replace(folder / f"{number}.json")

    def stop_others(self) -> None:
        """Keep further jobs from beginning, ask those in other processes of this host to stop, and wait for that."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / STOPPED).touch()
        for record in self._open_elsewhere():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(record["pid"], signal.SIGTERM)
        give_up = time.monotonic() + STOP_LIMIT_S
        while self._open_elsewhere() and time.monotonic() < give_up:
            time.sleep(0.02)

    @property
    def are_stopped(self) -> bool:
        """Return whether no further job may begin."""
        return (self.folder / STOPPED).exists()

    def exit_code(self, expected: int) -> int:
        """Return the largest exit code of all jobs, at least 1 if fewer than `expected` left one."""
        codes = self._read()
        missing = expected - len(codes)
        return max([1 if code is None else code for code in codes.values()] + [1] * missing)

    def explain(self, error: Exception) -> CuprofError | None:
        """Return the error to show for a launcher's if a job's process ended before the job did, else None."""
        lost = sorted(str(number) for number, code in self._read().items() if code is None)
        if not lost:
            return None
        return CuprofError(
            f"a launcher's job ended before its time ({type(error).__name__}); jobs without a result: "
            f"{', '.join(lost)}; logs may be in {self.folder}; the same command goes on where this one stopped"
        )

    def _read(self) -> dict[int, int | None]:
        return {record["job"]: record["exit_code"] for record in self._records()}

    def _records(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text(encoding="utf-8")) for path in self.folder.glob("outcomes/*.json")]

    def _open_elsewhere(self) -> list[dict[str, Any]]:
        here = this_host()
        return [
            record
            for record in self._records()
            if record["exit_code"] is None and record["host"] == here and record["pid"] != os.getpid()
        ]
