"""What one collection does the same for every batch, made from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from cuprof.config.model import NcuConfig
from cuprof.core.errors import ConfigError
from cuprof.core.project import Project
from cuprof.core.records import Conditions
from cuprof.families.candidate import Extension
from cuprof.families.origin import is_path
from cuprof.interop.origins import AnyOrigin, find_origin
from cuprof.ncu.console import missing_metric_reason
from cuprof.ncu.contract import Request, Source
from cuprof.ncu.executable import NcuExecutable, get_executable
from cuprof.ncu.metrics import companions

NAME = "ncu"
IN_PROCESS, EXECUTED = "cuda", "program"
"""The back ends whose trials ncu reads: those run by the profiled process, and those that it executes."""


@dataclass(frozen=True)
class Setting:
    """Say how trials are profiled.

    Args:
        request: what was asked for: metric names, "set:NAME", "section:NAME".
        collection: what ncu is given, settled: the requested metrics and their companions.
        find_origin: family name → where it comes from.
        artifacts: folder that the reports are kept in.
        missing: metrics asked for that the chip does not have → why.
        extension: what is added to the trials' families.
    """

    executable: NcuExecutable
    request: Request
    collection: NcuConfig
    find_origin: Callable[[str], AnyOrigin]
    artifacts: Path
    missing: Mapping[str, str] = field(default_factory=dict)
    extension: Extension | None = None

    def of(self, source: Source) -> Setting:
        """Return the setting for trials from elsewhere."""
        return replace(
            self, find_origin=lambda _: source.origin, extension=source.extension, artifacts=source.artifacts
        )

    def without(self, metrics: Sequence[str], known: Iterable[str]) -> Setting:
        """Return the setting that leaves out metrics the chip does not have, noting why where they were asked for.

        Args:
            known: names of metrics that exist, for the suggestion.
        """
        names = tuple(known)
        left = tuple(name for name in self.collection.metrics if name not in metrics)
        reasons = {name: missing_metric_reason(name, names) for name in metrics if name in self.request.metrics}
        collection = replace(self.collection, metrics=left)
        return replace(self, collection=collection, missing={**self.missing, **reasons})


def make_setting(config: NcuConfig, project: Project, family: str = "") -> Setting:
    """Find ncu and make the setting of a collection.

    Args:
        family: as the configuration names it: a family that is a file by itself is found by its path alone.

    Raises:
        ProfilerError: there is no usable ncu.
        ConfigError: nothing is to be collected.
    """
    asked = settle(config)
    return Setting(
        executable=get_executable(config.path),
        request=make_request(asked),
        collection=replace(asked, metrics=(*asked.metrics, *companions(asked.metrics))),
        find_origin=lambda name: find_origin(family if is_path(family) else name, project.kernel_folders),
        artifacts=project.artifacts,
    )


def settle(config: NcuConfig) -> NcuConfig:
    """Return the configuration with all of its metrics in one place, and ncu's replay mode chosen.

    Between the passes of kernel replay ncu saves and restores what the kernel may write, through the L2 cache: a hot
    16 MiB read then shows 1.4 to 1.7 MiB of DRAM reads, and under 1 KiB by application replay (seen on an H200).

    Raises:
        ConfigError: nothing is to be collected.
    """
    metrics = tuple(dict.fromkeys([*config.metrics, *config.extra_metrics]))
    if not (metrics or is_whole(config)):
        raise ConfigError("ncu collects nothing; choose a metric set (ncu=study) or add +ncu.metrics=[NAME]")
    chosen: Literal["kernel", "application"] = "kernel" if config.cache_control == "all" else "application"
    replay = chosen if config.replay == "auto" else config.replay
    return replace(config, metrics=metrics, extra_metrics=(), replay=replay)


def is_whole(config: NcuConfig) -> bool:
    """Return whether sets or sections are collected, whatever metrics they have."""
    return bool(config.set or config.sections)


def make_request(settled: NcuConfig) -> Request:
    """Return what is asked for: metric names, "section:NAME", "set:NAME", and the conditions to store it under."""
    conditions = Conditions("cold" if settled.cache_control == "all" else "hot", settled.clock_control, settled.replay)
    wholes = [*(f"section:{name}" for name in settled.sections), *([f"set:{settled.set}"] if settled.set else [])]
    return Request((*settled.metrics, *wholes), conditions, is_whole(settled))
