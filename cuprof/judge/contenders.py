"""Turn submitted files into variants with planned trials; none of their code runs in this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuprof.core.errors import CuprofError, UnknownNameError, UsageError, WorkerError
from cuprof.core.records import DeviceFacts, Trial, Unavailable
from cuprof.engine.worker_process import WorkerDiedError, WorkerProcess
from cuprof.families import Family
from cuprof.families.candidate import LANGUAGES, PYTHON, SOLUTION, Extension, copy_family, extend
from cuprof.families.origin import Folder
from cuprof.interop.origins import AnyOrigin
from cuprof.judge.report import Candidate, Evidence, Ruling
from cuprof.plan import Selection, plan
from cuprof.worker.messages import Outline, Outlined
from cuprof.worker.status_page import Phase

Devices = Mapping[str, DeviceFacts | Unavailable]
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")


class _LieError(Exception):
    """Report that a file's process made a claim that cannot be true."""


@dataclass(frozen=True)
class Contender:
    """One variant of a candidate's file.

    Args:
        origin: of the family; for a Python file of a copy with the file in it.
        runs_on_host: code of the file runs in the worker's process, beside the clock.
    """

    file: Path
    variant: str
    backend: str
    origin: AnyOrigin
    extension: Extension
    trials: tuple[Trial, ...]
    runs_on_host: bool


@dataclass(frozen=True)
class Entrance:
    """Admit files, within the limits of the family, its problems and the devices.

    Args:
        family: the family itself, without any of the files.
        selection: the requested problems and tunables.
        known: every trial of the baselines; a file states no other work, problems or devices than these.
        workshop: folder for copies of the family.
        start: starts a worker in a sandbox that can see a family's folder and a file's.
        limit_s: how long reading a file may take.
    """

    family: Family
    selection: Selection
    devices: Devices
    known: Sequence[Trial]
    like: str
    workshop: Path
    start: Callable[[Path, Path], WorkerProcess]
    limit_s: float

    def admit(self, file: Path, number: int) -> list[Contender] | Candidate:
        """Return the variants of a file, or the candidate if it failed already.

        Raises:
            UsageError: the family's own functions refuse the request.
        """
        if file.suffix in LANGUAGES:
            return self._admit_source(file)
        if file.suffix == SOLUTION:
            return self._admit_solution(file)
        return self._admit_python(file, self.workshop / str(number))

    def _admit_source(self, file: Path) -> list[Contender]:
        like = find_like(self.family, LANGUAGES[file.suffix], self.like)
        extension = Extension(str(file), file.parent, like)
        family, (name,), trials = self._extend(extension)
        calls = [family.variant(name).make(trial.problem, trial.tunables).calls_host for trial in trials]
        origin = self.family.origin
        return [Contender(file, name, trials[0].backend, origin, extension, trials, runs_on_host=any(calls))]

    def _admit_solution(self, file: Path) -> list[Contender] | Candidate:
        """Return a solution of the family's definition; its code runs in the sandbox alone."""
        extension = Extension(str(file), file.parent)
        try:
            _, (name,), trials = self._extend(extension)
        except CuprofError as error:
            return _refused(file, Ruling.UNUSABLE, str(error))
        return [Contender(file, name, trials[0].backend, self.family.origin, extension, trials, runs_on_host=True)]

    def _extend(self, extension: Extension) -> tuple[Family, tuple[str, ...], tuple[Trial, ...]]:
        family = self.family.origin.load()  # a fresh copy: variants are going to be added to it
        names = extend(family, extension)
        return family, names, plan(family, replace(self.selection, variants=names), self.devices).trials

    def _admit_python(self, file: Path, into: Path) -> list[Contender] | Candidate:
        into.mkdir()
        folder, extension = copy_family(self.family.origin.folder, into, file)
        origin = Folder(folder)
        found = {name: device for name, device in self.devices.items() if isinstance(device, DeviceFacts)}
        absent = {name: reason for name, reason in self.devices.items() if isinstance(reason, Unavailable)}
        outline = Outline(origin, extension, self.selection, found, absent)
        try:
            with self.start(folder, file.parent) as worker:
                outlined = worker.ask(outline, Outlined, self.limit_s)
        except WorkerDiedError as death:
            if death.status.phase is not Phase.BUILD:  # before it came to the file
                raise
            return _refused(file, Ruling.WRONG, f"reading it ended the process: {death.cause}", death.log)
        except WorkerError as error:
            return _refused(file, Ruling.WRONG, f"reading it: {error}")
        if outlined.fault:
            return _refused(file, Ruling.UNUSABLE, outlined.fault, outlined.log)
        try:
            contenders = list(self._contenders(file, origin, extension, outlined))
        except _LieError as lie:
            return _refused(file, Ruling.WRONG, str(lie))
        return contenders or _refused(
            file, Ruling.UNUSABLE, f"none of its trials remain: {'; '.join(outlined.excluded[:3])}"
        )

    def _contenders(self, file: Path, origin: Folder, extension: Extension, outlined: Outlined) -> Iterator[Contender]:
        for name in dict.fromkeys(trial.variant for trial in outlined.trials):
            trials = tuple(self._confirm(trial) for trial in outlined.trials if trial.variant == name)
            only = replace(extension, only=name)
            yield Contender(file, name, trials[0].backend, origin, only, trials, runs_on_host=True)

    def _confirm(self, trial: Trial) -> Trial:
        """Return a trial that a stranger's process reported, with every field that we know ourselves replaced."""
        same = next((known for known in self.known if known.problem == trial.problem), None)
        taken = trial.identity in {known.identity for known in self.known}
        if same is None or taken or not _IDENTITY.fullmatch(trial.identity) or not _NAME.fullmatch(trial.variant):
            raise _LieError(f"{trial.variant[:100]!r} claims to be what it is not: other problems, or another trial")
        device = self.devices.get(trial.backend)
        label = " · ".join(
            filter(None, (f"{self.family.name}/{trial.variant}", trial.problem.label, trial.tunables.label))
        )
        return replace(
            trial,
            family=self.family.name,
            label=label,
            device=device if isinstance(device, DeviceFacts) else None,
            expected="right",
            useful_bytes=same.useful_bytes,
            flops=same.flops,
        )


