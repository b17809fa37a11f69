"""The worker process: it owns the device, runs one job after another, and knows no database."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time_ns
from typing import Any

from cuprof.backends.registry import get_spec
from cuprof.builds import BuildPool
from cuprof.core.errors import CuprofError, DeviceMemoryError, FamilyError
from cuprof.core.processes import AHEAD, AT_ONCE
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.core.text import list_first
from cuprof.families import Family
from cuprof.families.candidate import extend
from cuprof.families.trace import describe
from cuprof.interop.origins import AnyOrigin
from cuprof.plan import plan
from cuprof.worker.devices import DeviceTable
from cuprof.worker.excerpt import excerpt
from cuprof.worker.held import Held
from cuprof.worker.integrity import Integrity
from cuprof.worker.messages import (
    Build,
    Built,
    Calibrate,
    Calibrated,
    Describe,
    Described,
    Execute,
    Executed,
    Job,
    JobDone,
    Load,
    Open,
    Outline,
    Outlined,
    Probe,
    Probed,
    Ready,
    WorkerSettings,
)
from cuprof.worker.status_page import NO_TRIAL, Phase, StatusPage
from cuprof.worker.trials import TrialRunner, make_ahead
from cuprof.worker.wire import Wire
from cuprof.worker.workload import Workload

SOON_S = 1.5
"""If the first job arrives within this time, skip the slow imports: the job may need none of them."""
JUDGING = ("verify", "generate", "reference", "tolerance")
"""Functions of a family that decide which results are right."""
QUESTIONS_S = 0.05
"""Questions about devices follow one another within this time; a job comes later."""
BUILT_S = 0.002
"""Look this often whether a compiler is done while there is nothing else to do."""


class Worker:
    """Answer the engine's messages until it says stop or goes away."""

    def __init__(self, pipe: Wire, page: StatusPage, settings: WorkerSettings) -> None:
        self.pipe, self.page = pipe, page
        BuildPool.workers = settings.workers
        self.devices = DeviceTable(settings)
        self._integrity: Integrity | None = None
        self._workload: tuple[tuple[object, ...], Workload] | None = None
        self._held = Held()
        self._families: dict[AnyOrigin, Family] = {}
        self._ahead: dict[str, None] = {}
        self._building: dict[str, Sequence[Future[Any]]] = {}
        self._next: Job | None = None

    def serve(self) -> None:
        """Work until told to stop."""
        while True:
            self.page.enter(NO_TRIAL, Phase.IDLE)
            try:
                if self._ahead and not self.pipe.poll(QUESTIONS_S):
                    _import(*self._ahead)
                    self._ahead.clear()
                if self._building and not self.pipe.poll(BUILT_S):
                    self._prepare_next()
                    self._tell_built()
                    continue
                message = self.pipe.receive()
            except (EOFError, ConnectionResetError):
                return
            if isinstance(message, Describe):
                self.page.enter(NO_TRIAL, Phase.START)
                self.pipe.send(self._describe(message.backends))
            elif isinstance(message, Calibrate):
                self.page.enter(NO_TRIAL, Phase.CALIBRATE)
                self.pipe.send(self._calibrate(message.backend))
            elif isinstance(message, Load):
                with contextlib.suppress(Exception):  # reported when something is asked about the family
                    self._load(message.origin)
            elif isinstance(message, Probe):
                self.page.enter(NO_TRIAL, Phase.INPUTS)
                self.pipe.send(self._probe(message))
            elif isinstance(message, Outline):
                self.page.enter(NO_TRIAL, Phase.BUILD)
                self.pipe.send(self._outline(message))
            elif isinstance(message, Open):
                self._open(message.backends)
            elif isinstance(message, Build):
                self._build(message.job, message.limit_s)
            elif isinstance(message, Job) and not self._do(message):
                return

    def _open(self, backends: tuple[str, ...]) -> None:
        self.page.enter(NO_TRIAL, Phase.START)
        for name in backends:
            with contextlib.suppress(Exception):  # a job that needs the device reports why it cannot be opened
                self.devices.get(name)

    def _describe(self, backends: tuple[str, ...]) -> Described:
        devices = {name: self.devices.describe(name) for name in backends}
        for name, device in devices.items():
            if isinstance(device, DeviceFacts):
                self._ahead |= dict.fromkeys(get_spec(name).imports)
        return Described(
            {name: device for name, device in devices.items() if isinstance(device, DeviceFacts)},
            {name: reason for name, reason in devices.items() if isinstance(reason, Unavailable)},
        )

    def _calibrate(self, backend: str) -> Calibrated:
        try:
            return Calibrated(self.devices.get(backend).calibrate())
        except Exception as error:  # a process border: the engine reports it and goes on without a calibration
            return Calibrated(None, f"{type(error).__name__}: {error}")

    def _probe(self, probe: Probe) -> Probed:
        """Return what a family's functions show of problems by running."""
        try:
            family = self._load(probe.origin)
            assert family.sample is not None
            return Probed(tuple(family.sample(problem) for problem in probe.problems))
        except CuprofError as error:
            return Probed(fault=str(error))
        except Exception as error:  # a process border: whatever a family raises is its own fault
            return Probed(fault=describe(error))

    def _load(self, origin: AnyOrigin) -> Family:
        """Return a family whose code runs once in this process, where no stranger's code does."""
        if origin not in self._families:
            self._families[origin] = origin.load()
        return self._families[origin]

    def _outline(self, outline: Outline) -> Outlined:
        """Return the trials that a file adds to a family."""
        try:
            family = outline.origin.load()
            names = extend(family, outline.extension)
            planned = plan(family, replace(outline.selection, variants=names), {**outline.found, **outline.absent})
        except CuprofError as error:
            return Outlined(fault=str(error), log=excerpt(traceback.format_exc()))
        except Exception as error:  # a process border: whatever the file raises is its own fault
            return Outlined(fault=describe(error), log=excerpt(traceback.format_exc()))
        return Outlined(planned.trials, tuple(f"{each.label}: {each.reason}" for each in planned.excluded))

    def _build(self, job: Job, limit_s: float) -> None:
        """Begin to build the programs of a job that may follow; the job itself reports what is wrong with them."""
        self._ahead.clear()
        self._building |= {trial.identity: () for trial in job.trials}
        self._next = job
        self.page.enter(NO_TRIAL, Phase.BUILD)  # of variants' code, which may not return
        with contextlib.suppress(Exception):
            backend = self.devices.get(job.backend)
            self._integrity = self._integrity or Integrity()
            if job.extension is None:  # strangers' code runs after inputs and reference have been made
                family = self._load(job.origin)
                with _kept(family, self._integrity):
                    signature = family.signature(job.problem)
                    for trial in job.trials:
                        program = make_ahead(family, job.problem, [trial], self._held)
                        for builds in backend.build_ahead(signature, program, limit_s):
                            self._building[trial.identity] = builds

    def _prepare_next(self) -> None:
        """Make inputs and reference of the job that is being built, which takes few of the host's cores."""
        job, self._next = self._next, None
        if job is not None:
            self.page.enter(NO_TRIAL, Phase.INPUTS)
            with contextlib.suppress(Exception):
                self._get_workload(job, self._integrity or Integrity())

    def _tell_built(self) -> None:
        """Tell the engine which programs are built."""
        done = [identity for identity, builds in self._building.items() if all(build.done() for build in builds)]
        if done:
            for identity in done:
                del self._building[identity]
            self.pipe.send(Built(tuple(done)))

    def _do(self, job: Job) -> bool:
        """Carry out a job; return False when this process can do no more."""
        self._ahead.clear()
        self._next = None
        self.page.enter(NO_TRIAL, Phase.INPUTS)
        try:
            backend = self.devices.get(job.backend)
        except Exception as error:  # a process border: a back end that cannot be opened skips its trials
            self.pipe.send(_fault(error, unavailable=True))
            return True
        try:
            # The back end is open, no family is loaded yet.
            integrity = self._integrity = self._integrity or Integrity()
            workload = self._get_workload(job, integrity)
        except Exception as error:  # a process border: whatever a family raises is the family's fault
            said = str(error) if isinstance(error, FamilyError) else describe(error)
            self.pipe.send(_fault(error, f"the family's {said}", of_family=True))
            return True
        try:
            runner = TrialRunner(
                backend, workload, job, self.page.enter, self.page.begin, integrity, self._be_seen, self._held
            )
        except Exception as error:  # a process border
            self.pipe.send(_fault(error))
            return True
        for finished in runner.run():
            self.pipe.send(replace(finished, has_company=self.page.read().has_company))
            if finished.lost:
                return False
        self.page.enter(NO_TRIAL, Phase.IDLE)  # before the engine can send a job whose trials count anew
        self._tell_built()
        self.pipe.send(JobDone())
        return True

    def _be_seen(self, index: int, claimed_ns: float, execute: Callable[[int, bool], float], once: bool) -> None:
        """Execute a trial as often as the engine says, which holds its own clock to it."""
        self.pipe.send(Ready(index, claimed_ns, once))
        while isinstance(asked := self.pipe.receive(), Execute) and asked.count:
            self.page.enter(index, Phase.TIME)
            began = process_time_ns()
            own_ns = execute(asked.count, asked.only_write)
            self.pipe.send(Executed(asked.count, own_ns, process_time_ns() - began))

    def _get_workload(self, job: Job, integrity: Integrity) -> Workload:
        """Return inputs and reference, kept from the previous job where it had the same problem."""
        key = (job.origin, job.extension, job.problem, job.seed)
        if self._workload is None or self._workload[0] != key:
            self._held.close()
            self._workload = None  # free the old inputs before making new ones
            family = self._load(job.origin) if job.extension is None else job.origin.load()
            _require_unchanged(family, job)
            self._workload = (key, Workload.make(family, job))
            _trust(self._workload[1].family, integrity)
            if job.extension is not None:  # strangers' code, after inputs and reference have been made
                extend(self._workload[1].family, job.extension)
        else:
            self._workload = (key, self._workload[1].for_job(job))
        return self._workload[1]


