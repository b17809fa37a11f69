"""Compose the configuration of a command and run it: axes in one job, other lists as jobs of a Hydra launcher.

One job runs here. Launchers return no exit codes and go on past failed jobs, so every job of several leaves a record
of its own (`JobRecords`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from cuprof.cli.choice import is_chosen, tell_choice
from cuprof.cli.job_records import JobRecords
from cuprof.cli.main import explain_full
from cuprof.cli.output import print_message
from cuprof.cli.stream import guarded_output
from cuprof.core.errors import ConfigError
from cuprof.core.interrupts import INTERRUPTED, heard, stop_with_parent
from cuprof.core.project import Project, bundled, find_project
from cuprof.core.text import hide_folded_passwords, hide_in_data

if TYPE_CHECKING:
    from hydra._internal.hydra import Hydra

    from cuprof.config import SweepConfig

SLOW_IMPORTS = ("cupy", "torch")
"""Modules that variants on a GPU often need and that take seconds to import, in the order of use."""
Task = Callable[["SweepConfig", Project], int]
"""A command's work on a composed configuration: a module-level function that returns the exit code."""
_COMPOSING = Lock()
"""Hydra composes one configuration at a time, whatever the thread."""


def run_chosen(command_name: str, argv: Sequence[str], task: Task, help_text: str) -> int:
    """Start a worker ahead and do as `run`; where nothing says what to run, list what could be and return 2."""
    if not is_chosen(argv, project := find_project()):
        return tell_choice(command_name, project)
    _prestart_worker(argv)
    return run(command_name, argv, task, help_text)


def run(command_name: str, argv: Sequence[str], task: Task, help_text: str = "") -> int:
    """Compose the configuration from `argv` and give it to `task`, once or as several jobs; return the exit code.

    Args:
        command_name: what the user typed after `cuprof`.
        argv: options of Hydra's and `key=value` settings, in any order.
        task: defined at the top of a module, since launchers send it to other processes.
        help_text: printed instead if `argv` asks for help.

    Returns:
        The task's exit code; of several jobs the largest. A job that left no record counts as failed (1).

    Raises:
        CuprofError: the configuration does not compose (nothing has run), or the only job failed.
        KeyboardInterrupt: the user stopped it.
    """
    if help_text and {"-h", "--help"} & set(argv):
        print(help_text)
        return 0
    from cuprof.cli.hydra_arguments import read_arguments

    options, typed = read_arguments(command_name, argv)
    project = find_project()
    composer = Composer(project, typed, options)
    command_line = shlex.join(["cuprof", command_name, *argv])
    if {"cfg", "info"} & options.keys():
        _check_one_study(composer.settings, typed)
        print(composer.show(), end="")
        return 0
    if not (composer.arguments.has_lists or "multirun" in options):
        return task(composer.config(command_line), project)
    return _run_jobs(composer, task, command_line)


def compose(overrides: Sequence[str], project: Project | None = None) -> SweepConfig:
    """Return the configuration that the command line would compose from `overrides`, without running anything.

    Raises:
        CuprofError: it does not compose or validate.
    """
    return Composer(project or find_project(), overrides).config()


def _check_one_study(settings: Sequence[str], typed: Sequence[str]) -> None:
    replaced = next((each for each in settings if each not in typed and "=" in each), None)
    if replaced:
        one = replaced.partition(",")[0]
        raise ConfigError(f"this experiment stands for several, and --cfg and --info show one: write {one}")


def _prestart_worker(argv: Sequence[str]) -> None:
    """Start a worker process while the command still composes and imports, unless the options ask Hydra something.

    It starts one for each named GPU; how many "all" means is not known this early.
    """
    if not any(argument.startswith("-") and not argument.startswith("--store") for argument in argv):
        from cuprof.engine.launch import prestart

        named = [argument.partition("=")[2] for argument in argv if argument.startswith("device.cuda=")]
        prestart(len(named[-1].split(",")) if named else 1)


