"""What passes between the collection and the profiled process: a task file, a progress file, and NVTX ranges.

ncu runs `python -m cuprof.worker.profile OWNER BACKEND DEVICE TASKFILE`, often before it is known which trials it will
profile, because starting both takes seconds. The process opens the device and waits for its task file; it stops when
the owner, the process that would write the file, has ended. The task is a file because application replay runs the
process again for every pass. The progress file has a line before and after each step of a trial, so that a crash or a
hang is attributed to one trial. The ranges carry identities, by which launches in a report are joined to trials.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO

import msgspec

from cuprof.backends.spec import MARK_VARIABLE
from cuprof.core.errors import ProfilerError
from cuprof.core.point import Point
from cuprof.core.records import Trial
from cuprof.core.scratch import write_whole
from cuprof.families.candidate import Extension
from cuprof.interop.origins import AnyOrigin

WAIT_S = 0.02


@dataclass(frozen=True)
class ProfilingTask:
    """What one profiled process does.

    Args:
        origin: of the family of all the trials.
        trials: in the order they are executed.
        progress_path: file that `write_progress` appends to.
        warm_up: executions of a trial before the marked one, so that hot counters find the caches as an execution
            leaves them. A library call always has one, in which it chooses its algorithm.
        extension: what is added to the family.
    """

    origin: AnyOrigin
    trials: tuple[Trial, ...]
    progress_path: str
    warm_up: int = 1
    extension: Extension | None = None


def write_task(task: ProfilingTask, path: Path) -> None:
    """Write a task file, whole or not at all."""
    plain = msgspec.json.encode(task, enc_hook=lambda each: dict(each) if isinstance(each, Point) else str(each))
    write_whole(path, plain)


def read_task(path: Path) -> ProfilingTask:
    """Read a task file.

    Raises:
        ProfilerError: the file is absent or is not a task file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProfilingTask, dec_hook=lambda kind, value: kind(value))
    except (OSError, msgspec.MsgspecError) as error:
        raise ProfilerError(
            f"{path} is not a task file of cuprof ({error}); a collection of counters writes it"
        ) from error


def wait_for_task(task: Path, owner: int) -> bool:
    """Wait for the task file in the profiled process; return False when the owner has ended without writing it."""
    import psutil

    while not task.exists():
        if not psutil.pid_exists(owner):
            return task.exists()
        time.sleep(WAIT_S)
    return True


class Step(StrEnum):
    """A step of a trial in the profiled process."""

    PREPARING = "preparing"  # build from the cache, inputs, warm-up
    LAUNCHING = "launching"  # the NVTX range is open, or about to be
    DONE = "done"  # the range is closed and the device has finished
    FAILED = "failed"  # an error that the process survived; `message` has it


@dataclass(frozen=True)
class Progress:
    """Summarise a progress file.

    Attributes:
        steps: the last step of each trial that has begun, in the order they began.
        messages: identity → message of a trial that failed.
    """

    steps: dict[str, Step] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)

    @property
    def open(self) -> str | None:
        """Return the identity of the trial that has begun and is neither done nor failed, or None."""
        begun = [name for name, step in self.steps.items() if step in (Step.PREPARING, Step.LAUNCHING)]
        return begun[-1] if begun else None


def write_progress(file: IO[str], identity: str, step: Step, message: str = "") -> None:
    """Append one line, which survives the end of the process."""
    file.write(json.dumps({"identity": identity, "step": step.value, "message": message}) + "\n")
    file.flush()


def read_progress(path: Path) -> Progress:
    """Read a progress file. An absent file is no progress; a last line that a crash cut short is ignored."""
    progress, lines = Progress(), list[str]()
    with suppress(FileNotFoundError):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        try:
            data = json.loads(line)
            identity, step = data["identity"], Step(data["step"])
        except (ValueError, KeyError, TypeError):
            continue
        progress.steps[identity] = step
        if step is Step.FAILED:
            progress.messages[identity] = data.get("message", "")
    return progress


RANGE_PREFIX = "cuprof-"
"""The NVTX ranges of trials start with this. They are in the default domain, the one that `cupy.cuda.nvtx` offers."""
RANGE_FILTER = f"regex:{RANGE_PREFIX}.+/"
"""Selects every launch inside one of our push/pop ranges, at any depth: "/" marks a push/pop range by name, and a name
without "@" belongs to the default domain (Nsight Compute CLI, "NVTX Filtering")."""
_RANGE = re.compile(rf"{RANGE_PREFIX}([0-9a-f]{{32}})")


@contextmanager
def mark(identity: str) -> Iterator[None]:
    """Enclose the execution of a trial in a range, also that of programs which this process executes meanwhile."""
    from cupy.cuda import nvtx

    name = RANGE_PREFIX + identity
    nvtx.RangePush(name)
    os.environ[MARK_VARIABLE] = name
    try:
        yield
    finally:
        del os.environ[MARK_VARIABLE]
        nvtx.RangePop()


def find_identity(range_names: Sequence[str]) -> str | None:
    """Return the identity of the innermost of our ranges, or None.

    Args:
        range_names: push/pop ranges around a launch, outermost first; a library may add its own.
    """
    found = filter(None, map(_RANGE.fullmatch, reversed(range_names)))
    return next((match[1] for match in found), None)
