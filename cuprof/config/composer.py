"""Compose settings into a `SweepConfig` with Hydra. Its import takes 0.1 s: import this where something is composed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from functools import cached_property
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import OmegaConf, flag_override
from omegaconf.errors import KeyValidationError, OmegaConfBaseException
from yaml import YAMLError

from cuprof.config.build import build_config, lacks_package, list_settings
from cuprof.config.model import SweepConfig
from cuprof.config.overrides import FAULTS, GROUPS, choose_experiments, read_settings, split_jobs
from cuprof.core.errors import ConfigError, CuprofError, UnknownNameError
from cuprof.core.plugins import list_plugins
from cuprof.core.project import Project, bundled, find_project
from cuprof.core.text import hide_folded_passwords, hide_in_data
from cuprof.search.registry import GROUP

_COMPOSING = Lock()
"""Hydra composes one configuration at a time, whatever the thread."""


def compose(overrides: Sequence[str], project: Project | None = None) -> SweepConfig:
    """Return the configuration that the command line would compose from `overrides`, without running anything.

    Raises:
        CuprofError: it does not compose or validate.
    """
    composer = Composer(project or find_project(), overrides)
    with _explaining(composer.folders), _COMPOSING:
        return composer.build(composer.compose(composer.overrides), "")


def list_installed(group: str) -> list[str]:
    """Return the choices of a configuration group that installed packages add, for which cuprof has no file."""
    points = {"search": GROUP, "launch": "cuprof.launchers"}.get(group)
    names = list_plugins(points) if points else ()
    return [name for name in names if not (bundled("conf") / group / f"{name}.yaml").is_file()]


class Composer:
    """Compose typed settings, `key=value`, with the files of a project, of cuprof and of the folders that options name.

    Attributes:
        settings: those typed, with experiments that stand for several replaced by these.
        options: as `cuprof.cli.hydra_app.read_arguments` returns them; `overrides` and `axes` as `read_settings` does.
    """

    def __init__(self, project: Project, typed: Sequence[str], options: Mapping[str, Any] | None = None) -> None:
        self.project, self.options = project, options or {}
        self.folders = [*map(Path, filter(None, [self.options.get("config_dir")])), *project.folders("conf")]
        self._main = str(self.options.get("config_name", "config"))
        self.settings = choose_experiments(typed, self.folders, self._main.removesuffix(".yaml"))
        self.overrides, self.axes = read_settings(self.settings)

    def jobs(self, command_line: str) -> dict[str, SweepConfig]:
        """Return the settings of each job → its configuration, so that nothing runs where one does not compose."""
        with _explaining(self.folders), _COMPOSING:
            jobs = split_jobs(self.overrides, self.hydra.config_loader)
            return {" ".join(job): self.build(self.compose(job), command_line) for job in jobs}

    def build(self, composed: Any, command_line: str) -> SweepConfig:
        """Return what Hydra has composed as a `SweepConfig`."""
        experiment = str(composed.hydra.runtime.choices.get("experiment") or "")
        with flag_override(composed, ["struct", "readonly"], [False, False]):
            composed.pop("hydra")
        self.set_axes(composed)
        plain: Any = OmegaConf.to_container(composed, resolve=True)
        return build_config(plain, experiment=experiment, given=self.axes, command_line=command_line)

    def set_axes(self, composed: Any) -> None:
        """Put the typed axes into what Hydra has composed."""
        for key, values in self.axes.items():
            OmegaConf.update(composed, key, values, merge=False, force_add=True)

    def compose(self, overrides: Sequence[str]) -> Any:
        """Return what Hydra composes for one job."""
        composed = self.hydra.compose_config(self._main, [*overrides], RunMode.RUN)
        HydraConfig.instance().set_config(composed)
        return composed

    @cached_property
    def hydra(self) -> Hydra:
        """Return Hydra, with the folders of configuration in their order."""
        path = create_config_search_path(str(bundled("conf")))
        for folder in self.folders[:-1]:
            provider = "project" if folder in self.project.folders("conf") else "command-line"
            if not folder.is_dir():
                raise ConfigError(f"--config-dir: folder {str(folder)!r} not found")
            path.prepend(provider, f"file://{folder.absolute()}", SearchPathQuery(provider="main"))
        for group, default in (("search", "none"), ("launch", "local")):
            for name in list_installed(group):
                ConfigStore.instance().store(name, {"defaults": [default, "_self_"], "name": name}, group=group)
        return Hydra(task_name="cuprof", config_loader=ConfigLoaderImpl(config_search_path=path))

    def show(self) -> str:
        """Return what --cfg or --info shows, without passwords."""
        if "info" in self.options:
            shown = StringIO()
            with _explaining(self.folders), redirect_stdout(shown):
                self.hydra.show_info(self.options["info"], self._main, self.overrides)
            return hide_folded_passwords(shown.getvalue())
        package = self.options.get("package", "").removeprefix("_global_")
        with _explaining(self.folders):
            config = self.compose(self.overrides)
            if self.options["cfg"] != "hydra":
                self.set_axes(config)
            whole = self.hydra.get_sanitized_cfg(config, self.options["cfg"])
            part = OmegaConf.select(whole, package) if package else whole
        if part is None:
            raise ConfigError(f"package {package!r} not found in config")
        if not OmegaConf.is_config(part):
            return f"{hide_in_data(part)}\n"
        hidden = OmegaConf.create(hide_in_data(OmegaConf.to_container(part)))
        return (f"# @package {package}\n" if package else "") + OmegaConf.to_yaml(hidden)


@contextmanager
def _explaining(folders: Sequence[Path]) -> Iterator[None]:
    """Raise errors of Hydra's, or of a file in these folders of configuration, as ours, in one line."""
    try:
        yield
    except YAMLError as error:
        raise ConfigError(f"a configuration file is not valid YAML: {' '.join(str(error).split())}") from None
    except (HydraException, OmegaConfBaseException) as error:
        if isinstance(error.__cause__, KeyValidationError) and (file := _find_faulty(folders, KeyValidationError)):
            raise ConfigError(f"{file} has a key that is no name, such as null; write NAME: VALUE") from None
        raise _explain_hydra(error, folders) from None
    except (OSError, AssertionError, *FAULTS) as error:
        if isinstance(error, OSError) and error.filename:
            raise ConfigError(f"{error.filename} cannot be used: {error.strerror}") from None
        said = " ".join(str(error).split()) or "an interpolation gives something other than a name"
        file = _find_faulty(folders, type(error))
        if file is None and not isinstance(error, ValueError | RecursionError | AssertionError):
            raise
        if isinstance(error, AttributeError | LookupError | TypeError):
            said = "a value does not fit the type that !! names before it"
        elif isinstance(error, OSError):
            said = error.strerror or "it is a single value; write NAME: VALUE"
        raise ConfigError(f"{f'{file} cannot be read' if file else 'the settings do not compose'}: {said}") from None


