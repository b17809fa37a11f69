"""Run a command on the configuration that its words compose: axes in one job, other lists as jobs of a launcher."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuprof.cli.choice import is_chosen, tell_choice
from cuprof.core.errors import ConfigError
from cuprof.core.project import find_project

if TYPE_CHECKING:
    from cuprof.cli.jobs import Task


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
    from cuprof.config.composer import Composer

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
    from cuprof.cli.jobs import run_jobs

    return run_jobs(composer, task, command_line)


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
