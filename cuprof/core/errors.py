"""Every error that cuprof raises on purpose.

    CuprofError                 root; the command line ends with its `exit_code`
    ├── UsageError              the request cannot be carried out as it stands (exit code 2)
    │   ├── UnknownNameError    a name that does not exist; carries the nearest names
    │   ├── SelectionError      a value out of range, or a selection without a trial
    │   ├── FamilyError         a family.py that cannot be imported or is not valid
    │   └── ConfigError         configuration that does not compose or validate
    ├── StoreError              the database cannot be opened, read or written (exit code 2)
    │   ├── EmptyStoreError     there is none, or it has no tables yet
    │   └── UnreachableStoreError   its server does not answer
    ├── MissingDependencyError  an optional package or program is absent; with its install command (exit code 2)
    ├── BuildError              a compiler refused a source; carries the compiler's log
    ├── LaunchError             a launch or a device operation failed
    │   ├── ImpossibleError     a configuration asks for more than the device has; no failure
    │   └── DeviceMemoryError   there is not enough memory on the device now
    ├── WorkerError             a worker process could not be started or broke its protocol
    └── ProfilerError           Nsight Compute is absent, refused, or its report cannot be read (exit code 2)

The exit code is 1 where the tree names no other.
"""

from __future__ import annotations

import copyreg
import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class CuprofError(Exception):
    """Base of every deliberate error; its text is one line that a person can act on."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:  # unlike Exception's, it does not pass the text to a constructor
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class UsageError(CuprofError):
    """Report a request that cannot be carried out as it stands; nothing was stored."""

    exit_code = 2


class UnknownNameError(UsageError):
    """Report a name that does not exist, with the names nearest to it.

    Args:
        what: the kind of thing asked for ("variant", "problem axis").
        name: the name that was asked for.
        known: every name that would have been accepted.
        where: optional context ("of family reduction").
    """

    def __init__(self, what: str, name: str, known: Iterable[str], where: str = "") -> None:
        self.what, self.name, self.known, self.where = what, name, sorted(known), where
        super().__init__(f"unknown {what} {name!r}{f' {where}' if where else ''}: {suggest(name, self.known)}")


class SelectionError(UsageError):
    """Report a value out of range, or a selection without a trial."""


class FamilyError(UsageError):
    """Report a family.py that cannot be imported or does not describe a valid family."""


class FamilyFault(FamilyError):  # noqa: N818
    """Report that a function of the family failed on a variant's results, which says nothing about the variant."""


class ConfigError(UsageError):
    """Report configuration that does not compose or does not validate."""


class StoreError(CuprofError):
    """Report a database that cannot be opened, read or written."""

    exit_code = 2


class UnreachableStoreError(StoreError):
    """Report a database whose server does not answer, or has stopped answering."""


class EmptyStoreError(StoreError):
    """Report a database that was only to be read, and is not there or has no tables."""


class MissingDependencyError(CuprofError):
    """Report an optional package or program that is absent ("CuPy"), and the command that installs it."""

    exit_code = 2

    def __init__(self, what: str, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(f"{what} is not available; {remedy}")


@contextmanager
def needing(what: str, remedy: str) -> Iterator[None]:
    """Raise `MissingDependencyError` where an import fails."""
    try:
        yield
    except ImportError:
        raise MissingDependencyError(what, remedy) from None


class BuildError(CuprofError):
    """Report a source that the compiler refused; `log` is the compiler's full output."""

    def __init__(self, message: str, log: str = "") -> None:
        self.log = log
        super().__init__(message)


class LaunchError(CuprofError):
    """Report a launch or a device operation that failed."""


class ImpossibleError(LaunchError):
    """Report that a configuration asks for more than the device has: threads, registers, shared memory, a cluster."""


class DeviceMemoryError(LaunchError):
    """Report too little memory on the device now; another variant of the process may be holding it."""

    def __init__(self, what: str, said: object) -> None:
        super().__init__(f"{what}: out of device memory: {said}")


class WorkerError(CuprofError):
    """Report a worker process that could not be started or broke its protocol."""


class ProfilerError(CuprofError):
    """Report that Nsight Compute is absent, refused to work, or left a report that cannot be read."""

    exit_code = 2


def explain(error: Exception | None, *, is_output: bool = False) -> CuprofError | None:
    """Return the error to show: one of ours, or of a path or a disk that the system refuses; None for any other."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return UsageError(f"the path {str(error.filename)[:99]}… is too long for a file; choose a shorter one")
    if isinstance(error, PermissionError) and error.filename:
        return UsageError(f"{error.filename}: permission denied; check its permissions and its folder's")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        is_known = is_output or error.errno != errno.EIO  # which reading may meet too
        what = "the output cannot be written" if is_known else f"{error.filename or 'a file'} cannot be read or written"
        return StoreError(f"{what}: {error.strerror}")
    return error if isinstance(error, CuprofError) else None


SYNONYMS = {
    **dict.fromkeys(("gpu", "nvidia", "card"), "cuda"),
    **dict.fromkeys(("run", "bench", "benchmark", "time", "tune"), "sweep"),
    **dict.fromkeys(("diff", "vs"), "compare"),
    **dict.fromkeys(("profile", "ncu"), "ncu-collect"),
    **dict.fromkeys(("new", "create"), "init"),
    **dict.fromkeys(("show", "page", "html"), "report"),
    **dict.fromkeys(("fast", "short"), "quick"),
    "export": "best",
}
"""Words that people try → the name that they mean, where it is known."""


def suggest(name: str, known: Iterable[str], most: int = 12) -> str:
    """Return "did you mean …?" for near misses, else the list of what exists."""
    names = sorted(known)
    if (meant := SYNONYMS.get(name, "")) in names:
        return f"did you mean {meant}?"
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    if not names:
        return "there are none"
    return f"there are {', '.join(names[:most])}{' …' if len(names) > most else ''}"
