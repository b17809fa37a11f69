"""The compiling processes, from the side of their owner.

    owner ── order: a folder, a connection ──▶ origin: has loaded a compiler ── fork ──▶ a process that builds

A fork costs milliseconds, where loading Triton takes seconds and NVRTC a tenth of one. A process takes one build after
another over its connection; a Triton file, whose own code runs, has one of its own. So a source that crashes its
compiler, or a file that changes its process, harms no other build. In NVRTC threads wait for one another
(docs/evidence/measurement.md, "Light builds"); processes use every core. Origins end with their owner, and so do their
builds.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Lock
from typing import NoReturn

from cuprof.builds.result import Build, Built, Preload, decode
from cuprof.core.errors import BuildError, ImpossibleError, MissingDependencyError
from cuprof.core.processes import child_command, child_environment
from cuprof.core.scratch import ScratchFolder, read_end

READY = b"ready"
PRINTED = "printed"
"""File in a process's folder: its output."""
SHOWN = 200
"""How many characters of its last line a message shows."""
END_S = 2.0
"""How long an origin may take to end; one that still imports is killed then."""
MADE, REFUSED, ENDED = "made", "refused", "ended"
"""Keys of an answer: an image follows; why there is none; how the process has ended."""
MOST_BYTES = 1 << 30
"""No answer is longer; code in the process could write any length."""
RAISED = {each.__name__: each for each in (BuildError, ImpossibleError, MissingDependencyError)}
"""What a build may raise, by its name."""
ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "CUDA_CACHE_DISABLE": "1",
}
"""glibc: a process keeps what it frees for its next build, since a page that it gives back costs a fault. NVRTC: no
cache of the driver's beside ours, for which each process would start the driver (NVRTC 13.0 User Guide, "Caching")."""


class Origin:
    """A process that has loaded a compiler and forks the processes that build.

    Args:
        preload: what it loads first; orders wait until it has.
        folder: where it and its processes keep files.
    """

    def __init__(self, preload: Preload, folder: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self._printed = self._folder / PRINTED
        self._idle: list[tuple[Connection, Path]] = []
        (self._folder / "preload").write_bytes(pickle.dumps(preload))
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._printed.open("wb") as printed:
            self._process = subprocess.Popen(
                child_command("cuprof.builds.origin", str(theirs.fileno()), str(self._folder)),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                pass_fds=[theirs.fileno()],
                env=child_environment() | ENVIRONMENT,
            )

    def is_loaded(self, limit_s: float = 0.0) -> bool:
        """Return whether the compiler has been loaded, within this time; false for ever where that failed."""
        with suppress(OSError, ValueError):  # it has been ended
            if wait([self._orders], limit_s):
                return self._orders.recv(len(READY), socket.MSG_PEEK) == READY  # for all threads that ask, and again
        return False

    def run(self, build: Build, limit_s: float | None = None) -> Built:
        """Compile in a process.

        Raises:
            ConnectionError: the origin has ended, so nothing was compiled.
            BuildError: the compiler refused, ended early, or took longer than `limit_s`.
            ImpossibleError, MissingDependencyError: as `Build.run`.
        """
        connection, folder = self._take()
        is_over = True
        try:
            connection.send_bytes(pickle.dumps(build))
            if not connection.poll(limit_s):
                raise BuildError(f"the compiler of {build.name} took longer than {limit_s:g} s and was stopped")
            answer = json.loads(connection.recv_bytes(MOST_BYTES))
            if ENDED in answer:
                self._raise_ended(build, folder, answer[ENDED])
            is_over = build.is_alone
            if REFUSED in answer:
                kind, *given = answer[REFUSED]
                raise RAISED[kind](*given)
            return decode(answer[MADE].encode(), connection.recv_bytes(MOST_BYTES))
        except (EOFError, BrokenPipeError):
            raise ConnectionError("the origin has ended") from None
        except (ValueError, LookupError, TypeError, AttributeError):
            self._raise_ended(build, folder, "gave no answer")
        finally:
            if is_over:
                connection.close()  # at which the process ends
                shutil.rmtree(folder, ignore_errors=True)
            else:
                self._idle.append((connection, folder))

    def _take(self) -> tuple[Connection, Path]:
        """Return the connection of a process that has nothing to do, and its folder."""
        while self._idle:
            connection, folder = self._idle.pop()
            if not connection.poll():
                return connection, folder
            connection.close()  # it has ended
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(self._orders, [os.fsencode(folder)], [theirs.fileno()])
            return Connection(ours.detach()), folder

    def _raise_ended(self, build: Build, folder: Path, how: str) -> NoReturn:
        printed = read_end(folder / PRINTED) or read_end(self._printed)
        last = f"; it printed: {printed.splitlines()[-1][:SHOWN]}" if printed else ""
        raise BuildError(f"the compiler of {build.name} {how}{last}", printed)

    def end(self) -> None:
        """End the process, and those that it has forked."""
        self._orders.close()
        while self._idle:
            self._idle.pop()[0].close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class Compilers:
    """The origins of this process, one for each preload, started when they are first needed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._folder: ScratchFolder | None = None
        self._origins: dict[Preload, Origin] = {}
        self._took: dict[Preload, float] = {}
        """For how long the last build ran that could not wait for its headers; so long the next ones wait for them."""

    def run(self, build: Build, limit_s: float | None = None) -> Built:
        """Compile in a process; raises as `Origin.run`."""
        try:
            if build.headers and resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
                ahead = self._get(build.headers)  # begun beside the first build; a confined process has no room for it
                if ahead.is_loaded(self._took.get(build.headers, 0.0)):
                    with suppress(ConnectionError):
                        return self._run_in(build.headers, build, limit_s)
            began = time.monotonic()
            try:
                built = self._run_in(build.preload, build, limit_s)
            except ConnectionError:
                built = self._run_in(build.preload, build, limit_s)
            self._took[build.headers] = time.monotonic() - began
            return built
        except OSError as error:
            raise BuildError(f"no compiler process can be started: {error}") from error

    def _run_in(self, preload: Preload, build: Build, limit_s: float | None) -> Built:
        """Compile in a process of this preload's origin, which is dropped where it has ended."""
        origin = self._get(preload)
        try:
            return origin.run(build, limit_s)
        except ConnectionError:
            with self._lock:
                if self._origins.get(preload) is origin:
                    self._origins.pop(preload).end()
            raise

    def prepare(self, preload: Preload) -> None:
        """Start the origin that builds with this preload will need."""
        with suppress(OSError):  # a build reports what keeps it from starting
            self._get(preload)

    def end(self) -> None:
        """End all processes and remove their files."""
        with self._lock:
            while self._origins:
                self._origins.popitem()[1].end()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def _get(self, preload: Preload) -> Origin:
        with self._lock:
            if preload not in self._origins:
                self._folder = self._folder or ScratchFolder()
                self._origins[preload] = Origin(preload, self._folder.path)
            return self._origins[preload]


COMPILERS = Compilers()
atexit.register(COMPILERS.end)