def _trust(family: Family, integrity: Integrity) -> None:
    """Record the functions that decide which results are right, and the libraries that they call, such as SciPy."""
    integrity.learn()
    for name in JUDGING:
        integrity.trust(getattr(family, name), constants=name == "verify")


@contextlib.contextmanager
def _kept(family: Family, integrity: Integrity) -> Iterator[None]:
    """Put back replaced functions that make inputs and references; the variant that replaced them is blamed later."""
    functions = {name: getattr(family, name) for name in JUDGING}
    with integrity.for_now():
        _trust(family, integrity)
        yield
    for name, function in functions.items():
        setattr(family, name, function)


def _require_unchanged(family: Family, job: Job) -> None:
    """Raise `FamilyError` if the loaded code is not the planned code, under which results would be stored."""
    changed = [Path(file).name for file, digest in job.code.items() if family.code.get(file, digest) != digest]
    if changed:
        raise FamilyError(f"{list_first(changed, 3)} changed after the sweep had been planned; run it again")


def _fault(error: Exception, said: str = "", *, unavailable: bool = False, of_family: bool = False) -> JobDone:
    starved = isinstance(error, DeviceMemoryError | MemoryError)
    return JobDone(said or describe(error), excerpt(traceback.format_exc()), unavailable, of_family, starved)


def serve(handle: int, status: Path) -> int:
    """Work for the engine until it goes away.

    Args:
        handle: file descriptor of the pipe.
        status: the file of the status page.
    """
    faulthandler.enable()
    sys.dont_write_bytecode = True  # a family's files may change between two sweeps within a second
    pipe = Wire(Connection(handle))
    page = StatusPage(status)
    at_once = filter(None, os.environ.get(AT_ONCE, "").split(","))
    _import("cuda.bindings.driver", "cuda.bindings.nvrtc", "cuprof.worker.trials", *at_once)
    try:
        if (modules := os.environ.get(AHEAD)) and not pipe.poll(SOON_S):
            _import(*modules.split(","))
        settings: WorkerSettings = pipe.receive()
        Worker(pipe, page, settings).serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return 1
    return 0


def _import(*modules: str) -> None:
    """Import modules for later jobs while the engine is busy; a job that needs a missing one reports it."""
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
