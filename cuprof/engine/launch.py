"""Start worker processes, one of them ahead of time if asked.

A worker takes most of a second to import its modules. A command that will need one calls `prestart` before its own
imports and composition, so both happen at once; one that replaces its worker calls it while the last one works. Only
the standard library is imported here.
"""

from __future__ import annotations

import atexit
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from threading import Thread

from cuprof.core.interrupts import shielded
from cuprof.core.processes import AHEAD, AT_ONCE, MARK, child_command, child_environment, end_guarded
from cuprof.core.scratch import ScratchFolder
from cuprof.sandbox.settings import Sandbox, inner_environment
from cuprof.worker.status_page import StatusPage


@dataclass
class Launched:
    """A worker process that waits for its settings.

    The process that we start becomes the worker's guardian (`cuprof.core.processes`) and ends as the worker ends. Both
    have sessions of their own, so an interrupt from the terminal reaches the engine alone. It works in `place`.
    """

    process: subprocess.Popen[bytes]
    pipe: Connection
    page: StatusPage
    log_path: Path
    folder: ScratchFolder
    sandbox: Sandbox | None = None
    place: Path = field(default_factory=Path.cwd)

    def poll(self) -> int | None:
        """Return the exit code, None while it runs; an interrupt amid Popen's own would leave its lock taken."""
        with shielded():
            return self.process.poll()

    def kill(self) -> None:
        """End the worker and whatever it started, at once."""
        with shielded():
            end_guarded(self.process, self.folder.path)

    def retire(self) -> None:
        """Discard the worker in a thread, which the next worker and the end of this process wait for."""
        _retiring.append(Thread(target=self.discard))
        _retiring[-1].start()

    def discard(self) -> None:
        """End the worker at once and remove its files; what it has not said by now is lost."""
        with shielded():
            self.kill()
            self.pipe.close()
            self.page.close()
            self.folder.cleanup()


_spares: list[Launched] = []
_at_first: list[int] = []
_retiring: list[Thread] = []


def prestart(count: int = 1, modules: Sequence[str] = (), sandbox: Sandbox | None = None) -> None:
    """Start the workers that the next calls of `take` return; unused ones end with this process.

    They import `modules` at once, if installed.
    """
    if not _at_first:
        atexit.register(_discard_spares)
        _at_first.append(count)
    while len([each for each in _spares if each.sandbox == sandbox]) < count:
        _spares.append(_launch(sandbox, at_once=modules))


def prestart_for_next_job(modules: Sequence[str] = ()) -> None:
    """Start as many workers again as the command did at first; none if it started none.

    They import `modules`, if installed, during the job before theirs.
    """
    for _ in range(_at_first[0] if _at_first else 0):
        _spares.append(_launch(modules=modules))


def take(sandbox: Sandbox | None = None) -> Launched:
    """Return a worker that was started ahead for this sandbox, if it is still alive, or a new one.

    Those that retire have ended by then, and hold no device's memory any more.
    """
    while _retiring:
        _retiring.pop().join()
    for spare in [each for each in _spares if each.sandbox == sandbox]:
        _spares.remove(spare)
        if spare.poll() is None and spare.place == Path.cwd():  # a script's paths may be relative
            return spare
        spare.discard()
    return _launch(sandbox)


def _discard_spares() -> None:
    while _spares:
        _spares.pop().discard()


def _launch(sandbox: Sandbox | None = None, modules: Sequence[str] = (), at_once: Sequence[str] = ()) -> Launched:
    with shielded():
        folder = ScratchFolder()
        status, log_path = folder.path / "status", folder.path / "worker.log"
        page = StatusPage(status, create=True)
        ours, theirs = Pipe()
        words, environment = [str(theirs.fileno()), str(status), str(os.getpid())], child_environment()
        imports = {AHEAD: ",".join(modules), AT_ONCE: ",".join(at_once)}
        if sandbox is not None:
            home = folder.path / "home"
            home.mkdir()
            inner = replace(sandbox, writable=(*sandbox.writable, str(status)), home=str(home))
            words.append(inner.write(folder.path))
            environment = inner_environment(environment, inner)
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                child_command("cuprof.worker", *words),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**environment, "PYTHONUNBUFFERED": "1", MARK: str(folder.path), **imports},
            )
        theirs.close()
        return Launched(process, ours, page, log_path, folder, sandbox)
