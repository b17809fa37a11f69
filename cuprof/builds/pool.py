"""Compile in processes, side by side, each source once for each target and compiler."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from cuprof.builds.compilers import COMPILERS
from cuprof.builds.result import Build, Built, KeptBuilds
from cuprof.core.processes import count_cores
from cuprof.core.project import kept_builds

MOST_PROCESSES = 16


class BuildPool:
    """Compile ahead, in as many processes as there are spare cores.

    Attributes:
        workers: how many measuring processes share the host's cores. Together their builds leave each of them a core
            for the thread that enqueues samples.
    """

    workers: ClassVar[int] = 1

    def __init__(self, folder: Path | None = None) -> None:
        self.kept = KeptBuilds(folder or kept_builds())
        self._ahead: dict[str, Future[tuple[Built, bool]]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def start(self, build: Build, limit_s: float | None = None) -> Future[tuple[Built, bool]]:
        """Begin to compile, and return what `compile` of an equal build then waits for.

        Args:
            limit_s: a build that takes longer is stopped and refused; it counts from when a process takes it on.
        """
        key = build.key()
        if key not in self._ahead:
            if self._threads is None:
                processes = max(1, min(MOST_PROCESSES, count_cores() // self.workers - 1))
                self._threads = ThreadPoolExecutor(processes, thread_name_prefix="build")
            self._ahead[key] = self._threads.submit(self._compile, key, build, limit_s)
        return self._ahead[key]

    def compile(self, build: Build) -> tuple[Built, bool]:
        """Return a build's result and whether it was kept from before; raises as `Build.run`, and see `start`."""
        key = build.key()
        ahead = self._ahead.pop(key, None)
        return ahead.result() if ahead else self._compile(key, build)

    def _compile(self, key: str, build: Build, limit_s: float | None = None) -> tuple[Built, bool]:
        found = self.kept.find(key)
        if found is not None:
            return found, True
        built = COMPILERS.run(build, limit_s)
        self.kept.keep(key, built)
        return built, False
