"""The compiling processes, from the side of their owner.

    owner ── order: a folder, a connection ──▶ origin: has loaded a compiler ── fork ──▶ a process for one build

A fork costs a millisecond or two, where loading Triton takes seconds and NVRTC a tenth of one. With a process
for each build, a source or Triton file that crashes its compiler, or changes its process, harms no other build. NVRTC,
which compiles in one thread at a time, can also use every core. Origins end with their owner, and so do their builds.
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
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NoReturn

from cuprof.builds.result import MADE, Build, Built, KeptBuilds, Preload
from cuprof.core.errors import BuildError, ImpossibleError, MissingDependencyError
from cuprof.core.processes import child_command, child_environment
from cuprof.core.scratch import ScratchFolder

READY = b"ready"
ORDER, REFUSED, PRINTED = "build", "refused", "printed"
"""Files in a process's folder: what it is to build, why it made nothing, its output."""
PRINTED_BYTES, SHOWN = 8192, 200
"""How much of the end of that is read, and how many characters of its last line a message shows."""
END_S = 2.0
"""How long an origin may take to end; one that still imports is killed then."""
ANSWER_BYTES = 4096
RAISED = {each.__name__: each for each in (BuildError, ImpossibleError, MissingDependencyError)}
"""What a build may raise, by its name."""
SHARED_FROM = 2
"""Precompile headers from this many builds on; for a single one it takes longer than it saves."""


class Origin:
    """A process that has loaded a compiler and forks one process for each build.

    Args:
        preload: what it loads first; orders wait until it has.
        folder: where it and its processes keep files.
    """

    def __init__(self, preload: Preload, folder: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self._printed = self._folder / PRINTED
        self._loaded = False
        (self._folder / "preload").write_bytes(pickle.dumps(preload))
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._printed.open("wb") as printed:
            self._process = subprocess.Popen(
                child_command("cuprof.builds.origin", str(theirs.fileno()), str(self._folder)),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                pass_fds=[theirs.fileno()],
                env=child_environment(),
            )

    @property
    def is_loaded(self) -> bool:
        """Return whether the compiler has been loaded; false for ever where that failed."""
        if not self._loaded:
            with suppress(OSError):
                self._loaded = self._orders.recv(len(READY), socket.MSG_DONTWAIT) == READY
        return self._loaded

    def run(self, build: Build, limit_s: float | None = None) -> Built:
        """Compile in a new process.

        Raises:
            ConnectionError: the origin has ended, so nothing was compiled.
            BuildError: the compiler refused, ended early, or took longer than `limit_s`.
            ImpossibleError, MissingDependencyError: as `Build.run`.
        """
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        (folder / ORDER).write_bytes(pickle.dumps(build))
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(self._orders, [os.fsencode(folder)], [theirs.fileno()])
            ours.settimeout(limit_s)
            try:
                ended = ours.recv(ANSWER_BYTES).decode()
            except TimeoutError:
                ours.shutdown(socket.SHUT_WR)  # at which the origin stops the process
                ours.settimeout(None)
                ours.recv(ANSWER_BYTES)
                ended = f"took longer than {limit_s:g} s and was stopped"
        try:
            if not ended:
                raise ConnectionError("the origin has ended")
            return KeptBuilds(folder).find(MADE) or self._raise(build, folder, ended)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _raise(self, build: Build, folder: Path, ended: str) -> NoReturn:
        """Raise what kept a build from being made."""
        with suppress(OSError, ValueError, LookupError, TypeError):
            kind, *given = json.loads((folder / REFUSED).read_text())
            raise RAISED[kind](*given)
        printed = _read_end(folder / PRINTED) or _read_end(self._printed)
        last = f"; it printed: {printed.splitlines()[-1][:SHOWN]}" if printed else ""
        raise BuildError(f"the compiler of {build.name} {ended}{last}", printed)

    def end(self) -> None:
        """End the process, which ends what it has forked."""
        self._orders.close()
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
        self._asked = Counter[Preload]()

    def run(self, build: Build, limit_s: float | None = None) -> Built:
        """Compile in a process; raises as `Origin.run`."""
        try:
            with self._lock:
                origin = self._find_with_headers(build.headers) or self._get(build.preload)
            try:
                return origin.run(build, limit_s)
            except ConnectionError:  # that origin has ended
                with self._lock:
                    for preload in [each for each, known in self._origins.items() if known is origin]:
                        self._origins.pop(preload).end()
                    origin = self._get(build.preload)
                return origin.run(build, limit_s)
        except OSError as error:
            raise BuildError(f"no compiler process can be started: {error}") from error

    def end(self) -> None:
        """End all processes and remove their files."""
        with self._lock:
            while self._origins:
                self._origins.popitem()[1].end()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def _get(self, preload: Preload) -> Origin:
        if preload not in self._origins:
            self._folder = self._folder or ScratchFolder()
            self._origins[preload] = Origin(preload, self._folder.path)
        return self._origins[preload]

    def _find_with_headers(self, headers: Preload) -> Origin | None:
        """Return the origin that has compiled these headers, or None; start one where builds share them."""
        if not headers or resource.getrlimit(resource.RLIMIT_DATA)[0] != resource.RLIM_INFINITY:
            return None  # a confined process has no room for them
        self._asked[headers] += 1
        origin = self._get(headers) if self._asked[headers] >= SHARED_FROM else None
        return origin if origin and origin.is_loaded else None


COMPILERS = Compilers()
atexit.register(COMPILERS.end)


def _read_end(file: Path) -> str:
    """Return the end of a file as text; nothing of a file that is not there."""
    try:
        return file.read_bytes()[-PRINTED_BYTES:].decode(errors="replace").strip()
    except OSError:
        return ""
