"""Turn submitted files into variants with planned trials; none of their code runs in this process."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from cuprof.backends.registry import is_host
from cuprof.core.errors import LaunchError, UnknownNameError, UsageError
from cuprof.core.files import open_regular
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts, Devices, Trial
from cuprof.core.text import one_line
from cuprof.families import Family
from cuprof.families.candidate import LANGUAGES, LONGEST_NAME, PYTHON, SOLUTION, Extension, copy_family
from cuprof.families.fingerprint import hash_text
from cuprof.families.model import Kind
from cuprof.families.origin import Folder
from cuprof.interop.origins import AnyOrigin
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.border.signals import Answer, Outline
from cuprof.judge.border.suspect import INVALID, START_LIMIT_S, LateError, LostError, RefusedError, Suspect
from cuprof.judge.report import Candidate, Evidence, Ruling
from cuprof.plan import Selection
from cuprof.plan.identity import hash_content
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Outlined
from cuprof.worker.wire import NonsenseError, decode

MOST_BYTES = 1 << 19
"""Of a candidate's file: its text is part of a message of a megabyte. Usual sources have a hundredth of it."""
MOST_VARIANTS = 64
"""Of a candidate's file: each may take all of its limits, and others wait."""
MOST_LABEL, MOST_REASON, MOST_NUMBER = 2000, 200, 1 << 31
"""Characters of a trial's label, of why there is none, and what the numbers of a trial are below."""
_IDENTITY = re.compile(r"[0-9a-f]{32}")
NO_GPU = re.compile("no CUDA|no NVIDIA driver|NO_DEVICE|active drivers", re.IGNORECASE)
"""What CuPy, PyTorch, Numba and Triton say where they find no device."""
NO_GPU_HINT = "; a file is read where there is no GPU: use it in the variant's function"
_NAME = re.compile(rf"(?=.{{1,{LONGEST_NAME}}}\Z)[A-Za-z0-9][A-Za-z0-9_.+-]*")


class _LieError(Exception):
    """Report that a file's process made a claim that cannot be true."""


@dataclass(frozen=True, eq=False)
class Contender:
    """One variant that takes part: of a candidate's file, or the baseline. Each is equal to itself alone.

    Args:
        origin: of the family; for a Python file of a copy with the file in it.
        runs_on_host: its code runs in a process of the host, and stays beyond the border.
        file: None for the baseline, as is `extension`.
        omitted: problem → why it has no trial there, as far as its process said.
    """

    variant: str
    backend: str
    origin: AnyOrigin
    trials: tuple[Trial, ...]
    runs_on_host: bool
    extension: Extension | None = None
    file: Path | None = None
    omitted: Mapping[Point, str] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[str, bool]:
        """Return what those have in common that are timed in the same way."""
        return self.backend, self.runs_on_host


