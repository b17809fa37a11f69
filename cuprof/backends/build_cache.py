"""What compilers have made, kept on disk by content, so that a source is compiled once for each target and compiler."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from cuprof.backends.ptxas import KernelFacts
from cuprof.core.processes import count_cores
from cuprof.core.project import user_cache

MOST_THREADS = 16


@dataclass(frozen=True)
class Built:
    """What a compiler made of a source.

    Args:
        image: a cubin, a shared library or an executable.
        log: what the compiler said.
        kernels: each kernel's resources, where the log tells them.
        symbols: what was asked for by a name expression → the symbol that it became.
        launch: what a launch of it needs and no program says, by name (Triton's threads and shared memory).
    """

    image: bytes
    log: str
    kernels: Mapping[str, KernelFacts] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    launch: Mapping[str, int] = field(default_factory=dict)


class Patience(NamedTuple):
    """Say how long builds are waited for, in seconds.

    Args:
        most_s: for as many as are wanted.
        others_s: for the others, once these are there.
    """

    most_s: float
    others_s: float


class Build(Protocol):
    """One compilation; `content` decides the result, so that equal ones are made once."""

    def content(self) -> list[object]:
        """Return source, target, options and the compiler's version as data for JSON."""

    def run(self) -> Built:
        """Compile; runs in any thread.

        Raises:
            BuildError: the compiler refused.
            MissingDependencyError: it is not installed.
        """


def default_folder() -> Path:
    """Return `$CUPROF_CACHE`, else a folder in the user's cache."""
    chosen = os.environ.get("CUPROF_CACHE")
    return Path(chosen) if chosen else user_cache() / "cubin"


class BuildCache:
    """Compile through a folder of earlier results.

    Safe for any number of threads and processes: an entry appears by an atomic rename and never changes. A folder that
    cannot be written costs the reuse and nothing else.

    Attributes:
        workers: how many processes share the host's cores. Were each to build in as many threads as there are cores,
            the threads that enqueue samples would wait for theirs.
    """

    workers: ClassVar[int] = 1

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()
        self._ahead: dict[str, Future[tuple[Built, bool]]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def start(self, build: Build) -> None:
        """Begin to compile in a thread; `compile` of an equal build waits for it and takes the result.

        Compilers work outside Python's lock, so the builds of a sweep share the processor's cores.
        """
        key = _key(build)
        if key in self._ahead:
            return
        if self._threads is None:
            threads = max(1, min(MOST_THREADS, count_cores() // self.workers - 1))
            self._threads = ThreadPoolExecutor(threads, thread_name_prefix="build")
        self._ahead[key] = self._threads.submit(self._compile, key, build)

    def await_some(self, groups: Sequence[Sequence[Build]], least: int, patience: Patience) -> list[bool]:
        """Wait until the builds of so many groups have been compiled, or refused.

        Returns:
            Of each group whether nothing of it is being compiled any more; so of one that was never begun.
        """
        give_up = time.monotonic() + patience.most_s
        begun = [[future for each in map(_key, group) if (future := self._ahead.get(each))] for group in groups]

        def find_open() -> list[list[Future[tuple[Built, bool]]]]:
            return [each for group in begun if (each := [future for future in group if not future.done()])]

        while (left := find_open()) and len(groups) - len(left) < least and (left_s := give_up - time.monotonic()) > 0:
            wait([future for group in left for future in group], left_s, FIRST_COMPLETED)
        wait([future for group in find_open() for future in group], patience.others_s)
        return [all(future.done() for future in group) for group in begun]

    def compile(self, build: Build) -> tuple[Built, bool]:
        """Return what a build comes to and whether it came from the folder; raises as `Build.run`."""
        key = _key(build)
        ahead = self._ahead.pop(key, None)
        return ahead.result() if ahead else self._compile(key, build)

    def _compile(self, key: str, build: Build) -> tuple[Built, bool]:
        found = self._find(key)
        if found is not None:
            return found, True
        built = build.run()
        self._keep(key, built)
        return built, False

    def _find(self, key: str) -> Built | None:
        try:
            facts = json.loads((self.folder / f"{key}.json").read_text())
            image = (self.folder / f"{key}.cubin").read_bytes()
            if hashlib.sha256(image).hexdigest() != facts["sha256"]:
                return None
            kernels = {kernel: KernelFacts(**value) for kernel, value in facts["kernels"].items()}
            return Built(image, facts["log"], kernels, dict(facts["symbols"]), dict(facts["launch"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):  # damaged: it is made again
            return None

    def _keep(self, key: str, built: Built) -> None:
        facts = asdict(built) | {"sha256": hashlib.sha256(built.image).hexdigest()}
        del facts["image"]  # which has a file of its own
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _replace(self.folder / f"{key}.cubin", built.image)
            _replace(self.folder / f"{key}.json", json.dumps(facts).encode())
        except OSError:
            return


def _key(build: Build) -> str:
    return hashlib.sha256(json.dumps([type(build).__name__, *build.content()]).encode()).hexdigest()


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