def find_like(family: Family, backend: str, wanted: str) -> str:
    """Return the variant whose source a candidate's source replaces.

    Raises:
        UsageError: none is named, and there is not exactly one possible variant.
    """
    kernels = [name for name, variant in family.variants.items() if variant.source and variant.backend == backend]
    if wanted:
        if wanted not in kernels:
            raise UnknownNameError(f"{backend} variant with a source", wanted, kernels, f"of family {family.name}")
        return wanted
    if family.get_baseline() in kernels:
        return family.get_baseline()
    if len(kernels) == 1:
        return kernels[0]
    known = f"its {backend} variants are {', '.join(kernels)}" if kernels else f"it has no {backend} variant"
    raise UsageError(
        f"a source needs a variant of family {family.name} to replace; {known}; "
        + ("name one with --like" if kernels else "write a Python file with @family.cuda or @family.opencl")
    )


def check_file(path: Path) -> Path:
    """Return a candidate's absolute path, or raise `UsageError` if it is not a candidate."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}; a candidate is a .cu, .cl, .py or .json file")
    if path.suffix not in (*LANGUAGES, PYTHON, SOLUTION):
        raise UsageError(
            f"{path} is not a candidate; name a source (.cu, .cl), a Python file with variants, or a solution in JSON"
        )
    return path.resolve()


def _refused(file: Path, ruling: Ruling, message: str, log: str = "") -> Candidate:
    evidence = (Evidence("log", log),) if log else ()
    return Candidate(str(file), "", message=message, ruling=ruling, evidence=evidence)
