"""Run a command on the configuration that its words compose: axes in one job, other lists as jobs one after another."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cuprof.cli.choice import is_chosen, tell_choice
from cuprof.core.errors import ConfigError
from cuprof.core.interrupts import stop_with_parent
from cuprof.core.project import find_project

if TYPE_CHECKING:
    from cuprof.cli.jobs import Task
    from cuprof.config import SweepConfig
    from cuprof.core.project import Project

    Launch = Callable[[Sequence[SweepConfig], Sequence[str], Project], int]


def run_chosen(command_name: str, argv: Sequence[str], task: Task, help_text: str, launch: Launch | None = None) -> int:
    """Start a worker ahead and do as `run`; where nothing says what to run, list what could be and return 2."""
    if not is_chosen(argv, project := find_project()):
        return tell_choice(command_name, project)
    _prestart_worker(argv)
    return run(command_name, argv, task, help_text, launch)


def run(command_name: str, argv: Sequence[str], task: Task, help_text: str = "", launch: Launch | None = None) -> int:
    """Compose the configuration from `argv` and give it to `task`, once or as several jobs; return the exit code.

    Args:
        command_name: what the user typed after `cuprof`.
        argv: options of Hydra's and `key=value` settings, in any order.
        task: the command's work on a configuration; it returns the exit code.
        help_text: printed instead if `argv` asks for help.
        launch: has the work done by jobs of a launcher, where the settings choose one.

    Returns:
        The task's exit code; of several jobs the largest.

    Raises:
        CuprofError: the configuration does not compose (nothing has run), or the only job failed.
        KeyboardInterrupt: the user stopped it.
    """
    if help_text and {"-h", "--help"} & set(argv):
        print(help_text)
        return 0
    from cuprof.cli.hydra_arguments import read_arguments
    from cuprof.config.composer import Composer

    options, typed = read_arguments(command_name, argv)
    project = find_project()
    composer = Composer(project, typed, options)
    command_line = shlex.join(["cuprof", command_name, *argv])
    if {"cfg", "info"} & options.keys():
        _check_one_study(composer.settings, typed)
        print(composer.show(), end="")
        return 0
    if composer.arguments.has_lists or "multirun" in options:
        from cuprof.cli.jobs import compose_jobs, run_jobs

        jobs = compose_jobs(composer, command_line)
    else:
        jobs = {"": composer.config(command_line)}
    configs = list(jobs.values())
    if configs[0].launch.job:
        stop_with_parent()
    if configs[0].launch.name != "local" and not configs[0].dry_run:
        if launch is not None:
            return launch(configs, argv, project)
        if any(word.startswith("launch=") for word in typed):
            raise ConfigError(f"launch= is for cuprof sweep and doctor; {command_name} runs in this process")
    return task(configs[0], project) if len(jobs) == 1 else run_jobs(jobs, task, project)


def _check_one_study(settings: Sequence[str], typed: Sequence[str]) -> None:
    replaced = next((each for each in settings if each not in typed and "=" in each), None)
    if replaced:
        one = replaced.partition(",")[0]
        raise ConfigError(f"this experiment stands for several, and --cfg and --info show one: write {one}")


def _prestart_worker(argv: Sequence[str]) -> None:
    """Start a worker process while the command still composes and imports, unless the options ask Hydra something.

    It starts one for each named GPU; how many "all" means is not known this early.
    """
    launches = any(argument.startswith("launch=") and argument != "launch=local" for argument in argv)
    if not launches and not any(argument.startswith("-") and not argument.startswith("--store") for argument in argv):
        from cuprof.engine.launch import prestart

        named = [argument.partition("=")[2] for argument in argv if argument.startswith("device.cuda=")]
        prestart(len(named[-1].split(",")) if named else 1)
