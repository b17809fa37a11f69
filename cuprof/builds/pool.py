"""Compile in processes, side by side, each source once for each target and compiler."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import ClassVar, NamedTuple

from cuprof.builds.compilers import COMPILERS
from cuprof.builds.result import Build, Built, KeptBuilds, default_folder, key_of
from cuprof.core.processes import count_cores

MOST_PROCESSES = 16


class Patience(NamedTuple):
    """How long to wait for builds, in seconds.

    Args:
        most_s: for the number that is wanted.
        others_s: for the others, once these are there.
    """

    most_s: float
    others_s: float


class BuildPool:
    """Compile ahead, in as many processes as there are spare cores.

    Attributes:
        workers: how many measuring processes share the host's cores. Together their builds leave each of them a core
            for the thread that enqueues samples.
    """

    workers: ClassVar[int] = 1

    def __init__(self, folder: Path | None = None) -> None:
        self.kept = KeptBuilds(folder or default_folder())
        self._ahead: dict[str, Future[tuple[Built, bool]]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def start(self, build: Build, limit_s: float | None = None) -> Future[tuple[Built, bool]]:
        """Begin to compile, and return what `compile` of an equal build then waits for.

        Args:
            limit_s: a build that takes longer is stopped and refused; it counts from when a process takes it on.
        """
        key = key_of(build)
        if key in self._ahead:
            return self._ahead[key]
        if self._threads is None:
            processes = max(1, min(MOST_PROCESSES, count_cores() // self.workers - 1))
            self._threads = ThreadPoolExecutor(processes, thread_name_prefix="build")
        self._ahead[key] = self._threads.submit(self._compile, key, build, limit_s)
        return self._ahead[key]

    def await_some(self, groups: Sequence[Sequence[Build]], least: int, patience: Patience) -> list[bool]:
        """Wait until the builds of at least `least` groups have ended, by success or refusal.

        Returns:
            For each group whether all its builds have ended; true for a group that was never begun.
        """
        give_up = time.monotonic() + patience.most_s
        begun = [[future for each in map(key_of, group) if (future := self._ahead.get(each))] for group in groups]

        def find_open() -> list[list[Future[tuple[Built, bool]]]]:
            return [each for group in begun if (each := [future for future in group if not future.done()])]

        while (left := find_open()) and len(groups) - len(left) < least and (left_s := give_up - time.monotonic()) > 0:
            wait([future for group in left for future in group], left_s, FIRST_COMPLETED)
        wait([future for group in find_open() for future in group], patience.others_s)
        return [all(future.done() for future in group) for group in begun]

    def compile(self, build: Build, limit_s: float | None = None) -> tuple[Built, bool]:
        """Return a build's result and whether it was kept from before; raises as `Build.run`, and see `start`."""
        key = key_of(build)
        ahead = self._ahead.pop(key, None)
        return ahead.result() if ahead else self._compile(key, build, limit_s)

    def _compile(self, key: str, build: Build, limit_s: float | None) -> tuple[Built, bool]:
        found = self.kept.find(key)
        if found is not None:
            return found, True
        built = COMPILERS.run(build, limit_s)
        self.kept.keep(key, built)
        return built, False
