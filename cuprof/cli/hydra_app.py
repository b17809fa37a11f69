"""Run a command as a Hydra application: axes in one job, other lists as jobs, errors in one line, exit codes kept.

Hydra's `main()` returns nothing and goes on past failed jobs, so every job leaves a record of its own (`JobRecords`).
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime
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
    from cuprof.config import SweepConfig

SLOW_IMPORTS = ("cupy", "torch")
"""Modules that variants on a GPU often need and that take seconds to import, in the order of use."""
Task = Callable[["SweepConfig", Project], int]
"""A command's work on a composed configuration: a module-level function that returns the exit code."""


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
        CuprofError: the configuration does not compose (nothing has run).
        KeyboardInterrupt: the user stopped it.
    """
    if help_text and {"-h", "--help"} & set(argv):
        print(help_text)
        return 0
    from cuprof.cli.hydra_arguments import find_main, list_words, read_arguments
    from cuprof.config.overrides import read_settings
    from cuprof.config.studies import choose_experiments

    options, typed = read_arguments(command_name, argv)
    if "hydra_help" in options:  # which composes nothing of ours
        typed = []
    project = find_project()
    folders = [*map(Path, filter(None, [options.get("config_dir")])), *project.conf_folders]
    settings = choose_experiments(typed, folders, find_main(options, folders))
    arguments = read_settings(settings)
    is_run = not {"cfg", "info", "hydra_help", "shell_completion"} & options.keys()
    several = "multirun" in options or (is_run and arguments.jobs != 1)
    _check_options(options, [each for each in settings if each not in typed], several=several)
    folder = project.jobs / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{os.getpid()}"
    records = JobRecords(folder if several else None)
    job = HydraJob(
        task, project, arguments.axes, shlex.join(["cuprof", command_name, *argv]), records, arguments.jobs or 1
    )
    words = list_words({**options, **({"multirun": True} if several else {}), "package": ""})
    keep_out = ["++hydra.callbacks.typed_record._target_=cuprof.cli.typed_record.NoTypedRecord"] * several
    shown = StringIO()
    with heard(before_stopping=records.stop_others), nullcontext() if is_run else redirect_stdout(shown):
        _start_hydra(job, [f"cuprof {command_name}", *words, *arguments.overrides, *keep_out], folder, folders)
    if is_run:
        return records.exit_code(arguments.jobs if several else None)
    text = shown.getvalue()
    print(_show(text, arguments.axes, options) if "cfg" in options else hide_folded_passwords(text), end="")
    return 0


def _check_options(options: Mapping[str, Any], replaced: Sequence[str], *, several: bool) -> None:
    """Raise `ConfigError` if the options ask for one job and the settings make several."""
    if {"cfg", "info"} & options.keys() and (one := next((each for each in replaced if "=" in each), None)):
        raise ConfigError(
            f"this experiment stands for several, and --cfg and --info show one: write {one.partition(',')[0]}"
        )
    if several and "run" in options:
        raise ConfigError("--run starts one job, but a list on a key that is no axis asks for several; leave --run out")


def _prestart_worker(argv: Sequence[str]) -> None:
    """Start a worker process while the command still composes and imports, unless the options ask Hydra something.

    It starts one for each named GPU; how many "all" means is not known this early.
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
    from cuprof.config.explain import explain
    from cuprof.config.overrides import read_settings
    from cuprof.config.studies import choose_experiments

    folders = (project or find_project()).conf_folders
    settings = choose_experiments(overrides, folders, find_main({}, folders))
    arguments = read_settings(settings)
    try:
        with _COMPOSING, initialize_config_dir(str(bundled("conf")), version_base="1.3", job_name="cuprof"):
            composed = hydra_compose("config", list(arguments.overrides), return_hydra_config=True)
            experiment = str(composed.hydra.runtime.choices.get("experiment") or "")
            OmegaConf.set_readonly(composed, False)
            OmegaConf.set_struct(composed, False)
            composed.pop("hydra")
            return _build(composed, arguments.axes, experiment)
    except Exception as error:
        explained = explain(error, settings)
        if explained is None:
            raise
        raise explained from None


def _build(composed: Any, axes: Mapping[str, list[Any]], experiment: str, command_line: str = "") -> SweepConfig:
    """Return what Hydra has composed, and the typed axes, as a `SweepConfig`."""
    from omegaconf import OmegaConf

    from cuprof.config.build import build_config
    from cuprof.config.overrides import set_axes

    set_axes(composed, axes)
    plain: Any = OmegaConf.to_container(composed, resolve=True)
    return build_config(plain, experiment=experiment, given=axes, command_line=command_line)


def _show(text: str, axes: Mapping[str, list[Any]], options: Mapping[str, Any]) -> str:
    """Return the configuration that Hydra shows, or a part of it, with the typed axes and without passwords."""
    from omegaconf import OmegaConf

    from cuprof.config.overrides import set_axes

    config, package = OmegaConf.create(text), options.get("package", "").removeprefix("_global_")
    if options["cfg"] != "hydra":
        set_axes(config, axes)
    if "resolve" in options:
        OmegaConf.resolve(config)
    part = OmegaConf.select(config, package) if package else config
    if part is None:
        raise ConfigError(f"package {package!r} not found in config")
    if not OmegaConf.is_config(part):
        return f"{hide_in_data(part)}\n"
    hidden = OmegaConf.create(hide_in_data(OmegaConf.to_container(part)))
    return (f"# @package {package}\n" if package else "") + OmegaConf.to_yaml(hidden)


@dataclass(frozen=True)
class HydraJob:
    """The task function that Hydra calls, in this process or in a launcher's; picklable.

    Errors end here: they become one line and the job's record, so that further jobs go on.
    """

    task: Task
    project: Project
    axes: Mapping[str, list[Any]]
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

        from cuprof.config.explain import explain

        if self.records.are_stopped:
            raise KeyboardInterrupt
        runtime = HydraConfig.get()
        number = int(runtime.job.num) if self.records.folder else 0
        self.records.note(number, None)
        if self.records.folder:
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
            if explained is None:
                self.records.note(number, 1)
                raise
            self.records.note(number, explained.exit_code)
            print_message(f"error: {explained}")


def _start_hydra(job: HydraJob, argv: list[str], jobs: Path, folders: Sequence[Path]) -> None:
    import hydra

    from cuprof.config.explain import explain, explain_start

    application = hydra.main(version_base="1.3", config_path=str(bundled("conf")), config_name="config")(job)
    with _process_state(argv, {"HYDRA_FULL_ERROR": "1", "CUPROF_JOBS": str(jobs)}), _mode_as_typed(argv):
        try:
            application()
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise ConfigError(f"the configuration library ended with exit code {ended.code}") from None
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


@contextmanager
def _mode_as_typed(argv: Sequence[str]) -> Iterator[None]:
    """Save a whole composition, a quarter of a second, that Hydra makes to see whether a file sets its mode."""
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