@dataclass(frozen=True)
class Entrance:
    """Admit files, within the limits of the family, its problems and the devices.

    Args:
        family: the family itself, without any of the files.
        selection: the requested problems and tunables.
        known: every trial of the baselines; a file states no other work, problems or devices than these.
        incomparable: back ends with the problems at which their baselines have no trial.
        workshop: folder for copies of the family.
        sandbox: for what reads a file, which sees only that and the folder given.
        limit_s: how long reading a file may take.
        server: starts the processes that read.
        files: all that ask to be admitted; none sees another.
    """

    family: Family
    selection: Selection
    devices: Devices
    known: Sequence[Trial]
    incomparable: Collection[tuple[str, Point]]
    like: str
    workshop: Path
    sandbox: Callable[[Path, Path], Sandbox | None]
    limit_s: float
    server: ForkServer
    files: Sequence[Path]

    def admit(self, file: Path, number: int) -> list[Contender | Candidate]:
        """Return the variants of a file, those with no trial as candidates; or one candidate if it failed already.

        The file is read by a confined process: its includes, and whatever a Python file does.

        Raises:
            UsageError: the family's own functions refuse the request.
        """
        origin, extension, text = self.family.origin, Extension(str(file), file.parent), b""
        try:
            with open_regular(file, MOST_BYTES) as stream:
                text = stream.read(MOST_BYTES)  # of one that grows meanwhile no more
        except (UsageError, OSError) as error:
            return _refused(file, Ruling.UNUSABLE, one_line(str(error)))
        try:
            if file.suffix in LANGUAGES:
                extension = replace(extension, like=find_like(self.family, LANGUAGES[file.suffix], self.like))
            elif file.suffix == PYTHON:
                into = self.workshop / str(number)
                into.mkdir()
                folder, extension = copy_family(origin.folder, into, file, text, self._list_others(file))
                origin = Folder(folder)
        except OSError as error:  # it was there a moment ago
            return _refused(file, Ruling.UNUSABLE, f"it cannot be read: {one_line(str(error))}")
        outline = Outline(origin, extension, self.selection, self.devices)
        deadline = time.monotonic() + self.limit_s + START_LIMIT_S
        try:
            with Suspect(self.server, outline, -1, self.sandbox(origin.folder, file), deadline) as suspect:
                try:
                    outlined = decode(suspect.await_answer(self.limit_s, (Answer.OUTLINE,)))
                except LostError as error:
                    return _refused(file, Ruling.WRONG, f"reading it: {error}", suspect.log_tail())
            if not isinstance(outlined, Outlined):
                raise NonsenseError
            comparable = (each for each in outlined.trials if (each.backend, each.problem) not in self.incomparable)
            outlined = replace(outlined, trials=tuple(comparable))
            if (count := len({trial.variant for trial in outlined.trials})) > MOST_VARIANTS:
                message = f"it has {count} variants; at most {MOST_VARIANTS} of a file are judged"
                return _refused(file, Ruling.UNUSABLE, message)
            contenders = list(self._contenders(file, text, origin, extension, outlined))
            if contenders:
                return [*contenders, *self._list_absent(file, contenders, outlined)]
        except RefusedError as error:
            hint = NO_GPU_HINT if NO_GPU.search(str(error)) else ""
            return _refused(file, Ruling.UNUSABLE, f"{error}{hint}", error.refusal.log)
        except LaunchError as error:
            return _refused(file, Ruling.UNUSABLE, str(error))
        except LateError as error:
            return _refused(file, Ruling.WRONG, f"reading it: {error}")
        except NonsenseError:
            return _refused(file, Ruling.WRONG, f"reading it: {INVALID}")
        except _LieError as lie:
            return _refused(file, Ruling.WRONG, str(lie))
        reasons = "; ".join(f"{each.label}: {each.reason}" for each in outlined.excluded[:3])
        return _refused(file, Ruling.UNUSABLE, f"none of its trials remain: {one_line(reasons)}")

    def _list_others(self, file: Path) -> set[str]:
        """Return the other files, but for those that the family itself is made of."""
        folder, variants = self.family.origin.folder, self.family.variants.values()
        named = [each for one in variants for each in (one.source, *one.files) if each]
        return {*map(str, self.files)} - {str(file), *self.family.code, *(str(folder / each) for each in named)}

    def _list_absent(self, file: Path, there: Sequence[Contender], outlined: Outlined) -> Iterator[Candidate]:
        """Yield the variants that a file's process said have no trial anywhere, and the first reason of each."""
        found, names = dict[str, str](), {one.variant for one in there}
        for each in outlined.excluded:
            name = self._find_name(each.label)
            if name not in names and _NAME.fullmatch(name):
                found.setdefault(name, one_line(each.reason)[:MOST_REASON])
        for name, reason in list(found.items())[:MOST_VARIANTS]:
            message = f"none of its trials remain: {reason}"
            yield Candidate(str(file), name, message=message, ruling=Ruling.UNUSABLE)

    def _find_name(self, label: str) -> str:
        """Return the variant of the family that a trial's label names, or the empty text."""
        family, _, rest = label.partition("/")
        return rest.partition(" · ")[0] if family == self.family.name else ""

    def _contenders(
        self, file: Path, text: bytes, origin: AnyOrigin, extension: Extension, outlined: Outlined
    ) -> Iterator[Contender]:
        own = text.decode(errors="replace"), hashlib.sha256(text).hexdigest()
        for name in dict.fromkeys(trial.variant for trial in outlined.trials):
            trials = tuple(self._confirm(trial, *own) for trial in outlined.trials if trial.variant == name)
            chosen = {(trial.problem, trial.tunables if self.selection.tune else None) for trial in trials}
            if len(trials) > len(chosen) or len({trial.backend for trial in trials}) > 1:
                raise _LieError(f"{name!r} claims to be what it is not: trials not asked for, or of two back ends")
            only = replace(extension, only=name) if file.suffix == PYTHON else extension
            on_host = not extension.like or self._calls_host(extension.like, trials)
            omitted = {
                each.problem: one_line(each.reason)[:MOST_REASON]
                for each in outlined.excluded
                if each.problem is not None and self._find_name(each.label) == name
            }
            yield Contender(name, trials[0].backend, origin, trials, on_host, only, file, omitted)

    def _calls_host(self, like: str, trials: Sequence[Trial]) -> bool:
        """Return whether a source in the place of this variant's becomes code of a process of the host."""
        device = self.devices.get(trials[0].backend)
        make = self.family.variant(like).make
        return (isinstance(device, DeviceFacts) and is_host(device)) or any(
            make(trial.problem, trial.tunables).calls_host for trial in trials
        )

    def _confirm(self, trial: Trial, text: str, text_hash: str) -> Trial:
        """Return a trial that a stranger's process reported, with every field that we know ourselves replaced."""
        same = next((known for known in self.known if known.problem == trial.problem), None)
        if same is None or not _IDENTITY.fullmatch(trial.identity) or not _NAME.fullmatch(trial.variant):
            raise _LieError(f"{trial.variant[:100]!r} claims to be what it is not: other problems, or another trial")
        if trial.kind not in get_args(Kind):
            raise _LieError(f"{trial.variant!r} claims to be what it is not: of no kind that there is")
        device = self.devices.get(trial.backend)
        label = " · ".join(
            filter(None, (f"{self.family.name}/{trial.variant}", trial.problem.label, trial.tunables.label))
        )
        if len(label) > MOST_LABEL or max(abs(trial.order), abs(trial.threads or 0)) > MOST_NUMBER:
            raise _LieError(f"{trial.variant!r} claims to be what it is not: its label or numbers are too long")
        trial = replace(trial, problem=same.problem)  # equal to what is claimed, which may be 64.0 or True
        try:
            identity = _identify(trial, text_hash)
        except ValueError:
            raise _LieError(f"{trial.variant!r} claims to be what it is not: tunables that are no numbers") from None
        if trial.kind == "kernel":  # what is compiled is what is claimed; of a function only the file's text is known
            text, text_hash = trial.source_text, hash_text(trial.source_text)
        return replace(
            trial,
            identity=identity,
            family=self.family.name,
            label=label,
            device=device if isinstance(device, DeviceFacts) else None,
            source_text=text,
            source_hash=text_hash,
            description="",
            origin="",
            expected="right",
            useful_bytes=same.useful_bytes,
            flops=same.flops,
        )


