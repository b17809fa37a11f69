"""Run a command on the configuration that its words compose: axes in one job, other lists as jobs one after another.

Hydra's options may stand anywhere among the settings. An error takes one line.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeVar, cast

from cuprof.cli.arguments import CommandParser
from cuprof.cli.choice import find_meant, is_chosen, name_setting, tell_choice
from cuprof.cli.output import print_error, print_message
from cuprof.config.overrides import key_of, quoted
from cuprof.core.errors import ConfigError, UnknownNameError
from cuprof.core.interrupts import stop_with_parent
from cuprof.core.processes import import_ahead
from cuprof.core.project import Project, find_project
from cuprof.core.text import list_first
from cuprof.engine.launch import prestart, prestart_for_next_job

if TYPE_CHECKING:
    from cuprof.config.model import SweepConfig

    Task = Callable[[SweepConfig, Project], int]
T = TypeVar("T")
NVIDIA = Path("/dev/nvidiactl")
"""Where there is none, a worker need not import CuPy before anybody asks for a device."""
SLOW_IMPORTS = ("cupy", "torch")
"""Modules that variants on a GPU often need and that take seconds to import, in the order of use."""
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


@dataclass(frozen=True)
class HydraCommand:
    """A command that works on the configuration that its words compose.

    Args:
        task: the command's work on a configuration; it returns the exit code.
        ahead: modules of the task, to be imported while the configuration is composed.
        spare: modules that it needs after that, imported only while composing still goes on.
        is_measuring: a worker is started ahead; where nothing says what to run, what could be is listed.
    """

    name: str
    task: Task
    description: str = ""
    examples: str = ""
    ahead: Sequence[str] = ()
    spare: Sequence[str] = ()
    is_measuring: bool = False

    def __call__(self, argv: Sequence[str]) -> int:
        """Give the task what settings and Hydra's options compose, as one job or several; return the largest exit code.

        Raises:
            CuprofError: the configuration does not compose (nothing has run), or the only job failed.
        """
        project = find_project()
        if self.is_measuring and not is_chosen(argv, project):
            return tell_choice(self.name, project)
        if {"-h", "--help"} & set(argv):
            make_parser(self.name, self.description, self.examples).print_help()
            return 0
        if self.is_measuring:
            _prestart_worker(argv)
        composed = beside(partial(_compose, self.name, argv, project), self.ahead, self.spare)
        if isinstance(composed, str):
            print(composed, end="")
            return 0
        jobs, typed = composed
        configs = list(jobs.values())
        if configs[0].launch.job:
            stop_with_parent()
        if configs[0].launch.name != "local" and not configs[0].dry_run:
            if self.name == "sweep":
                from cuprof.cli.launching import launch_sweep

                return launch_sweep(configs, argv, project)
            if any(word.startswith("launch=") for word in typed):
                raise ConfigError(f"launch= is for cuprof sweep and doctor; {self.name} runs in this process")
        return self.task(configs[0], project) if len(jobs) == 1 else _run_jobs(jobs, self.task, project)


def _compose(command: str, argv: Sequence[str], project: Project) -> str | tuple[dict[str, SweepConfig], list[str]]:
    """Return the settings of each job → its configuration, and those typed; or the text that an option asks for."""
    from cuprof.config.composer import Composer

    options, typed = read_arguments(command, argv)
    composer = Composer(project, typed, options)
    command_line = shlex.join(["cuprof", command, *argv])
    if {"cfg", "info"} & options.keys():
        if replaced := next((each for each in composer.settings if each not in typed and "=" in each), None):
            one = replaced.partition(",")[0]
            raise ConfigError(f"this experiment stands for several, and --cfg and --info show one: write {one}")
        return composer.show()
    try:
        return composer.jobs(command_line), typed
    except UnknownNameError as error:
        from cuprof.families.origin import list_families

        if error.what == "experiment" and error.name in list_families(project.folders("kernels")):
            raise ConfigError(f"{error.name} is a family: write family={error.name}") from None
        raise


def beside(work: Callable[[], T], modules: Sequence[str], spare: Sequence[str] = ()) -> T:
    """Return what `work` returns, done in a copy of this process while this one imports modules.

    Hydra's import and composing take as long as the engine's imports; of many jobs they take longer. Where the copy
    fails, this process does the work again, and raises what it raises.
    """
    if not modules or "hydra" in sys.modules or threading.active_count() > 1:  # a lock that one holds stays locked
        return work()
    ours, theirs = os.pipe()
    process = os.fork()
    if not process:
        stop_with_parent()
        try:
            with os.fdopen(theirs, "wb") as pipe:
                pipe.write(pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        for name in modules:
            importlib.import_module(name)
        for name in spare:
            if not select.select([ours], [], [], 0)[0]:
                import_ahead(name)
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


def make_parser(command: str, description: str = "", examples: str = "") -> CommandParser:
    """Return the parser of a command that takes settings; `description` explains them."""
    parser = _Parser(command, description, examples, notes=_describe_settings(), store=True)
    parser.set_defaults(store=None)
    parser.usage = "%(prog)s [FILE | NAME] [SETTING=VALUE ...] [OPTION ...]"
    forms = parser.add_mutually_exclusive_group()
    told = "show the configuration: of the job, Hydra's own, or all"
    forms.add_argument("--cfg", "-c", metavar="PART", choices=("job", "hydra", "all"), help=told)
    told = f"show where it comes from: {', '.join(INFO)}"
    forms.add_argument("--info", "-i", metavar="WHAT", choices=INFO, nargs="?", const="all", help=told)
    forms.add_argument("--multirun", "-m", action="store_true", help="run lists as jobs")
    parser.add_argument("--package", "-p", metavar="PART", help="with --cfg: only this part")
    parser.add_argument("--config-dir", "-cd", metavar="DIR", help="add a folder of configuration")
    parser.add_argument("--config-name", "-cn", metavar="NAME", help="another main configuration")
    parser.add_argument("settings", metavar="SETTING=VALUE", nargs="*", help="see above")
    return parser


def _describe_settings() -> str:
    from cuprof.config.build import list_settings

    groups: dict[str, list[str]] = {}
    for group, dot, name in (key.partition(".") for key in list_settings()):
        if dot and group != "problem":
            groups.setdefault(group, []).append(name)
    paragraphs = [
        fill(", ".join(names), 118, initial_indent=f"  {group:9}", subsequent_indent=" " * 11)
        for group, names in groups.items()
    ]
    return "\n".join(["single settings, written GROUP.NAME=VALUE; --cfg job shows what each is set to:", *paragraphs])


def read_arguments(command: str, argv: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return (Hydra's options, settings); settings in a script's own call of `cuprof.compare` come first.

    An option that was given, such as "config_dir" or "multirun", has its value, True for a flag; others are absent.

    Raises:
        UsageError: an option that Hydra does not have, a value that it does not take, or two options that exclude
            each other. (--experimental-rerun needs the pickled configuration of a job, and cuprof's jobs leave none.)
    """
    from cuprof.families.origin import read_settings

    values = vars(make_parser(command).parse_intermixed_args(argv))
    words = values.pop("settings")
    typed, alone = [word for word in words if "=" in word], [word for word in words if "=" not in word]
    if len(files := [word for word in alone if word.endswith((".py", ".json"))]) > 1:
        raise ConfigError(f"{list_first(files, 3)}: give one file; a file may compare several functions")
    scripts = [Path(word) for word in files if word.endswith(".py") and Path(word).is_file()]
    own = [setting for script in scripts for setting in read_settings(script)]
    replaced = tuple(f"{key_of(word)}." for word in typed)
    settings = [each for each in own if not f"{key_of(each)}.".startswith(replaced)]
    project = find_project()
    settings += [name_setting(word, project, is_stored=command == "report") for word in words]
    if url := values.pop("store"):
        settings.append(f"store.url={quoted(url)}")
    if values["package"] and not values["cfg"]:
        raise ConfigError("--package is about what --cfg shows; add --cfg job, or leave --package out")
    return {name: value for name, value in values.items() if value}, settings


class _Parser(CommandParser):
    def find_hint(self, option: str) -> str:
        from cuprof.config.build import list_settings

        key, equals, value = option.lstrip("-").replace("-", "_").partition("=")
        if meant := find_meant(option) or (f"{key}={value if equals else '…'}" if key in list_settings() else ""):
            return f"settings have no dashes; write {meant}"
        hint = super().find_hint(option) if option.startswith("--") else ""
        return hint if hint.startswith("did you mean") else "settings are written key=value"
