"""The worker process: it owns the device, runs one job after another, and knows no database."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cuprof.backends.registry import get_spec
from cuprof.builds import BuildPool
from cuprof.core.errors import CuprofError, DeviceMemoryError, FamilyError
from cuprof.core.processes import AHEAD, AT_ONCE, import_ahead
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.core.text import excerpt, list_first
from cuprof.families import Family
from cuprof.families.candidate import extend
from cuprof.families.trace import describe
from cuprof.interop.origins import AnyOrigin
from cuprof.worker import messages
from cuprof.worker.devices import DeviceTable
from cuprof.worker.job import Held, JobRun, make_program
from cuprof.worker.problem import Problem
from cuprof.worker.status_page import NO_TRIAL, Phase, StatusPage
from cuprof.worker.wire import Wire

SOON_S = 1.5
"""If the first job arrives within this time, skip the slow imports: the job may need none of them."""
QUESTIONS_S = 0.05
"""Questions about devices follow one another within this time; a job comes later."""
BUILT_S = 0.002
"""Look this often whether a compiler is done while there is nothing else to do."""


class Worker:
    """Answer the engine's messages until it goes away, or until this process can do no more."""

    def __init__(self, pipe: Wire, page: StatusPage, settings: messages.WorkerSettings) -> None:
        self.pipe, self.page = pipe, page
        BuildPool.workers = settings.workers
        self.devices = DeviceTable(settings)
        self._problem: tuple[tuple[object, ...], Problem] | None = None
        self._held = Held()
        self._families: dict[AnyOrigin, Family] = {}
        self._ahead: dict[str, None] = {}
        self._building: dict[str, Sequence[Future[Any]]] = {}
        self._next: messages.Job | None = None
        self._is_over = False

    def serve(self) -> None:
        """Serve requests until the engine closes the connection."""
        answers: dict[type, tuple[Phase, Callable[[Any], None]]] = {
            messages.Describe: (Phase.START, self._describe),
            messages.Open: (Phase.START, self._open),
            messages.Calibrate: (Phase.CALIBRATE, self._calibrate),
            messages.Load: (Phase.INPUTS, self._load_ahead),
            messages.Probe: (Phase.INPUTS, self._probe),
            messages.Build: (Phase.BUILD, self._build),  # of variants' code, which may not return
            messages.Prepare: (Phase.INPUTS, self._prepare),
            messages.Job: (Phase.INPUTS, self._do),
        }
        while not self._is_over:
            self.page.enter(NO_TRIAL, Phase.IDLE)
            try:
                if self._ahead and not self.pipe.poll(QUESTIONS_S):
                    import_ahead(*self._ahead)
                    self._ahead.clear()
                if self._building and not self.pipe.poll(BUILT_S):
                    self._prepare_next()
                    self._tell_built()
                    continue
                message = self.pipe.receive()
            except (EOFError, ConnectionResetError):
                return
            phase, answer = answers[type(message)]
            self.page.enter(NO_TRIAL, phase)
            answer(message)

    def _open(self, message: messages.Open) -> None:
        for name in message.backends:
            self.devices.begin(name)  # a job that needs the device reports why it cannot be opened

    def _describe(self, message: messages.Describe) -> None:
        found = self.devices.describe(message.backend)
        if isinstance(found, DeviceFacts):
            self._ahead |= dict.fromkeys(get_spec(message.backend).imports)
        self.pipe.send(found)

    def _calibrate(self, message: messages.Calibrate) -> None:
        try:
            self.pipe.send(self.devices.get(message.backend).calibrate())
        except Exception as error:  # a process border: the engine reports it and goes on without a calibration
            self.pipe.send(Unavailable(f"{type(error).__name__}: {error}"))

    def _load_ahead(self, message: messages.Load) -> None:
        with contextlib.suppress(Exception):  # reported when something is asked about the family
            self._load(message.origin)

    def _probe(self, message: messages.Probe) -> None:
        """Say what a family's functions show of problems by running."""
        try:
            sample = self._load(message.origin).sample
            self.pipe.send(messages.Probed(tuple(map(sample, message.problems)) if sample else ()))
        except Exception as error:  # a process border: whatever a family raises is its own fault
            fault = str(error) if isinstance(error, CuprofError) else describe(error)
            self.pipe.send(messages.Probed(fault=fault))

    def _load(self, origin: AnyOrigin) -> Family:
        """Return a family whose code runs once in this process."""
        sys.dont_write_bytecode = True  # its files may change between two sweeps within a second
        if origin not in self._families:
            self._families[origin] = origin.load()
        return self._families[origin]

    def _build(self, message: messages.Build) -> None:
        """Begin to build the programs of a job that may follow; the job itself reports their errors."""
        job = self._next = message.job
        self._ahead.clear()
        self._building |= {trial.identity: () for trial in job.trials}
        self._begin_builds(job, message.limit_s)

    def _begin_builds(self, job: messages.Job, limit_s: float | None = None) -> None:
        """Begin to build the programs of a job; the job itself reports errors."""
        if job.extension is not None and not job.extension.like:  # a file whose own code would run
            return
        for trial in job.trials:
            with contextlib.suppress(Exception):
                family = self._load(job.origin)
                if job.extension is not None:
                    family = replace(family, variants=dict(family.variants))
                    extend(family, job.extension)
                variant = family.variant(trial.variant)
                if variant.kind == "kernel":
                    program, _ = self._held.programs[trial.identity] = make_program(variant, job.problem, trial)
                    build, backend = (variant, program, trial.source_text), self.devices.get(job.backend)
                    builds = backend.build_ahead(family.signature(job.problem), [build], limit_s)
                    (self._building[trial.identity],) = builds

    def _prepare_next(self) -> None:
        """Make inputs and reference of the job that is being built, which takes few of the host's cores."""
        job, self._next = self._next, None
        if job is not None:
            self.page.enter(NO_TRIAL, Phase.INPUTS)
            with contextlib.suppress(Exception):
                self._get_problem(job)

    def _tell_built(self) -> None:
        """Tell the engine which programs are built."""
        done = [identity for identity, builds in self._building.items() if all(build.done() for build in builds)]
        if done:
            for identity in done:
                del self._building[identity]
            self.pipe.send(messages.Built(tuple(done)))

    def _prepare(self, message: messages.Prepare) -> None:
        """Make inputs and reference of a job, and begin to build its programs, beside other processes."""
        job = message.job
        self._building |= {trial.identity: () for trial in job.trials}
        with contextlib.suppress(Exception), ThreadPoolExecutor(1) as pool:  # what fails is done again, and told
            self._load(job.origin)
            self.devices.begin(job.backend)
            pool.submit(self._get_problem, job, at_once=True)
            self._begin_builds(job)
        try:
            self.devices.get(job.backend)
        except Exception:  # another process may have it to itself: the engine tries again when that has ended
            self._is_over = True

    def _do(self, job: messages.Job) -> None:
        """Carry out a job, and send its answers."""
        for answer in self._carry_out(job):
            if isinstance(answer, messages.Finished):
                self.pipe.send(replace(answer, has_company=self.page.read().has_company))
                if answer.lost:
                    self._is_over = True
                    return
            else:
                self.page.enter(NO_TRIAL, Phase.IDLE)  # before the engine can send a job whose trials count anew
                self._tell_built()
                self.pipe.send(answer)

    def _carry_out(self, job: messages.Job) -> Iterator[messages.Finished | messages.JobDone]:
        """Yield the answers to a job."""
        self._ahead.clear()
        self._next = None
        try:
            backend = self.devices.get(job.backend)
        except Exception as error:  # a process border: a back end that cannot be opened skips its trials
            yield _fault(error, unavailable=True)
            return
        try:
            problem = self._get_problem(job)
        except Exception as error:  # a process border: whatever a family raises is the family's fault
            said = str(error) if isinstance(error, FamilyError) else describe(error)
            yield _fault(error, f"the family's {said}", of_family=True)
            return
        try:
            run = JobRun(backend, problem, job, self.page, self._held)
        except Exception as error:  # a process border
            yield _fault(error)
            return
        yield from run.run()
        yield messages.JobDone()

    def _get_problem(self, job: messages.Job, *, at_once: bool = False) -> Problem:
        """Return inputs and reference, kept from the previous job where it had the same problem."""
        key = (job.origin, job.extension, job.problem, job.seed)
        if self._problem is None or self._problem[0] != key:
            self._held.close()
            self._problem = None  # free the old inputs before making new ones
            family = self._load(job.origin) if job.extension is None else job.origin.load()
            _require_unchanged(family, job)
            self._problem = (key, Problem.make(family, job, at_once=at_once))
            if job.extension is not None:  # a file from elsewhere, after inputs and reference have been made
                extend(self._problem[1].family, job.extension)
        return self._problem[1]


