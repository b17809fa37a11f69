"""Nsight Compute as a profiler of cuprof's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path

from cuprof.config.model import SweepConfig
from cuprof.core.project import Project
from cuprof.core.records import Artifact, Conditions, CounterValue, LaunchRecord
from cuprof.ncu.artifact import check_folder, keep_artifact
from cuprof.ncu.collector import NcuCollector
from cuprof.ncu.contract import Collector, Launches, Profiler, Request, Source
from cuprof.ncu.executable import get_executable
from cuprof.ncu.head_start import Batch
from cuprof.ncu.metrics import CATALOG
from cuprof.ncu.ranges import named_range, range_name
from cuprof.ncu.report_file import read_report, select
from cuprof.ncu.report_frame import find_options
from cuprof.ncu.rollup import roll_up
from cuprof.ncu.setting import EXECUTED, IN_PROCESS, NAME, make_request, make_setting, settle


class NsightCompute(Profiler):
    """Collect with ncu, read .ncu-rep files."""

    name = NAME
    title = "Nsight Compute"
    backends = (IN_PROCESS, EXECUTED)
    catalog = CATALOG

    def describe_program(self) -> str:
        """Return release and path of the ncu on PATH or in the usual folders."""
        executable = get_executable()
        return f"{executable.version_text} at {executable.path}"

    def make_request(self, config: SweepConfig) -> Request:
        """Return what the group `ncu` of a configuration asks for."""
        return make_request(settle(config.ncu))

    def list_matches(self, requested: Sequence[str], stored: Collection[str]) -> list[str]:
        """Return the metrics that patterns and names without a suffix stand for; sets and sections match none."""
        names = [name for name in requested if not name.startswith(("set:", "section:"))]
        matches = [select(sorted(stored), [name]) or ([] if ":" in name else [name]) for name in names]
        return list(dict.fromkeys(chain.from_iterable(matches)))

    def check(self, config: SweepConfig, project: Project) -> None:
        """See that there is an ncu that works, something to collect, and a folder that takes reports."""
        setting = make_setting(config.ncu, project, family=config.family)
        check_folder(setting.artifacts)
        _ = setting.executable.version

    def open(self, config: SweepConfig, project: Project, source: Source | None = None) -> Collector:
        """Return a collector whose ncu process is starting already."""
        setting = make_setting(config.ncu, project, family=config.family)
        if source is not None:
            setting = setting.of(source)
        check_folder(setting.artifacts)
        return NcuCollector(self, setting, Batch(setting, config.device.numbers()["cuda"] or 0))

    def mark(self, identity: str) -> AbstractContextManager[None]:
        """Return an NVTX range that carries the identity."""
        return named_range(range_name(identity))

    def read_report(self, path: Path) -> Launches:
        """Read every counter of a .ncu-rep file."""
        return read_report(path)

    def find_conditions(self, path: Path) -> Conditions:
        """Return how launches were profiled by the report's command line, where that says nothing by ncu's defaults."""
        options = find_options(path)
        cache_mode = "hot" if options.get("cache-control") == "none" else "cold"
        return Conditions(cache_mode, options.get("clock-control", "base"), options.get("replay-mode", "kernel"))

    def keep_report(self, path: Path, folder: Path) -> Artifact:
        """Copy a .ncu-rep file into the artifacts folder."""
        return keep_artifact(path, folder)

    def roll_up(self, launches: Sequence[LaunchRecord]) -> tuple[CounterValue, ...]:
        """Return one value a metric, each by its own rule."""
        return roll_up(launches)


PROFILER = NsightCompute()
