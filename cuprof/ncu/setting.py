"""What one collection does the same for every batch, made from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from cuprof.ncu.executable import NcuExecutable, get_executable
from cuprof.ncu.metrics import companions, get_pattern
from cuprof.ncu.task import RANGE_FILTER


@dataclass(frozen=True)
class Request:
    """The requested metrics, as far as they decide which trials need no profiling.

    Args:
        metrics: as stored with each profile: metric names, "set:NAME", "section:NAME".
        whole: the request has sets or sections, whose metrics are known only after collection.
    """

    metrics: tuple[str, ...]
    conditions: Conditions
    whole: bool = False


@dataclass(frozen=True)
class Setting:
    """How trials are profiled.

    Args:
        collection: what ncu collects, settled: the requested metrics and their companions.
        find_origin: family name → where it comes from.
        artifacts: folder that keeps the reports.
        missing: requested metrics that the chip does not have → why.
        extension: what is added to the trials' families.
    """

    executable: NcuExecutable
    request: Request
    collection: NcuConfig
    find_origin: Callable[[str], AnyOrigin]
    artifacts: Path
    missing: Mapping[str, str] = field(default_factory=dict)
    extension: Extension | None = None


def make_setting(config: NcuConfig, project: Project, family: str = "") -> Setting:
    """Find ncu and make the setting of a collection from a project's trials.

    Args:
        family: as the configuration names it: a family that is a file is found by its path only.

    Raises:
        ProfilerError: there is no usable ncu.
        ConfigError: nothing is to be collected.
    """
    settled = settle(config)
    return Setting(
        executable=get_executable(config.path),
        request=make_request(settled),
        collection=replace(settled, metrics=(*settled.metrics, *companions(settled.metrics))),
        find_origin=lambda name: find_origin(family if is_path(family) else name, project.folders("kernels")),
        artifacts=project.artifacts,
    )


def settle(config: NcuConfig) -> NcuConfig:
    """Return the configuration with all of its metrics in one place, and ncu's replay mode chosen.

    Between the passes of kernel replay ncu saves and restores what the kernel may write, through the L2 cache: a hot
    16 MiB read then shows 1.4 to 1.7 MiB of DRAM reads, and under 1 KiB by application replay (measured on an H200).

    Raises:
        ConfigError: nothing is to be collected, or a metric's pattern is none.
    """
    metrics = tuple(dict.fromkeys([*config.metrics, *config.extra_metrics]))
    for metric in metrics:
        if metric.startswith("regex:"):
            get_pattern(metric)
    if not (metrics or config.set or config.sections):
        raise ConfigError("ncu collects nothing; choose a metric set (ncu=study) or add +ncu.metrics=[NAME]")
    chosen: Literal["kernel", "application"] = "kernel" if config.cache_control == "all" else "application"
    replay = chosen if config.replay == "auto" else config.replay
    return replace(config, metrics=metrics, extra_metrics=(), replay=replay)


def make_request(settled: NcuConfig) -> Request:
    """Return what a settled configuration asks for, on any machine."""
    conditions = Conditions("cold" if settled.cache_control == "all" else "hot", settled.clock_control, settled.replay)
    wholes = [*(f"section:{name}" for name in settled.sections), *([f"set:{settled.set}"] if settled.set else [])]
    return Request((*settled.metrics, *wholes), conditions, bool(wholes))


def build_command(
    executable: Path, collection: NcuConfig, report: Path, target: Sequence[str], *, children: bool = False
) -> list[str]:
    """Return the arguments of one ncu process over many trials.

    Args:
        collection: what to collect, settled.
        report: the .ncu-rep file to write; an existing one is replaced.
        target: the program to profile with its arguments.
        children: profile the processes that it starts too.
    """
    processes = "all" if children else "application-only"
    command = [str(executable), "--target-processes", processes, "--replay-mode", collection.replay]
    command += ["--cache-control", collection.cache_control, "--clock-control", collection.clock_control]
    command += ["--nvtx", "--nvtx-include", RANGE_FILTER]
    if collection.set:
        command += ["--set", collection.set]
    for section in collection.sections:
        command += ["--section", section]
    if collection.metrics:
        command += ["--metrics", ",".join(collection.metrics)]
    command += ["--force-overwrite", "--export", str(report)]
    return [*command, *target]