def _find_faulty(folders: Sequence[Path], kind: type[Exception]) -> Path | None:
    """Return the first file of configuration that raises such an error: it is no UTF-8, has a date without a month."""
    for path in (path for folder in folders for path in sorted(folder.rglob("*.yaml")) if path.is_file()):
        try:
            OmegaConf.load(path)
        except (YAMLError, OmegaConfBaseException, OSError, *FAULTS) as error:
            if type(error) is kind:
                return path
    return None


def _explain_hydra(error: Exception, folders: Sequence[Path]) -> CuprofError:
    """Return the error for one of Hydra's, which carries the setting only in its words."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, choice = error.missing_cfg_file.removesuffix(".yaml").rpartition("/")
        if group:
            # Hydra names no options where a list chooses several
            options = error.options or [file.stem for folder in folders for file in (folder / group).glob("*.yaml")]
            return UnknownNameError(group, choice, {*options, *list_installed(group)})
        return ConfigError(f"there is no configuration file {choice}.yaml; look with --info searchpath")
    text = f"{error}\n{error.__cause__}" if isinstance(error.__cause__, OmegaConfBaseException) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if found := re.search(r"In 'experiment/([^']+)': Could not override '[^']+@experiment\.", text):
        return ConfigError(lacks_package(found[1]))
    if found := re.search(r"Could not (?:override|append to config\. An item is already at) '([^']+)'", text):
        if found[1] in list_settings():
            group = found[1].partition(".")[0]
            return ConfigError(f"the chosen file of {group}/ has no {found[1]}; begin it with the group's default file")
        if "is not in struct" in text or "No match in the defaults list" in text:
            known, name = {*list_settings(), *GROUPS}, found[1]
            if name in GROUPS and (key := re.search(r"full_key: (\S+)", text)):  # of a mapping that was typed
                name = key[1]
            is_near = "." in name or get_close_matches(name, known, 1, 0.75)
            hint = "" if is_near else f"(an axis is problem.{name}=…, a tunable tune.{name}=…)"
            return UnknownNameError("setting", name, known, hint)
        said = [line for line in lines if not line.startswith(("full_key", "object_type"))]
        return ConfigError(f"cannot set {found[1]}: {said[-1] if said else ''}")
    if found := re.search(r"Could not delete(?: from)? config\. '([^']+)' does not exist", text):
        return UnknownNameError("setting to delete", found[1], list_settings())
    return ConfigError(" ".join(lines))
