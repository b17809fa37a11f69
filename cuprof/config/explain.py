"""Hydra's and OmegaConf's errors in one line of ours, with the names nearest to what was asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from cuprof.config.build import lacks_package, list_settings
from cuprof.config.overrides import GROUPS
from cuprof.core.errors import ConfigError, CuprofError, UnknownNameError


def explain(error: Exception, folders: Sequence[Path]) -> CuprofError | None:
    """Return the error to show in place of one raised while settings are composed; None for any other error.

    Args:
        folders: folders of configuration, to find the file that cannot be decoded.
    """
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    if isinstance(error, CuprofError):
        return error
    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        name = error.missing_cfg_file.removesuffix(".yaml")
        group, _, choice = name.rpartition("/")
        if group:
            return UnknownNameError(group, choice, list(error.options or ()))
        return ConfigError(f"there is no configuration file {name}.yaml; look with --info searchpath")
    if isinstance(error, YAMLError):
        return ConfigError(f"a configuration file is not valid YAML: {said}")
    if isinstance(error, (HydraException, OmegaConfBaseException)):
        cause = f"\n{error.__cause__}" if isinstance(error.__cause__, OmegaConfBaseException) else ""
        return _explain_text(f"{error}{cause}")
    if isinstance(error, UnicodeDecodeError):
        path = next((path for folder in folders for path in sorted(folder.rglob("*.yaml")) if not _is_text(path)), None)
        return ConfigError(f"{path or 'a configuration file'} is not UTF-8 text: {error.reason}")
    if isinstance(error, OSError) and error.filename:
        return ConfigError(f"{error.filename} cannot be used: {error.strerror}")
    return ConfigError(f"the settings do not compose: {said}") if isinstance(error, ValueError) else None


def _explain_text(text: str) -> CuprofError:
    """Return the error for a message of Hydra's, which carries the setting only in its words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if found := re.search(r"In 'experiment/([^']+)': Could not override '[^']+@experiment\.", text):
        return ConfigError(lacks_package(found[1]))
    if found := re.search(r"Could not (?:override|append to config\. An item is already at) '([^']+)'", text):
        if found[1] in list_settings():
            group = found[1].partition(".")[0]
            return ConfigError(f"the chosen file of {group}/ has no {found[1]}; begin it with the group's default file")
        if "is not in struct" in text or "No match in the defaults list" in text:
            known, name = {*list_settings(), *GROUPS}, found[1]
            is_near = "." in name or get_close_matches(name, known, 1, 0.75)
            hint = "" if is_near else f"(an axis is problem.{name}=…, a tunable tune.{name}=…)"
            return UnknownNameError("setting", name, known, hint)
        said = [line for line in lines if not line.startswith(("full_key", "object_type"))]
        return ConfigError(f"cannot set {found[1]}: {said[-1] if said else ''}")
    if found := re.search(r"Could not delete(?: from)? config\. '([^']+)' does not exist", text):
        return UnknownNameError("setting to delete", found[1], list_settings())
    return ConfigError(" ".join(lines))


def _is_text(path: Path) -> bool:
    try:
        path.read_bytes().decode()
    except UnicodeDecodeError:
        return False
    return True
