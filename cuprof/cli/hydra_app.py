"""Run a command as a Hydra application: axes in one job, other lists as jobs, errors in one line, exit codes kept.

Hydra's `main()` returns nothing and goes on past failed jobs, so every job leaves a record of its own (`JobRecords`).
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from cuprof.cli.job_records import JobRecords
from cuprof.cli.main import explain_full
from cuprof.cli.output import print_message
from cuprof.cli.stream import guarded_output
from cuprof.core.errors import ConfigError
from cuprof.core.interrupts import INTERRUPTED, heard, stop_with_parent
from cuprof.core.project import Project, bundled, find_project

if TYPE_CHECKING:
    from cuprof.config import SweepConfig

SLOW_IMPORTS = ("cupy", "torch")
"""What variants on a GPU often need and takes seconds to import; in this order, as where nothing is imported ahead."""
Task = Callable[["SweepConfig", Project], int]
"""What a command does with a composed configuration: a module-level function that returns the exit code."""


def run(command_name: str, argv: Sequence[str], task: Task, help_text: str = "") -> int:
    """Compose the configuration from `argv` and give it to `task`, once or as several jobs; return the exit code.

    Args:
        command_name: what the user typed after `cuprof`.
        argv: options of Hydra's and `key=value` settings, in any order.
        task: defined at the top of a module, since launchers send it to other processes.
        help_text: printed instead where `argv` asks for help.

    Returns:
        The task's exit code; of several jobs the largest. A job that left no record counts as failed (1).

    Raises:
        CuprofError: the configuration does not compose (nothing has run).
        KeyboardInterrupt: the user stopped it.
    """
    if help_text and {"-h", "--help"} & set(argv):
        print(help_text)
        return 0
    from cuprof.cli.hydra_arguments import added_folders, find_main, read_arguments
    from cuprof.config.overrides import split_axes
    from cuprof.config.studies import expand_studies, leave_default_experiment

    options, typed = read_arguments(command_name, argv)
    project = find_project()
    folders = [*added_folders(options), *project.conf_folders]
    settings = expand_studies(typed, folders)
    arguments = split_axes(leave_default_experiment(settings, find_main(options, folders)))
    flags = set(options)
    is_run = not flags & {"--cfg", "--info", "--hydra-help", "--shell-completion"}
    if settings != typed and flags & {"--cfg", "--info"}:
        one = next(setting for setting in settings if setting not in typed).partition(",")[0]
        raise ConfigError(f"this experiment stands for several, and --cfg and --info show one: write {one}")
    if is_run and arguments.multirun and "--multirun" not in flags:
        if "--run" in flags:
            raise ConfigError(
                "--run starts one job, but a list on a key that is no axis asks for several; leave --run out"
            )
        options.append("--multirun")
    several = "--multirun" in options
    folder = project.jobs / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{os.getpid()}"
    records = JobRecords(folder if several else None)
    command_line = shlex.join(["cuprof", command_name, *argv])
    job = HydraJob(task, project, arguments.given, command_line, records, arguments.jobs or 1)
    keep_out = ["++hydra.callbacks.typed_record._target_=cuprof.cli.typed_record.NoTypedRecord"] * several
    with heard(before_stopping=records.stop_others):
        _start_hydra(job, [f"cuprof {command_name}", *options, *arguments.overrides, *keep_out], folder, folders)
    return records.exit_code(arguments.jobs if several else None) if is_run else 0


def prestart_worker(argv: Sequence[str]) -> None:
    """Start a worker process while the command still composes and imports, unless only Hydra is asked something.

    There is one for each GPU that is named; how many "all" are is not known so early.
    """
    if not any(argument.startswith("-") and not argument.startswith("--store") for argument in argv):
        from cuprof.engine.launch import prestart

        named = [argument.partition("=")[2] for argument in argv if argument.startswith("device.cuda=")]
        prestart(len(named[-1].split(",")) if named else 1)


_COMPOSING = Lock()
"""Hydra composes one configuration at a time, whatever the thread."""


def compose(overrides: Sequence[str], project: Project | None = None) -> SweepConfig:
    """Return the configuration that the command line would compose from `overrides`, without running anything.

    Raises:
        CuprofError: it does not compose or validate.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    from cuprof.cli.hydra_arguments import find_main
    from cuprof.config.build import build_config
    from cuprof.config.explain import explain
    from cuprof.config.overrides import split_axes
    from cuprof.config.studies import expand_studies, leave_default_experiment

    folders = (project or find_project()).conf_folders
    settings = leave_default_experiment(expand_studies(overrides, folders), find_main((), folders))
    arguments = split_axes(settings)
    try:
        with _COMPOSING, initialize_config_dir(str(bundled("conf")), version_base="1.3", job_name="cuprof"):
            composed = hydra_compose("config", list(arguments.overrides), return_hydra_config=True)
            experiment = str(composed.hydra.runtime.choices.get("experiment") or "")
            OmegaConf.set_readonly(composed, False)
            OmegaConf.set_struct(composed, False)
            composed.pop("hydra")
            plain: Any = OmegaConf.to_container(composed, resolve=True)
    except Exception as error:
        explained = explain(error, settings)
        if explained is None:
            raise
        raise explained from None
    return build_config(plain, experiment=experiment, given=arguments.given)