class Composer:
    """Compose settings with the files of a project, of cuprof and of the folders that options name.

    Args:
        project: whose conf/ hides cuprof's own.
        typed: settings, `key=value`.
        options: as `cuprof.cli.hydra_arguments.read_arguments` returns them.

    Attributes:
        settings: those typed, with experiments that stand for several replaced by these.
        arguments: the settings, read.
    """

    def __init__(self, project: Project, typed: Sequence[str], options: Mapping[str, Any] | None = None) -> None:
        from cuprof.cli.hydra_arguments import find_main
        from cuprof.config.overrides import read_settings
        from cuprof.config.studies import choose_experiments

        self.project, self.options = project, options or {}
        self.folders = [*map(Path, filter(None, [self.options.get("config_dir")])), *project.conf_folders]
        self.settings = choose_experiments(typed, self.folders, find_main(self.options, self.folders))
        self.arguments = read_settings(self.settings)

    def config(self, command_line: str = "") -> SweepConfig:
        """Return the configuration, composed and checked."""
        from omegaconf import flag_override

        with self.explaining(), _COMPOSING:
            composed = self.compose()
            experiment = str(composed.hydra.runtime.choices.get("experiment") or "")
            with flag_override(composed, ["struct", "readonly"], [False, False]):
                composed.pop("hydra")
            return _build(composed, self.arguments.axes, experiment, command_line)

    def compose(self, jobs: Path | None = None) -> Any:
        """Return what Hydra composes; with a folder for several jobs, without the lists that make them."""
        from hydra.core.hydra_config import HydraConfig
        from hydra.types import RunMode

        from cuprof.cli.hydra_arguments import quoted

        folder = [f"hydra.sweep.dir={quoted(str(jobs))}"] if jobs else []
        mode = RunMode.MULTIRUN if jobs else RunMode.RUN
        composed = self.hydra.compose_config(self._main, [*folder, *self.arguments.overrides], mode)
        HydraConfig.instance().set_config(composed)
        return composed

    @cached_property
    def hydra(self) -> Hydra:
        """Return Hydra, with the folders of configuration in their order."""
        from hydra._internal.config_loader_impl import ConfigLoaderImpl
        from hydra._internal.hydra import Hydra
        from hydra._internal.utils import create_config_search_path
        from hydra.core.config_search_path import SearchPathQuery

        path = create_config_search_path(str(bundled("conf")))
        if folder := self.options.get("config_dir"):
            if not Path(folder).is_dir():
                raise ConfigError(f"--config-dir: folder {folder!r} not found")
            anchor = SearchPathQuery(provider="schema")
            path.prepend("command-line", f"file://{Path(folder).absolute()}", anchor)
        return Hydra(task_name="cuprof", config_loader=ConfigLoaderImpl(config_search_path=path))

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise errors of Hydra's as ours, in one line."""
        try:
            yield
        except Exception as error:
            from cuprof.config.explain import explain

            explained = explain(error, self.settings, self.folders)
            if explained is None:
                raise
            raise explained from None

    def show(self) -> str:
        """Return what --cfg or --info shows, without passwords."""
        if "cfg" in self.options:
            return self._show_config()
        shown = StringIO()
        with self.explaining(), redirect_stdout(shown):
            self.hydra.show_info(self.options["info"], self._main, list(self.arguments.overrides))
        return hide_folded_passwords(shown.getvalue())

    @property
    def _main(self) -> str:
        return str(self.options.get("config_name", "config"))

    def _show_config(self) -> str:
        """Return the composed configuration, or a part of it, as YAML."""
        from omegaconf import OmegaConf, flag_override

        from cuprof.config.overrides import set_axes

        package = self.options.get("package", "").removeprefix("_global_")
        with self.explaining():
            config = self.compose()
            if self.options["cfg"] != "hydra":
                with flag_override(config, ["struct", "readonly"], [False, False]):
                    set_axes(config, self.arguments.axes)
            shown = self.hydra.get_sanitized_cfg(config, self.options["cfg"])
            part = OmegaConf.select(shown, package) if package else shown
        if part is None:
            raise ConfigError(f"package {package!r} not found in config")
        if not OmegaConf.is_config(part):
            return f"{hide_in_data(part)}\n"
        hidden = OmegaConf.create(hide_in_data(OmegaConf.to_container(part)))
        return (f"# @package {package}\n" if package else "") + OmegaConf.to_yaml(hidden)


def _build(composed: Any, axes: Mapping[str, list[Any]], experiment: str, command_line: str) -> SweepConfig:
    """Return what Hydra has composed, and the typed axes, as a `SweepConfig`."""
    from omegaconf import OmegaConf

    from cuprof.config.build import build_config
    from cuprof.config.overrides import set_axes

    set_axes(composed, axes)
    plain: Any = OmegaConf.to_container(composed, resolve=True)
    return build_config(plain, experiment=experiment, given=axes, command_line=command_line)


def _run_jobs(composer: Composer, task: Task, command_line: str) -> int:
    """Compose every job, so that nothing runs where one does not compose; launch them; return the largest exit code."""
    from cuprof.config.overrides import split_jobs

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
    from hydra._internal.callbacks import Callbacks
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext

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
        from hydra.core.hydra_config import HydraConfig

        from cuprof.config.explain import explain

        if self.records.are_stopped:
            raise KeyboardInterrupt
        runtime = HydraConfig.get()
        number = int(runtime.job.num)
        self.records.note(number, None)
        print_message(f"job {number}: {' '.join(runtime.overrides.task) or 'as configured'}")
        try:
            experiment = str(runtime.runtime.choices.get("experiment") or "")
            config = _build(composed, self.axes, experiment, self.command_line)
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