def _require_unchanged(family: Family, job: messages.Job) -> None:
    """Raise `FamilyError` if the loaded code is not the planned code, under which results would be stored."""
    changed = [Path(file).name for file, digest in job.code.items() if family.code.get(file, digest) != digest]
    if changed:
        raise FamilyError(f"{list_first(changed, 3)} changed after the sweep had been planned; run it again")


def _fault(error: Exception, said: str = "", *, unavailable: bool = False, of_family: bool = False) -> messages.JobDone:
    starved = isinstance(error, DeviceMemoryError | MemoryError)
    return messages.JobDone(said or describe(error), excerpt(traceback.format_exc()), unavailable, of_family, starved)


def serve(handle: int, status: Path) -> int:
    """Work for the engine until it goes away.

    Args:
        handle: file descriptor of the pipe.
        status: the file of the status page.
    """
    faulthandler.enable()
    pipe = Wire(Connection(handle))
    page = StatusPage(status)
    import_at_once()
    try:
        if (modules := os.environ.get(AHEAD)) and not pipe.poll(SOON_S):
            import_ahead(*modules.split(","))
        settings: messages.WorkerSettings = pipe.receive()
        Worker(pipe, page, settings).serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return 1
    return 0


def import_at_once() -> None:
    """Import what every job needs, and what the engine has named."""
    named = filter(None, os.environ.get(AT_ONCE, "").split(","))
    import_ahead("cuda.bindings.driver", "cuda.bindings.nvrtc", "cuprof.worker.job", *named)
