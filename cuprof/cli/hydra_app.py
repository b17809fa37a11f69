"""Run a command on the configuration that its words compose: axes in one job, other lists as jobs one after another."""

from __future__ import annotations

import importlib
import os
import pickle
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from cuprof.cli.choice import is_chosen, tell_choice
from cuprof.cli.output import print_error, print_message
from cuprof.core.errors import ConfigError
from cuprof.core.interrupts import stop_with_parent
from cuprof.core.project import Project, find_project
from cuprof.engine.launch import prestart, prestart_for_next_job

if TYPE_CHECKING:
    from cuprof.cli.launching import Show
    from cuprof.config.model import SweepConfig

    Task = Callable[[SweepConfig, Project], int]
T = TypeVar("T")
NVIDIA = Path("/dev/nvidiactl")
"""Where there is none, a worker need not import CuPy before anybody asks for a device."""
SLOW_IMPORTS = ("cupy", "torch")
"""Modules that variants on a GPU often need and that take seconds to import, in the order of use."""


@dataclass(frozen=True)
class HydraCommand:
    """A command that works on the configuration that its words compose.

    Args:
        task: the command's work on a configuration; it returns the exit code.
        show: shows the results of a sweep; of a command whose work jobs of a launcher do where the settings choose one.
        ahead: modules of the task, to be imported while the configuration is composed.
        is_measuring: a worker is started ahead; where nothing says what to run, what could be is listed.
    """

    name: str
    task: Task
    description: str = ""
    examples: str = ""
    show: Show | None = None
    ahead: Sequence[str] = ()
    is_measuring: bool = False

    def __call__(self, argv: Sequence[str]) -> int:
        """Compose the configuration of settings and Hydra's options, and give it to the task, once or as several jobs.

        Return the largest exit code.

        Raises:
            CuprofError: the configuration does not compose (nothing has run), or the only job failed.
            KeyboardInterrupt: the user stopped it.
        """
        project = find_project()
        if self.is_measuring and not is_chosen(argv, project):
            return tell_choice(self.name, project)
        if {"-h", "--help"} & set(argv):
            from cuprof.cli.hydra_arguments import make_parser

            make_parser(self.name, self.description, self.examples).print_help()
            return 0
        if self.is_measuring:
            _prestart_worker(argv)
        composed = beside(partial(_compose, self.name, argv, project), self.ahead)
        if isinstance(composed, str):
            print(composed, end="")
            return 0
        jobs, typed = composed
        configs = list(jobs.values())
        if configs[0].launch.job:
            stop_with_parent()
        if configs[0].launch.name != "local" and not configs[0].dry_run:
            if self.show is not None:
                from cuprof.cli.launching import launch_sweep

                return launch_sweep(configs, argv, project, self.show)
            if any(word.startswith("launch=") for word in typed):
                raise ConfigError(f"launch= is for cuprof sweep and doctor; {self.name} runs in this process")
        return self.task(configs[0], project) if len(jobs) == 1 else _run_jobs(jobs, self.task, project)


def _compose(command: str, argv: Sequence[str], project: Project) -> str | tuple[dict[str, SweepConfig], list[str]]:
    """Return the settings of each job → its configuration, and those typed; or the text that an option asks for."""
    from cuprof.cli.hydra_arguments import read_arguments
    from cuprof.config.composer import Composer

    options, typed = read_arguments(command, argv)
    composer = Composer(project, typed, options)
    command_line = shlex.join(["cuprof", command, *argv])
    if {"cfg", "info"} & options.keys():
        if replaced := next((each for each in composer.settings if each not in typed and "=" in each), None):
            one = replaced.partition(",")[0]
            raise ConfigError(f"this experiment stands for several, and --cfg and --info show one: write {one}")
        return composer.show()
    return composer.jobs(command_line), typed


def beside(work: Callable[[], T], modules: Sequence[str]) -> T:
    """Return what `work` returns, done in a copy of this process while this one imports modules.

    Hydra's import and composing take as long as the engine's imports. Where the copy fails, this process does the work
    again, and raises what it raises.
    """
    if not modules or "hydra" in sys.modules or threading.active_count() > 1:  # a lock that one holds stays locked
        return work()
    ours, theirs = os.pipe()
    process = os.fork()
    if not process:
        try:
            with os.fdopen(theirs, "wb") as pipe:
                pipe.write(pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        for name in modules:
            importlib.import_module(name)
    finally:
        with os.fdopen(ours, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(process, 0)
    return cast(T, pickle.loads(answer)) if answer else work()


def _run_jobs(jobs: Mapping[str, SweepConfig], task: Task, project: Project) -> int:
    """Run each job, also after one that failed; return the largest exit code."""
    codes = []
    for number, (settings, config) in enumerate(jobs.items()):
        print_message(f"job {number}: {settings or 'as configured'}")
        if number + 1 < len(jobs):
            prestart_for_next_job(SLOW_IMPORTS if "cuda" in config.device.backends else ())
        try:
            codes.append(task(config, project))
        except Exception as error:
            codes.append(print_error(error))
    return max(codes)


def _prestart_worker(argv: Sequence[str]) -> None:
    """Start a worker process while the command still composes and imports, unless the options ask Hydra something.

    It starts one for each named GPU; how many "all" means is not known this early.
    """
    launches = any(argument.startswith("launch=") and argument != "launch=local" for argument in argv)
    if not launches and not any(argument.startswith("-") and not argument.startswith("--store") for argument in argv):
        named = [argument.partition("=")[2] for argument in argv if argument.startswith("device.cuda=")]
        modules = ("cupy",) if NVIDIA.exists() and "device=cpu" not in argv else ()
        prestart(len(named[-1].split(",")) if named else 1, modules)