def _identify(trial: Trial, text_hash: str) -> str:
    """Return an identity that no other trial has, neither of this file nor of another text.

    It includes what the file's process claims, since a source's includes are part of that.
    """
    place = {name: dict(point.items()) for name, point in (("problem", trial.problem), ("tunables", trial.tunables))}
    content = {
        "text": text_hash,
        "claimed": trial.identity,
        "variant": trial.variant,
        "backend": trial.backend,
        **place,
    }
    return hash_content(content)


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
    if not os.path.isfile(path):  # noqa: PTH113 - `Path.is_file` raises for a link that leads to a closed place
        raise UsageError(f"there is no file {path}; a candidate is a .cu, .cl, .py or .json file")
    real = path.resolve()  # what a link leads to is read and run by its own name
    if real.suffix not in (*LANGUAGES, PYTHON, SOLUTION):
        shown = path if real.suffix == path.suffix else f"{path}, a link to {real.name},"
        raise UsageError(
            f"{shown} is not a candidate; name a source (.cu, .cl), a Python file with variants (C: @family.kernel), "
            "or a solution in JSON"
        )
    return real


def _refused(file: Path, ruling: Ruling, message: str, log: str = "") -> list[Contender | Candidate]:
    evidence = (Evidence("log", log),) if log else ()
    return [Candidate(str(file), "", message=message, ruling=ruling, evidence=evidence)]