@dataclass(frozen=True)
class HydraJob:
    """The task function that Hydra calls, in this process or in a launcher's; picklable.

    Errors end here: they become one line and the job's record, so that further jobs go on.
    """

    task: Task
    project: Project
    given: frozenset[str]
    command_line: str
    records: JobRecords
    jobs: int = 1
    launcher: int = field(default_factory=os.getpid)

    def __call__(self, composed: Any) -> None:
        if os.getpid() != self.launcher:
            stop_with_parent()
        with heard(), guarded_output():  # a launcher's process has none yet
            self._run(composed)

    def _run(self, composed: Any) -> None:
        from hydra.core.hydra_config import HydraConfig
        from omegaconf import OmegaConf

        from cuprof.config.build import build_config
        from cuprof.config.explain import explain

        if self.records.are_stopped:
            raise KeyboardInterrupt
        runtime = HydraConfig.get()
        number = int(runtime.job.num) if self.records.folder else 0
        self.records.note(number, None)
        if self.records.folder:
            own = " ".join(text for text in runtime.overrides.task if not text.startswith("++"))  # not the jobs' axes
            print_message(f"job {number}: {own or 'as configured'}")
        try:
            plain: Any = OmegaConf.to_container(composed, resolve=True)
            config = build_config(
                plain,
                experiment=str(runtime.runtime.choices.get("experiment") or ""),
                given=self.given,
                command_line=self.command_line,
            )
            if number + 1 < self.jobs and os.getpid() == self.launcher:
                from cuprof.engine.launch import prestart_for_next_job

                prestart_for_next_job(SLOW_IMPORTS if "cuda" in config.device.backends else ())
            self.records.note(number, self.task(config, self.project))
        except KeyboardInterrupt:
            self.records.note(number, INTERRUPTED)
            raise
        except Exception as error:
            explained = explain(error) or explain_full(error)
            if explained is None:
                self.records.note(number, 1)
                raise
            self.records.note(number, explained.exit_code)
            print_message(f"error: {explained}")


def _start_hydra(job: HydraJob, argv: list[str], jobs: Path, folders: Sequence[Path]) -> None:
    import hydra

    from cuprof.config.explain import explain, explain_start

    application = hydra.main(version_base="1.3", config_path=str(bundled("conf")), config_name="config")(job)
    told = StringIO()  # Hydra's own word on a part that --cfg does not find, which becomes ours
    with (
        _process_state(argv, {"HYDRA_FULL_ERROR": "1", "CUPROF_JOBS": str(jobs)}),
        redirect_stderr(told if "--cfg" in argv else sys.stderr),
        _mode_as_typed(argv),
    ):
        try:
            application()
        except SystemExit as ended:
            if ended.code not in (None, 0):
                text = " ".join(told.getvalue().split())
                raise ConfigError(text or f"the configuration library ended with exit code {ended.code}") from None
        except KeyboardInterrupt:
            raise
        except Exception as error:
            explained = explain(error, argv)
            explained = explained or (
                job.records.explain(error) if job.records.begun else explain_start(error, folders)
            )
            if explained is None:
                raise
            raise explained from None
    sys.stderr.write(told.getvalue())


@contextmanager
def _mode_as_typed(argv: Sequence[str]) -> Iterator[None]:
    """Spare Hydra a whole composition, a quarter of a second, by which it asks whether a file sets its mode."""
    from hydra._internal.hydra import Hydra

    ask = Hydra.get_mode
    if not any("hydra.mode" in argument for argument in argv):
        Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = ask  # type: ignore[method-assign]


@contextmanager
def _process_state(argv: list[str], environment: dict[str, str]) -> Iterator[None]:
    """Set `sys.argv`, which Hydra reads, and environment variables; put them and the log handlers back afterwards."""
    import logging

    handlers, level = logging.root.handlers[:], logging.root.level
    saved_argv, saved = sys.argv, {name: os.environ.get(name) for name in environment}
    sys.argv = argv
    os.environ.update(environment)
    try:
        yield
    finally:
        sys.argv = saved_argv
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
